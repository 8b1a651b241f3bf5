"""The pieces of work that a crash may cut, each prepared as rows once, done by a process, and done again by the next.

Each is begun again as its real caller would: a client repeats its request with the same key, a duty is claimed anew
when its lease has run out. `check` holds the end to what must be true however often the work was cut.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sqlalchemy import select

from gitops_bot.authority import operator_claims
from gitops_bot.authority.asking import EXPIRE_DUTY, Opened
from gitops_bot.authority.duties import Pace, RowDuty
from gitops_bot.authority.expiry import Expiry
from gitops_bot.authority.operator_claims import OperatorClaims
from gitops_bot.authority.outbox import Delivered, Delivery, Outbox, Route
from gitops_bot.authority.settling import Settled
from gitops_bot.broker import loops
from gitops_bot.broker.loops import Listener
from gitops_bot.core.asks import Ask, AskState
from gitops_bot.core.captures import CaptureState
from gitops_bot.core.ledger import Entry, EventKind
from gitops_bot.store import agents, asks, captures, due, fleet, ledger, outbox, waiters
from gitops_bot.store.engine import Database, Tx
from gitops_bot.store.outbox import StoredEffect
from gitops_bot.store.states import AgentState, EffectState, SeatState, WaiterKind
from gitops_bot.store.tables import claims, runs
from tests import crash_fleet
from tests.capture_stage import REGIME, CaptureStage
from tests.decisions import VERB, Stage
from tests.fleet_stage import FleetStage
from tests.policy_bundles import CAPTURE

_A_RUN: Final = select(runs.c.id)
ONE: Final = {f"verbs/{VERB}/approve": 1}
PACE: Final = Pace(batch=5, lease_ms=1, first_ms=1, most_ms=5)


def stage_of(database: Database, folder: Path) -> CaptureStage:
    """Make the stage that every work plays on: leases of one millisecond, so that the next process need not wait."""
    stage = CaptureStage(database, folder=folder, lease_ms=1)
    stage.rules = Stage(database).under(ONE).rules
    return stage


def only_ask(stage: Stage) -> Ask:
    """Find the one ask there is."""
    (found,) = stage.read(lambda tx: asks.page(tx, "", 9))
    return stage.get(found.id)


def run_out(duty: RowDuty) -> None:
    """Let a duty do all that is due, twice over, as one step may make another due."""
    for _ in range(2):
        while duty.step() == 0:
            continue


# An ask


def prepare_ask(stage: CaptureStage) -> None:
    """Add the agent and its run; the wish comes from the work."""
    stage.run(stage.agent())


def do_ask(stage: CaptureStage) -> None:
    """Ask with a key, as a client repeats it."""
    agent = stage.agent()
    run = stage.read(lambda tx: agents.run(tx, tx.execute(_A_RUN).scalar_one()))
    assert isinstance(stage.try_ask(stage.wish(agent, run, idempotency_key="k")), Opened)


def check_ask(stage: CaptureStage) -> None:
    """One ask, opened once, with its waiter and its expiry."""
    ask = only_ask(stage)
    assert ask.state is AskState.OPEN
    assert Counter(stage.events(ask))["ask.opened"] == 1
    assert stage.read(lambda tx: waiters.of_ask(tx, ask.id)) == [(WaiterKind.RUN, ask.run)]
    assert stage.read(lambda tx: due.next_due(tx, EXPIRE_DUTY)) == ask.expires_at


# An answer


def prepare_answer(stage: CaptureStage) -> None:
    """Open the ask of an agent of the fleet."""
    stage.ask(FleetStage(stage.database, stage.rules).member("one"))


def do_answer(stage: CaptureStage) -> None:
    """Answer with a key, as a client repeats it."""
    assert isinstance(stage.answer(only_ask(stage), "bob", "approve", idempotency_key="k"), Settled)


def check_answer(stage: CaptureStage) -> None:
    """One verdict, one vote, one ending, the agent due, once."""
    ask = only_ask(stage)
    verdict = stage.verdict(ask)
    assert verdict is not None and verdict.by == ("bob",)
    kinds = Counter(stage.events(ask))
    assert (kinds["ask.answered"], kinds["vote.counted"], stage.count("votes")) == (1, 1, 1)
    assert stage.cause(ask) == "APPROVED"
    standing = stage.read(lambda tx: fleet.get(tx, ask.agent))
    assert standing is not None and (standing.due_reason, standing.wake_seq) == ("answer", 1)
    assert stage.read(lambda tx: due.next_due(tx, EXPIRE_DUTY)) is None


# Expiry


def prepare_expiry(stage: CaptureStage) -> None:
    """Ask something whose time is over."""
    stage.expiring()


def do_expiry(stage: CaptureStage) -> None:
    """Run the duty."""
    run_out(RowDuty(EXPIRE_DUTY, stage.database, Expiry(stage.database).one, PACE))


def check_expiry(stage: CaptureStage) -> None:
    """Expired once, by nobody, into the backlog; the agent is paused with one report."""
    ask = only_ask(stage)
    assert ask.state is AskState.EXPIRED and stage.verdict(ask) is None
    assert Counter(stage.events(ask))["ask.expired"] == 1
    assert [entry.ask for entry in stage.backlog()] == [ask.id]
    agent = stage.agent()
    assert agent.state is AgentState.PAUSED and len(stage.reports(agent)) == 1
    assert stage.cause(ask) == "EXPIRED"
    assert stage.read(lambda tx: due.next_due(tx, EXPIRE_DUTY)) is None


# Delivery


def prepare_outbox(stage: CaptureStage) -> None:
    """Put effects of both kinds into one lane, two of each."""
    with stage.database.write() as tx:
        for key in ("dedupes-1", "once-1", "dedupes-2", "once-2"):
            kind = key.split("-")[0]
            outbox.enqueue(tx, outbox.Effect(key, "lane", kind, {"key": key}, reply=("request", key)))


def do_outbox(stage: CaptureStage) -> None:
    """Deliver; the outside writes every call down."""

    def deliver(effect: StoredEffect) -> Delivery:
        stage.outside.call(effect.kind, key=effect.key, before=effect.attempted_before)
        return Delivered({"key": effect.key})

    def landed(tx: object, effect: StoredEffect, _result: object) -> None:
        ledger.append(tx, Entry(EventKind.EFFECT_DONE, 1, ask=effect.key))  # type: ignore[arg-type] # it is a Tx

    routes = {"dedupes": Route(deliver, landed), "once": Route(deliver, landed, at_most_once=True)}
    run_out(RowDuty(outbox.DUTY, stage.database, Outbox(stage.database, routes).lane, PACE))


def check_outbox(stage: CaptureStage) -> None:
    """What dedupes was delivered at least once under its key and is done; what does not, at most once, and is done or
    shown as unknown; each landed exactly when it is done; who waits is told."""
    for key in ("dedupes-1", "once-1", "dedupes-2", "once-2"):
        effect = stage.read(lambda tx, key=key: outbox.get(tx, key))  # type: ignore[misc] # bound now
        assert effect is not None
        calls = [call for call in stage.outside.calls(effect.kind) if call["key"] == key]
        landed = len(stage.read(lambda tx, key=key: ledger.of_ask(tx, key)))  # type: ignore[misc] # bound now
        if effect.kind == "dedupes":
            assert effect.state is EffectState.DONE and len(calls) >= 1
        else:
            assert effect.state in (EffectState.DONE, EffectState.UNKNOWN) and len(calls) <= 1
        assert landed == (effect.state is EffectState.DONE)
    assert stage.read(lambda tx: due.next_due(tx, outbox.DUTY)) is None
    assert {one.key for one in stage.write(lambda tx: due.claim(tx, "wake.request", 9, 1))} == {
        "dedupes-1", "once-1", "dedupes-2", "once-2",
    }  # fmt: skip


# Captures


def prepare_capture(stage: CaptureStage) -> None:
    """Two loops want one trace, and a person said yes before the draft was opened."""
    capture = stage.requested("loop-1")
    stage.requested("loop-2")
    assert isinstance(stage.answer(stage.get(capture.ask or ""), "bob", "approve"), Settled)


def prepare_denied(stage: CaptureStage) -> None:
    """Two loops want one trace, and a person said no after the draft was opened."""
    capture = stage.requested("loop-1")
    stage.requested("loop-2")
    stage.settle()
    assert isinstance(stage.answer(stage.get(capture.ask or ""), "alice", "deny", "too dear"), Settled)


def prepare_moved(stage: CaptureStage) -> None:
    """Somebody pushed to the pull request after the approval."""
    capture = stage.requested("loop-1")
    stage.settle()
    assert isinstance(stage.answer(stage.get(capture.ask or ""), "bob", "approve"), Settled)
    stage.on_forge.push(1)


def do_duties(stage: CaptureStage) -> None:
    """Run all duties of a broker until nothing is due."""
    stage.settle(rounds=400)


def check_capture(stage: CaptureStage) -> None:
    """Measured under one name, each loop told once, recorded, one pull request with at most one status comment."""
    (capture,) = stage.read(lambda tx: captures.page(tx, "", 9))
    assert capture.state is CaptureState.RESCOPED
    assert {call["job"] for call in stage.outside.calls("submit")} == {capture.job}
    assert sorted(stage.link.taken()) == [f"loop-1:1 rescope:{capture.ask}", f"loop-2:1 rescope:{capture.ask}"]
    seats = stage.read(lambda tx: captures.seats(tx, capture.id))
    assert {seat.state for seat in seats} == {SeatState.RESCOPED}
    kinds = Counter(str(entry["kind"]) for entry in _of_capture(stage, capture.id))
    for kind in ("approved", "submitted", "running", "ready", "rescoped"):
        assert kinds[f"capture.{kind}"] == 1, kinds
    assert kinds["bridge.rescope_acknowledged"] == 2


def check_denied(stage: CaptureStage) -> None:
    """Each loop told no, once; the pull request closed; nothing measured."""
    (capture,) = stage.read(lambda tx: captures.page(tx, "", 9))
    assert capture.state is CaptureState.DENIED
    assert stage.outside.calls("submit") == []
    assert sorted(stage.link.taken()) == [f"loop-1:1 deny:{capture.ask}", f"loop-2:1 deny:{capture.ask}"]
    pull = stage.on_forge.pull_request("acme/ops", 1)
    assert pull is not None and pull.state == "closed"
    assert len(stage.outside.state()["comments"]) == 1


def check_moved(stage: CaptureStage) -> None:
    """Asked anew once, on one new pull request, with the loop still waiting; nothing measured."""
    (capture,) = stage.read(lambda tx: captures.page(tx, "", 9))
    assert (capture.state, capture.moved_heads, capture.pull_request) == (CaptureState.REQUESTED, 1, 2)
    assert stage.outside.calls("submit") == []
    assert len(stage.outside.state()["pulls"]) == 2
    assert stage.read(lambda tx: len(asks.page(tx, "", 9, only_open=True))) == 1
    assert stage.link.taken() == []


def _of_capture(stage: CaptureStage, capture: str) -> list[dict[str, object]]:
    documents = stage.read(lambda tx: [one.document for one in ledger.sealed(tx, 0, 10_000)])
    return [dict(document) for document in documents if document["capture"] == capture]


# What an operator said at a loop's bridge


class ClaimedLog:
    """The log of a loop whose operator approved, twice over."""

    def read_log(self, address: str, token: str, after: int) -> tuple[tuple[int, dict[str, object]], ...]:
        said = {"kind": "approval_claimed", "trace_id": REGIME.trace_id, "decision": "approve", "reason": ""}
        lines: list[dict[str, object]] = [{"kind": "parked"}, {**said, "key": "k1"}, {**said, "key": "k2"}]
        return tuple(enumerate(lines, 1))[after:]


def with_operator(stage: CaptureStage) -> None:
    """Let the policy accept the channel of operators for captures."""
    stage.rules = stage.under({**ONE, f"{CAPTURE}/channels": ["workspace", "operator"]}).rules


def prepare_claim(stage: CaptureStage) -> None:
    """A loop waits; its log is not heard yet."""
    with_operator(stage)
    stage.requested("loop-1")


def do_claim(stage: CaptureStage) -> None:
    """Hear the loop and settle what it said."""
    with_operator(stage)
    database = stage.database
    listener = Listener(database, ClaimedLog(), 1_000, listen_ms=60_000)  # type: ignore[arg-type] # it only reads
    settler = OperatorClaims(database, stage.rules, "bob", trust_shared=True)

    def nudge(tx: Tx) -> None:
        due.set_due(tx, loops.DUTY, "loop-1", tx.now)

    stage.write(nudge)
    run_out(RowDuty(loops.DUTY, database, listener.one, PACE))
    run_out(RowDuty(operator_claims.DUTY, database, settler.one, PACE))


def check_claim(stage: CaptureStage) -> None:
    """Two claims of one person: one vote, one verdict, each claim settled once, the log read to its end."""
    ask = only_ask(stage)
    assert ask.state is AskState.APPROVED
    kinds = Counter(stage.events(ask))
    assert (kinds["vote.counted"], kinds["ask.answered"], kinds["vote.refused"]) == (1, 1, 0)
    states = stage.read(lambda tx: [row.state for row in tx.execute(select(claims.c.state))])
    assert states == ["counted", "counted"]
    loop = stage.read(lambda tx: agents.loop(tx, "loop-1"))
    assert loop is not None and loop.log_seq == 3
    assert stage.read(lambda tx: due.next_due(tx, operator_claims.DUTY)) is None


@dataclass(frozen=True)
class Work:
    """A piece of work: what is there before, what a process does, what must be true in the end."""

    prepare: Callable[[CaptureStage], None]
    do: Callable[[CaptureStage], None]
    check: Callable[[CaptureStage], None]


WORKS: Final = {
    "ask": Work(prepare_ask, do_ask, check_ask),
    "answer": Work(prepare_answer, do_answer, check_answer),
    "expiry": Work(prepare_expiry, do_expiry, check_expiry),
    "outbox": Work(prepare_outbox, do_outbox, check_outbox),
    "capture": Work(prepare_capture, do_duties, check_capture),
    "capture denied": Work(prepare_denied, do_duties, check_denied),
    "capture moved": Work(prepare_moved, do_duties, check_moved),
    "operator claim": Work(prepare_claim, do_claim, check_claim),
    "fleet": Work(crash_fleet.prepare, crash_fleet.do, crash_fleet.check),
}
