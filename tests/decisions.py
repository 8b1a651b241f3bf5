"""An agent, its runs, a policy and people who answer, over the rows of a real database, for tests of the use cases.

Each method is one transaction, as a surface of the product would make it. Refusals are committed, as they are there.
"""

import copy
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from sqlalchemy import func, select

from gitops_bot.authority import closing, settling
from gitops_bot.authority.asking import EXPIRE_DUTY, Opened, Waiter, Wish, open_ask
from gitops_bot.authority.duties import Pace, RowDuty
from gitops_bot.authority.expiry import Expiry
from gitops_bot.authority.rules import AskLimits, Rules
from gitops_bot.core.asks import Ask, Binding
from gitops_bot.core.errors import Refused
from gitops_bot.core.principals import PrincipalName
from gitops_bot.core.verdicts import Answer, Channel, Verdict
from gitops_bot.policy.model import Policy
from gitops_bot.store import agents, asks, ledger, threads, votes, waiters
from gitops_bot.store.engine import Database, Tx
from gitops_bot.store.schema import metadata
from gitops_bot.store.states import AgentKind, AgentState, RunState, WaiterKind
from tests.asserted import asserted
from tests.policy_bundles import CAPTURE, Patch, load

T = TypeVar("T")

PEOPLE: Final[Patch] = {f"{CAPTURE}/voters": {"people": ["alice", "bob"]}}
QUORUM: Final[Patch] = {
    "verbs/release.cut": {
        "channels": ["workspace", "operator", "forge"],
        "voters": {"people": ["alice", "bob", "carol"]},
        "approve": 2,
        "deny": 1,
        "expires": "1h",
    }
}
VERB: Final = "release.cut"


def policy_of(patch: Patch | None = None) -> Policy:
    """Load the policy of these tests: `capture.approve` by one of two people, `release.cut` by two of three."""
    return load({**copy.deepcopy({**PEOPLE, **QUORUM}), **(patch or {})})


def rules_of(patch: Patch | None = None, limits: AskLimits | None = None) -> Rules:
    """Give the rules of these tests."""
    return Rules(policy_of(patch), "github.com/acme/ops", "test", limits or AskLimits(max_open_bound=1_000_000))


@dataclass
class Stage:
    """A database with one agent of each kind asked for, and the policy that its asks are decided under."""

    database: Database
    rules: Rules = field(default_factory=rules_of)

    def write(self, work: Callable[[Tx], T]) -> T:
        """Do something in a write transaction."""
        with self.database.write() as tx:
            return work(tx)

    def read(self, work: Callable[[Tx], T]) -> T:
        """Do something in a read transaction."""
        with self.database.read() as tx:
            return work(tx)

    def agent(
        self, slug: str = "agent-1", kind: AgentKind = AgentKind.AGENT, principal: str = "agent", owner: str = "alice"
    ) -> agents.Agent:
        """Find or add an agent."""

        def work(tx: Tx) -> agents.Agent:
            known = agents.by_slug(tx, slug)
            return known or agents.add(tx, slug, kind, PrincipalName(principal), PrincipalName(owner), "to test")

        return self.write(work)

    def run(self, agent: agents.Agent, kind: str = "agent", state: RunState = RunState.PARKED) -> agents.Run:
        """Open a run."""
        return self.write(lambda tx: agents.add_run(tx, agent.id, kind, state))

    def wish(self, agent: agents.Agent | None = None, run: agents.Run | None = None, **given: Any) -> Wish:
        """Make a wish for `release.cut`, or with `verb=None` for a plain question."""
        agent = agent or self.agent()
        run = run or self.run(agent)
        wanted: dict[str, Any] = {"verb": VERB, "params": {"version": "1.0"}, "text": "Cut it?", "why": "tests pass"}
        return Wish(agent, run, Waiter(WaiterKind.RUN, run.id), **{**wanted, **given})

    def try_ask(self, wish: Wish) -> Opened | Refused:
        """Ask, and give what came of it."""
        return self.write(lambda tx: open_ask(tx, self.rules, wish))

    def ask(self, agent: agents.Agent | None = None, run: agents.Run | None = None, **given: Any) -> Ask:
        """Ask, and give the open ask."""
        opened = self.try_ask(self.wish(agent, run, **given))
        assert isinstance(opened, Opened), opened
        return opened.ask

    def question(self, labels: Sequence[str] = (), **given: Any) -> Ask:
        """Ask a plain question."""
        return self.ask(verb=None, params=None, text="Which way?", labels=labels, **given)

    def voice(self, who: str | None, channel: Channel = Channel.WORKSPACE, **given: Any) -> settling.Voice:
        """Make the voice of somebody of the policy, or of nobody."""
        principal = None if who is None else self.rules.policy.people[PrincipalName(who)].principal
        return settling.Voice(principal, channel, given.pop("evidence", b'{"seen":true}'), **given)

    def answer(
        self,
        ask: Ask | str,
        who: str | None,
        option: str | None,
        text: str | None = None,
        *,
        binding: Binding | None = None,
        channel: Channel = Channel.WORKSPACE,
        **given: Any,
    ) -> settling.Result:
        """Answer an ask, echoing its own binding unless another is given."""
        ask_id = ask if isinstance(ask, str) else ask.id
        echoed = binding or (None if isinstance(ask, str) else ask.binding)
        if isinstance(ask, Ask):
            given.setdefault("asserted", asserted(ask, who, option, text, channel))
        voice = self.voice(who, channel, **given)
        return self.write(lambda tx: settling.answer(tx, self.rules, ask_id, Answer(option, text, echoed), voice))

    def withdraw(self, ask: Ask, by: str = "agent-1") -> closing.Ended | Refused:
        """Withdraw an ask."""
        return self.write(lambda tx: closing.withdraw(tx, ask.id, by, "no longer needed"))

    def expire_all(self) -> None:
        """Let the expiry duty do all that is due."""
        duty = RowDuty(EXPIRE_DUTY, self.database, Expiry(self.database).one, Pace(batch=100))
        while duty.step() == 0:
            continue

    def expiring(self, **given: Any) -> Ask:
        """Ask something whose time is over when this returns; no duty has come by."""
        ask = self.ask(expires_in=1, **given)
        while self.read(lambda tx: tx.now) <= (ask.expires_at or 0):
            time.sleep(0.001)
        return ask

    def get(self, ask: Ask | str) -> Ask:
        """Read an ask again."""
        found = self.read(lambda tx: asks.get(tx, ask if isinstance(ask, str) else ask.id))
        assert found is not None
        return found

    def verdict(self, ask: Ask) -> Verdict | None:
        """Read an ask's verdict."""
        return self.read(lambda tx: votes.verdict(tx, ask.id))

    def events(self, ask: Ask) -> list[str]:
        """List the kinds of an ask's ledger entries."""
        return [str(document["kind"]) for document in self.entries(ask)]

    def entries(self, ask: Ask) -> list[dict[str, Any]]:
        """List an ask's ledger entries."""
        return self.read(lambda tx: ledger.of_ask(tx, ask.id))

    def cause(self, ask: Ask) -> str | None:
        """Read why the run that waits for an ask was woken."""
        return self.read(lambda tx: waiters.cause(tx, ask.id, WaiterKind.RUN, ask.run))

    def count(self, table: str) -> int:
        """Count the rows of a table."""
        found = select(func.count()).select_from(metadata.tables[table])
        return self.read(lambda tx: int(tx.execute(found).scalar_one()))

    def reports(self, agent: agents.Agent) -> list[threads.Message]:
        """Read an agent's thread."""
        return self.read(lambda tx: threads.thread(tx, agent.id, 0, 100))

    def backlog(self) -> list[threads.BacklogEntry]:
        """Read the backlog."""
        return self.read(lambda tx: threads.open_backlog(tx, "", 100))

    def under(self, patch: Patch) -> "Stage":
        """Give the same database under another policy, as if it had been adopted."""
        return replace(self, rules=replace(self.rules, policy=policy_of(patch)))


def reason_of(result: object) -> str | None:
    """Give the code of a refusal; None for anything else."""
    return result.reason.value if isinstance(result, Refused) else None


def facts_of(result: object) -> Mapping[str, Any]:
    """Give the facts of a refusal."""
    assert isinstance(result, Refused), result
    return result.facts


def evidence(**facts: Any) -> bytes:
    """Make evidence bytes."""
    return json.dumps(facts).encode()


__all__ = ["VERB", "AgentState", "Stage", "evidence", "facts_of", "policy_of", "reason_of", "rules_of"]
