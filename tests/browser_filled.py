"""A house with rows of everything that the pages show; what an agent, a loop or somebody outside words is given.

Asks and messages come over the API, as agents and people send them. A capture and a judged commit are written as the
broker writes them, for this house has no forge and nobody who signs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from gitops_bot.broker.frozen import fresh
from gitops_bot.cli.host import broker_database
from gitops_bot.core.captures import CaptureState, Regime
from gitops_bot.core.errors import Reason
from gitops_bot.core.ledger import Entry, EventKind
from gitops_bot.store import agents, captures, ledger, signed_commits, threads
from gitops_bot.store.captures import Seat as At
from gitops_bot.store.engine import Tx
from gitops_bot.store.ids import new_id
from gitops_bot.store.signed_commits import Judgement
from gitops_bot.store.states import RunState, SeatState
from tests.browser_house import House
from tests.browser_stage import until

REGIME: Final = Regime("Qwen/Qwen3-0.6B", 48, 8, 8, 0, "0.0000")
FIRST: Final = Regime("Qwen/Qwen3-0.6B", 8, 8, 8, 0, "0.0000")
TO: Final = "DE89370400440532013000"
COMMIT: Final = "a" * 40


@dataclass(frozen=True)
class Filled:
    """What there is: asks of every kind, one that ended and one that expired, a capture."""

    question: str
    approval: str
    high: str
    gated: str
    ended: str
    expired: str
    capture: str

    def asks(self) -> tuple[str, ...]:
        """Give the ids of all asks."""
        return (self.question, self.approval, self.high, self.gated, self.ended, self.expired)


def fill(house: House, words: str, *, service: str = "web") -> Filled:
    """Have an agent ask everything that can be asked, in these words, and write the rest."""
    line = " ".join(words.split())[:480]
    house.command("agent", "add", "loop-1", "--principal", "agent-1", "--loop", "--purpose", line)
    expired = house.question(words, "yes", words[:150], why=words, expires_in="1s")
    ended = house.request("note.publish", text=line, why=words)
    house.agent().post(f"/asks/{ended}/cancel", {"reason": words})
    approval = house.request("note.publish", text=f"{line} again", why=words)
    high = house.request("service.delete", service=service, why=words)
    gated = house.request("payments.transfer", amount_minor=125_000, currency="EUR", to=TO, why=words)
    question = house.question(words, "yes", words[:150], why=words)
    until(lambda: house.state(expired) == "EXPIRED", "the broker ends what is over")
    capture = write(house, lambda tx: _capture(tx, question, words))
    write(house, lambda tx: _said(tx, gated, words))
    return Filled(question, approval, high, gated, ended, expired, capture)


def write(house: House, work: Callable[[Tx], Any]) -> Any:
    """Do one piece of work in a transaction of the broker's role."""
    with broker_database(house.config) as (_, database), database.write() as tx:
        return work(tx)


def _capture(tx: Tx, ask: str, words: str) -> str:
    agent = agents.by_slug(tx, "loop-1")
    assert agent is not None
    run = agents.add_run(tx, agent.id, "loop", RunState.PARKED)
    agents.add_loop(tx, "tuner", agent.id, run.id, "127.0.0.1:4711", "b" * 32)
    made = fresh(
        tx, REGIME, environment="demo", repository="acme/ops", agent=agent, run=run.id, why=words, ask=ask,
        id=new_id(tx.now),
    )  # fmt: skip
    captures.add(tx, made)
    facts: dict[str, Any] = {"error": words, "knobs": {"ttft_ms": "12.5", words[:40]: words}, "pull_request": 7}
    facts |= {"attempt": 2, "url": "https://github.com/acme/ops/pull/7", "head": COMMIT}
    captures.change(tx, made, state=CaptureState.RUNNING, digest=f"sha256:{'0' * 64}", **facts)
    captures.seat(tx, At(made.id, run.id, "tuner", 1, "block", SeatState.WAITING))
    for regime, score in ((FIRST, "41.5"), (REGIME, "96.25")):
        told = {"loop": "tuner", "fingerprint": "0123456789abcdef", "baseline_score": score, "regime": regime.trace_id}
        ledger.append(tx, Entry(EventKind.LOOP_SEGMENT, tx.now, run=run.id, agent=agent.id, facts=told))
    return made.id


def _said(tx: Tx, ask: str, words: str) -> None:
    agent = agents.by_slug(tx, "agent-1")
    assert agent is not None
    threads.post(tx, agent.id, "message", words, author_kind="agent", author=agent.slug)
    threads.post(tx, agent.id, "report", words)
    threads.post(tx, agent.id, "notice", words, ask=ask)
    threads.post(tx, agent.id, "message", "Please try *another* regime.", author_kind="person", author="bob")
    signed_commits.receive(tx, "bob", [COMMIT])
    signed_commits.judge(tx, "bob", COMMIT, Judgement(Reason.UNKNOWN_KEY.value, words, ask, "approve"))
    ledger.append(
        tx,
        Entry(
            EventKind.VOTE_REFUSED, tx.now, ask=ask, principal="bob", channel="signed",
            reason=Reason.UNKNOWN_KEY.value, facts={"commit": COMMIT, "detail": words},
        ),
        Entry(EventKind.REQUESTS_FOREIGN, tx.now, facts={"commit": COMMIT, "author": words}),
    )  # fmt: skip
