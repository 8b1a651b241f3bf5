"""Agents of a fleet before their turns: wakes, messages, answers and dispatches over a real database, for tests."""

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final

from gitops_bot.authority import fleet_agents
from gitops_bot.authority.agents import Author, Wanted, post
from gitops_bot.core.asks import Ask
from gitops_bot.core.principals import PrincipalName
from gitops_bot.fleet.tick import dispatch
from gitops_bot.store import agents, fleet
from gitops_bot.store.due_agents import Opened
from gitops_bot.store.fleet import Setup, Standing
from gitops_bot.store.states import HarnessKind, RunState, WakeOn, WakePolicy
from gitops_bot.store.tables import runs
from tests.decisions import Stage

LANE: Final = "command:local"
LEASE: Final = 30_000


@dataclass
class DueStage(Stage):
    """`Stage`, and the fleet's own ways."""

    def member(
        self, slug: str = "agent-1", *, first_at: int | None = None, principal: str = "agent", **given: Any
    ) -> agents.Agent:
        """Add an agent that the fleet runs; by default one of its own lane that only events wake."""
        setup: dict[str, Any] = {
            "harness": HarnessKind.COMMAND,
            "command": ("true",),
            "folder": str(PurePosixPath("/") / "tmp"),
            "lane": LANE,
            "policy": WakePolicy.EVENT,
            "wake_on": WakeOn.ANY,
            "turn_limit": 60_000,
        }
        wanted = Wanted(slug, principal, PrincipalName("alice"), "to test", False)
        added = self.write(
            lambda tx: fleet_agents.add(tx, self.rules.policy, wanted, Setup(**{**setup, **given}), first_at)
        )
        assert isinstance(added, fleet_agents.Added), added
        return added.agent

    def standing(self, agent: agents.Agent) -> Standing:
        """Read where a fleet agent stands."""
        found = self.read(lambda tx: fleet.get(tx, agent.id))
        assert found is not None
        return found

    def wake(self, agent: agents.Agent, reason: str = "person") -> None:
        """Make an agent due now."""
        assert self.write(lambda tx: fleet.wake(tx, agent.id, reason))

    def say(self, agent: agents.Agent, text: str, *, kind: str = "person", who: str = "alice", depth: int = 0) -> None:
        """Write to an agent's thread, which wakes it."""
        author = Author(kind, who, PrincipalName(who if kind == "person" else "agent"))
        assert isinstance(self.write(lambda tx: post(tx, agent, author, text, depth=depth)), int)

    def dispatch(self, lane: str = LANE, slots: int = 4, holder: str = "broker-1") -> list[Opened]:
        """Open the runs that are due, without a body."""
        return self.write(lambda tx: dispatch(tx, lane, slots, holder, LEASE))

    def parked_ask(self, agent: agents.Agent, **given: Any) -> Ask:
        """Let a run of an agent be parked with an open question."""
        run = self.run(agent, state=RunState.PARKED)
        return self.question(agent=agent, run=run, **given)

    def runs(self, agent: agents.Agent) -> list[tuple[str, int, str]]:
        """List the runs of an agent: id, version, state."""
        found = runs.select().where(runs.c.agent == agent.id).order_by(runs.c.id)
        return [(row.id, row.version, row.state) for row in self.read(lambda tx: tx.execute(found).all())]
