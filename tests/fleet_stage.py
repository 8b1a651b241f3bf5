"""A fleet over the rows of a real database, without a process: agents are dispatched as a tick does it, what a body
said is given as text, and its turn is settled as its broker, or a reconciler, would.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from sqlalchemy import select, update

from gitops_bot.authority import agents as acts
from gitops_bot.authority import fleet_agents
from gitops_bot.authority.agents import Wanted
from gitops_bot.core.principals import PrincipalName
from gitops_bot.fleet import landing, tick
from gitops_bot.fleet.grammar import Reader
from gitops_bot.fleet.machine import Settled
from gitops_bot.fleet.reconcile import Reconcile
from gitops_bot.fleet.settle import settle
from gitops_bot.fleet.turn import Turn
from gitops_bot.ports import BodyEnd, BodyStop
from gitops_bot.store import agents, dispatches, fleet, threads
from gitops_bot.store.due_agents import Opened
from gitops_bot.store.engine import Tx
from gitops_bot.store.fleet import Setup, Standing
from gitops_bot.store.fleet_tables import capsule_items
from gitops_bot.store.fleet_tables import fleet_agents as rows
from gitops_bot.store.states import HarnessKind, RunState, WakeOn, WakePolicy
from gitops_bot.store.tables import asks
from gitops_bot.store.tables import runs as runs_table
from gitops_bot.store.work_tables import effects
from gitops_bot.store.work_tables import ledger as ledger_table
from tests.decisions import Stage, policy_of
from tests.policy_bundles import Patch

LANE: Final = "command:test"
HOLDER: Final = "broker-1"
LEASE: Final = 60_000
WELL: Final = BodyEnd(BodyStop.ENDED, 0)


@dataclass
class FleetStage(Stage):
    """What a broker does with a fleet, each step a transaction."""

    def under(self, patch: Patch) -> "FleetStage":
        """Give the same fleet under another policy, as if it had been adopted."""
        return replace(self, rules=replace(self.rules, policy=policy_of(patch)))

    def member(self, slug: str, policy: WakePolicy = WakePolicy.EVENT, **given: Any) -> agents.Agent:
        """Add an agent of the fleet; one that runs by events alone unless told otherwise."""
        principal, owner = given.pop("principal", "agent"), given.pop("owner", "alice")
        first = given.pop("first_at", 2**53 - 1 if policy is WakePolicy.SCHEDULED else None)
        setup: dict[str, Any] = {
            "harness": HarnessKind.COMMAND,
            "command": ("true",),
            "folder": "/tmp",
            "lane": LANE,
            "wake_on": WakeOn.ANY,
            "turn_limit": 60_000,
            **given,
        }
        if policy is WakePolicy.SCHEDULED:
            setup = {"cron": "30 7 * * *", "zone": "UTC", **setup}
        wanted = Wanted(slug, principal, PrincipalName(owner) if owner else None, "to test", loop=False)
        added = self.write(
            lambda tx: fleet_agents.add(tx, self.rules.policy, wanted, Setup(policy=policy, **setup), first)
        )
        assert isinstance(added, fleet_agents.Added), added
        return added.agent

    def wake(self, agent: agents.Agent, reason: str = "person") -> None:
        """Wake an agent as a person does."""
        self.write(lambda tx: fleet.wake(tx, agent.id, reason))

    def dispatched(self, holder: str = HOLDER, lease: int = LEASE) -> dict[str, Opened]:
        """Open the runs of all agents that are due, by slug."""
        opened = self.write(lambda tx: tick.dispatch(tx, LANE, 100, holder, lease))
        return {one.agent.slug: one for one in opened}

    def dispatch(self, agent: agents.Agent, *, lease: int = LEASE, now: bool = True) -> Opened:
        """Wake an agent, unless it is due already, and open its run."""
        if now and not self.is_due(agent):
            self.wake(agent)
        return self.dispatched(lease=lease)[agent.slug]

    def turn(self, opened: Opened) -> Turn:
        """Give the turn of a run that was opened."""
        one = opened.dispatch
        return Turn(opened.agent, one.run, one.version, one.wake_seq, one.depth, one.lane, one.holder)

    def say(self, opened: Opened, text: str, part: int = 0) -> bool:
        """Let a body say something while it runs: it is kept, and what lands at once lands."""
        found = Reader().feed(text.encode("utf-8"))

        def work(tx: Tx) -> bool:
            dispatches.append_text(tx, opened.dispatch.run, opened.dispatch.version, part, text)
            return landing.inform(tx, self.rules, self.turn(opened), found)

        return self.write(work)

    def settle(self, opened: Opened, text: str = "", end: BodyEnd = WELL) -> Settled | None:
        """Settle a turn by all that its body said."""
        return self.write(lambda tx: self.settle_in(tx, opened, text, end))

    def settle_in(self, tx: Tx, opened: Opened, text: str = "", end: BodyEnd = WELL) -> Settled | None:
        """Settle a turn in a transaction that is the caller's."""
        reader = Reader()
        late = reader.feed(text.encode("utf-8"))
        ended = reader.end(whole=end.stop is BodyStop.ENDED)
        whole = type(ended)(
            (*late, *ended.late), ended.asks, ended.outcome, ended.asked_outcome, ended.dropped, ended.report
        )
        return settle(tx, self.rules, self.turn(opened), end, whole)

    def run_turn(self, agent: agents.Agent, text: str = "", end: BodyEnd = WELL) -> Opened:
        """Dispatch an agent and settle its turn."""
        opened = self.dispatch(agent)
        assert self.settle(opened, text, end) is not None
        return opened

    def reconcile(self, steps: int = 2, **given: Any) -> None:
        """Let the reconciler look."""
        duty = Reconcile(self.database, self.rules, **given)
        for _ in range(steps):
            duty.step()

    def standing(self, agent: agents.Agent) -> Standing:
        """Read where an agent stands."""
        found = self.read(lambda tx: fleet.get(tx, agent.id))
        assert found is not None
        return found

    def wakes_in(self, agent: agents.Agent) -> tuple[int | None, str | None]:
        """Give in how many ms an agent is due, and why."""

        def work(tx: Tx) -> tuple[int | None, str | None]:
            standing = fleet.get(tx, agent.id)
            assert standing is not None
            return (None if standing.due_at is None else standing.due_at - tx.now, standing.due_reason)

        return self.read(work)

    def is_due(self, agent: agents.Agent) -> bool:
        """Tell whether an agent is due now."""
        wait, _ = self.wakes_in(agent)
        return wait is not None and wait <= 0

    def hurry(self, agent: agents.Agent) -> None:
        """Let the time of an agent's wake come."""
        self.write(lambda tx: tx.execute(update(rows).where(rows.c.agent == agent.id).values(due_at=tx.now)))

    def state_of(self, run: str) -> RunState:
        """Read a run's state."""
        found = self.read(lambda tx: agents.run(tx, run))
        assert found is not None
        return found.state

    def runs(self, agent: agents.Agent) -> list[tuple[str, int, str]]:
        """Read the runs of an agent: id, version, state."""
        statement = select(runs_table).where(runs_table.c.agent == agent.id).order_by(runs_table.c.id)
        return self.read(lambda tx: [(row.id, row.version, row.state) for row in tx.execute(statement)])

    def open_asks(self, agent: agents.Agent) -> list[str]:
        """Name an agent's open asks, in the order in which they were opened."""
        statement = (
            select(asks.c.id)
            .join(ledger_table, ledger_table.c.ask == asks.c.id)
            .where(asks.c.agent == agent.id, asks.c.state == "OPEN", ledger_table.c.kind == "ask.opened")
            .order_by(ledger_table.c.id)
        )
        return self.read(lambda tx: list(tx.execute(statement).scalars()))

    def told(self, agent: agents.Agent) -> list[tuple[str, str, bool]]:
        """Read what an agent is or was told: kind, what, whether a capsule holds it."""
        statement = select(capsule_items).where(capsule_items.c.agent == agent.id).order_by(capsule_items.c.id)
        return self.read(lambda tx: [(row.kind, row.ref, row.run is not None) for row in tx.execute(statement)])

    def lines(self, agent: agents.Agent) -> list[tuple[str, str]]:
        """Read an agent's thread: by what kind of author, and the text."""
        return [(one.author_kind, one.text) for one in self.read(lambda tx: threads.thread(tx, agent.id, 0, 500))]

    def effects(self) -> list[tuple[str, str]]:
        """Read the lanes and kinds of effects."""
        statement = select(effects.c.lane, effects.c.kind).order_by(effects.c.id)
        return self.read(lambda tx: [(row.lane, row.kind) for row in tx.execute(statement)])

    def happened(self, kind: str) -> list[Mapping[str, Any]]:
        """Read the ledger's entries of a kind."""
        statement = select(ledger_table).where(ledger_table.c.kind == kind).order_by(ledger_table.c.id)
        return self.read(lambda tx: [dict(row._mapping) for row in tx.execute(statement)])

    def retire(self, agent: agents.Agent) -> None:
        """Retire an agent."""
        done = self.write(lambda tx: acts.retire(tx, agent.slug, PrincipalName("alice"), "over"))
        assert isinstance(done, acts.Changed), done

    def resume(self, agent: agents.Agent) -> None:
        """Resume an agent."""
        done = self.write(lambda tx: acts.resume(tx, agent.slug, PrincipalName("alice")))
        assert isinstance(done, acts.Changed), done

    def message(self, agent: agents.Agent, text: str, who: str = "bob") -> None:
        """Write to an agent as a person does."""
        author = acts.Author("person", who, PrincipalName(who))
        assert isinstance(self.write(lambda tx: acts.post(tx, agent, author, text)), int)

    def token_stands(self, token: str) -> bool:
        """Tell whether somebody is who shows a token."""
        return self.read(lambda tx: agents.bearer(tx, token)) is not None


__all__ = ["HOLDER", "LANE", "WELL", "FleetStage"]
