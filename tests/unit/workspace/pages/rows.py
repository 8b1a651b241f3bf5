"""Rows of everything that the pages show, with words of an agent's in each field that an agent, a loop, a program or
somebody outside chooses. Written as the broker's role, by the product's own functions where there are any.
"""

from dataclasses import dataclass
from typing import Any, Final

from gitops_bot.authority.rules import Rules
from gitops_bot.broker.frozen import fresh
from gitops_bot.core.captures import CaptureState, Regime
from gitops_bot.core.errors import Reason
from gitops_bot.core.ledger import Entry, EventKind
from gitops_bot.core.principals import PrincipalName
from gitops_bot.store import agents, branches, captures, ledger, notices, signed_commits, threads
from gitops_bot.store.agents import Agent
from gitops_bot.store.branches import Branch
from gitops_bot.store.captures import Seat
from gitops_bot.store.engine import Database, Tx
from gitops_bot.store.ids import new_id
from gitops_bot.store.signed_commits import Judgement
from gitops_bot.store.states import AgentKind, BranchState, RunState, SeatState
from tests.decisions import VERB, Stage

HOSTILE: Final = '"><script>alert(1)</script><img src=x onerror=alert(1) hx-get=/x>[x](javascript:alert(1))'
"""What must never come out of a page as markup."""
REGIME: Final = Regime("Qwen/Qwen3-0.6B", 48, 8, 8, 0, "0.0000")
FIRST: Final = Regime("Qwen/Qwen3-0.6B", 8, 8, 8, 0, "0.0000")
TIP: Final = "a" * 40


@dataclass(frozen=True)
class Filled:
    """What was written: the agent and its asks, the capture, the gated ask."""

    agent: Agent
    question: str
    approval: str
    gated: str
    expired: str
    capture: str


def fill(broker: Database, rules: Rules, words: str = HOSTILE) -> Filled:
    """Write rows of every kind; what an agent words is `words`."""
    stage = Stage(broker, rules)
    agent = broker_write(broker, lambda tx: _agent(tx, "tuner", AgentKind.LOOP, words))
    for slug in ("idle-one", "paused-one"):
        broker_write(broker, lambda tx, slug=slug: _agent(tx, slug, AgentKind.APPLICATION, words))
    expired = stage.expiring(agent=agent, verb=None, params=None, text=words, why=words)
    stage.expire_all()
    question = stage.ask(agent, verb=None, params=None, text=words, why=words, labels=("yes", words))
    approval = stage.ask(agent, params={"version": words}, text=words, why=words)
    params = {"amount_minor": 125_000, "currency": "EUR", "to": "DE89370400440532013000"}
    gated = stage.ask(agent, verb="payments.transfer", params=params, text=words, why=words)
    capture = broker_write(broker, lambda tx: _capture(tx, agent, approval.id, words))
    broker_write(broker, lambda tx: _thread(tx, agent, approval.id, words))
    broker_write(broker, lambda tx: _signed(tx, gated.id, words))
    broker_write(broker, lambda tx: _told(tx, agent, approval.id, words))
    seal(broker)
    return Filled(agent, question.id, approval.id, gated.id, expired.id, capture)


def broker_write(broker: Database, work: Any) -> Any:
    """Do one piece of work in a transaction of its own."""
    with broker.write() as tx:
        return work(tx)


def seal(broker: Database) -> None:
    """Seal all that was written."""
    with broker.write() as tx:
        while ledger.seal_next(tx, 500)[0]:
            pass


def _agent(tx: Tx, slug: str, kind: AgentKind, words: str) -> Agent:
    return agents.add(tx, slug, kind, PrincipalName("agent"), PrincipalName("alice"), words)


def _capture(tx: Tx, agent: Agent, ask: str, words: str) -> str:
    run = agents.add_run(tx, agent.id, "loop", RunState.PARKED)
    agents.add_loop(tx, "tuner-loop", agent.id, run.id, "127.0.0.1:4711", "b" * 32)
    made = fresh(
        tx, REGIME, environment="test", repository="acme/ops", agent=agent, run=run.id, why=words, ask=ask,
        id=new_id(tx.now),
    )  # fmt: skip
    captures.add(tx, made)
    written = {
        "error": words, "knobs": {"ttft_ms": "12.5", words[:40]: words}, "pull_request": 7, "attempt": 2,
        "url": "https://github.com/acme/ops/pull/7", "head": TIP, "digest": f"sha256:{'0' * 64}",
    }  # fmt: skip
    captures.change(tx, made, state=CaptureState.RUNNING, **written)
    captures.seat(tx, Seat(made.id, run.id, "tuner-loop", 1, "block", SeatState.WAITING))
    for regime, score in ((FIRST, "41.5"), (REGIME, "96.25"), (None, "nan")):
        facts = {"loop": "tuner-loop", "fingerprint": "0123456789abcdef", "baseline_score": score}
        facts["regime"] = words if regime is None else regime.trace_id
        ledger.append(tx, Entry(EventKind.LOOP_SEGMENT, tx.now, run=run.id, agent=agent.id, facts=facts))
    return made.id


def _thread(tx: Tx, agent: Agent, ask: str, words: str) -> None:
    threads.post(tx, agent.id, "message", words, author_kind="agent", author=agent.slug)
    threads.post(tx, agent.id, "report", words)
    threads.post(tx, agent.id, "notice", words, ask=ask)
    threads.post(tx, agent.id, "message", "Please try *another* regime.", author_kind="person", author="bob")


def _signed(tx: Tx, ask: str, words: str) -> None:
    place: dict[str, Any] = {"tip": TIP, "root": "b" * 40, "seen": "c" * 40, "looked_at": tx.now, "changed_at": tx.now}
    good = Branch(PrincipalName("alice"), BranchState.READ, reason=None, detail=None, **place)
    bad = Branch(PrincipalName("bob"), BranchState.FROZEN, reason=Reason.HISTORY_REWRITTEN.value, detail=words, **place)
    branches.put(tx, good)
    branches.put(tx, bad)
    signed_commits.receive(tx, "bob", [TIP])
    signed_commits.judge(tx, "bob", TIP, Judgement(Reason.UNKNOWN_KEY.value, words, ask, "approve"))
    ledger.append(
        tx,
        Entry(
            EventKind.VOTE_REFUSED, tx.now, ask=ask, principal="bob", channel="signed",
            reason=Reason.UNKNOWN_KEY.value, facts={"commit": TIP, "detail": words},
        ),
        Entry(EventKind.REQUESTS_FOREIGN, tx.now, facts={"commit": TIP, "author": words}),
    )  # fmt: skip


def _told(tx: Tx, agent: Agent, ask: str, words: str) -> None:
    people = [PrincipalName("alice"), PrincipalName("bob")]
    notices.tell(tx, people, "passkey.enrolled", f"A passkey {words} of carol's was enrolled.")
    entry = Entry("agent.said", tx.now, ask=ask, agent=agent.id, reason=words, facts={"words": words, words[:30]: 1})
    ledger.append(tx, entry)


__all__ = ["HOSTILE", "VERB", "Filled", "fill", "seal"]
