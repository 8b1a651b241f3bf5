"""Captures at the level of rows, with an outside of files: who waits is told once, what moved is asked anew."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gitops_bot.authority import closing
from gitops_bot.authority.asking import Opened
from gitops_bot.authority.settling import Revoked, Settled
from gitops_bot.broker.captures import Answered, leave
from gitops_bot.broker.successors import head_moved
from gitops_bot.core.asks import Ask, AskState
from gitops_bot.core.captures import CaptureState
from gitops_bot.core.principals import PrincipalName
from gitops_bot.store import asks, captures, threads
from gitops_bot.store.captures import Capture
from gitops_bot.store.roles import Role
from gitops_bot.store.states import SeatState
from tests.capture_stage import CaptureStage
from tests.decisions import reason_of
from tests.store_fixtures import FreshDatabase


@pytest.fixture
def stage(database: FreshDatabase, tmp_path: Path) -> Iterator[CaptureStage]:
    return CaptureStage(database.open(Role.BROKER), folder=tmp_path)


def ask_of(stage: CaptureStage, capture: Capture) -> Ask:
    ask = stage.capture(capture).ask
    assert ask is not None
    return stage.get(ask)


def seats(stage: CaptureStage, capture: Capture) -> dict[str, SeatState]:
    return {seat.loop: seat.state for seat in stage.read(lambda tx: captures.seats(tx, capture.id))}


def approve(stage: CaptureStage, capture: Capture) -> None:
    assert isinstance(stage.answer(ask_of(stage, capture), "bob", "approve"), Settled)


def test_the_way_of_a_capture_from_request_to_record(stage: CaptureStage) -> None:
    capture = stage.requested()
    stage.settle()
    assert stage.capture(capture).pull_request == 1
    approve(stage, capture)
    stage.settle()
    done = stage.capture(capture)
    assert done.state is CaptureState.RESCOPED and done.digest is not None
    assert seats(stage, capture) == {"loop-1": SeatState.RESCOPED}
    assert stage.link.taken() == [f"loop-1:1 rescope:{done.ask}"]
    assert len(stage.outside.calls("submit")) == 1
    pull = stage.on_forge.pull_request("acme/ops", 1)
    assert pull is not None and not pull.draft and pull.state == "open"


def test_41_when_the_loop_gave_up_a_later_approve_is_refused_and_nothing_is_captured(stage: CaptureStage) -> None:
    capture = stage.requested()
    stage.settle()
    assert stage.write(lambda tx: leave(tx, "loop-1", "the loop's --max-park ran out")) == 1
    stage.settle()
    ask = ask_of(stage, capture)
    late = stage.answer(ask, "bob", "approve")
    assert reason_of(late) == "withdrawn"
    stage.settle()
    assert stage.capture(capture).state is CaptureState.CANCELLED
    assert stage.outside.calls("submit") == []
    assert stage.link.taken() == [], "who went away is told nothing"
    pull = stage.on_forge.pull_request("acme/ops", 1)
    assert pull is not None and pull.state == "closed"


def test_41_while_another_loop_waits_the_ask_stands(stage: CaptureStage) -> None:
    capture = stage.requested("loop-1")
    stage.requested("loop-2")
    stage.write(lambda tx: leave(tx, "loop-1", "it gave up"))
    approve(stage, capture)
    stage.settle()
    assert seats(stage, capture) == {"loop-1": SeatState.GONE, "loop-2": SeatState.RESCOPED}
    assert [sent.split()[0] for sent in stage.link.taken()] == ["loop-2:1"]


def test_42_two_loops_for_one_trace_share_one_ask_and_one_capture(stage: CaptureStage) -> None:
    first, second = stage.requested("loop-1"), stage.requested("loop-2")
    assert first.id == second.id and stage.count("asks") == 1
    approve(stage, first)
    stage.settle()
    assert seats(stage, first) == {"loop-1": SeatState.RESCOPED, "loop-2": SeatState.RESCOPED}
    assert sorted(sent.split()[0] for sent in stage.link.taken()) == ["loop-1:1", "loop-2:1"]
    assert len(stage.outside.calls("submit")) == 1


def test_42_a_third_loop_that_comes_later_gets_the_finished_one(stage: CaptureStage) -> None:
    capture = stage.requested("loop-1")
    approve(stage, capture)
    stage.settle()
    answered = stage.request("loop-3")
    assert isinstance(answered, Answered) and answered.status == "hit"
    stage.settle()
    assert seats(stage, capture)["loop-3"] is SeatState.RESCOPED
    assert (stage.count("asks"), len(stage.outside.calls("submit"))) == (1, 1)


@pytest.mark.parametrize("fault", ["revoked", "forged", "old"])
def test_a_hit_needs_a_standing_approval_and_the_bytes_that_were_measured(stage: CaptureStage, fault: str) -> None:
    capture = stage.requested("loop-1")
    approve(stage, capture)
    stage.settle()
    match fault:
        case "revoked":
            assert isinstance(stage.answer(ask_of(stage, capture), "alice", "deny"), Revoked)
        case "forged":
            path = Path(stage.capture(capture).artefact or "")
            path.write_text("somebody else's numbers", encoding="utf-8")
        case "old":
            stage.rules = replace(stage.rules, policy=stage.under({"verbs/capture.approve/reuse": "1s"}).rules.policy)
            import time

            time.sleep(1.05)
    answered = stage.request("loop-2")
    stage.settle()
    if fault == "forged":
        # The workspace hashes before it offers a hit; whatever it offers is hashed again before anybody is told.
        assert seats(stage, capture)["loop-2"] is SeatState.DENIED
    else:
        assert isinstance(answered, Answered) and answered.status == "pending_approval"
    assert f"loop-2:1 rescope:{capture.ask}" not in stage.link.taken()


def test_34_a_push_after_the_approval_is_asked_anew_and_nothing_is_submitted(stage: CaptureStage) -> None:
    capture = stage.requested()
    stage.settle()
    old = ask_of(stage, capture)
    approve(stage, capture)
    stage.on_forge.push(1)
    stage.settle()
    now = stage.capture(capture)
    assert now.state is CaptureState.REQUESTED and now.ask != old.id
    assert stage.outside.calls("submit") == []
    assert seats(stage, capture) == {"loop-1": SeatState.WAITING}
    assert now.pull_request == 2, "the successor has a pull request of its own"
    approve(stage, capture)
    stage.settle()
    assert stage.capture(capture).state is CaptureState.RESCOPED


def test_the_third_move_in_a_row_goes_to_the_backlog_and_the_loop_is_told_no(stage: CaptureStage) -> None:
    capture = stage.requested()
    for move in range(3):
        stage.settle()
        assert stage.capture(capture).moved_heads == move
        approve(stage, capture)
        stage.on_forge.push(move + 1)
        last = ask_of(stage, capture)
        stage.settle()
    assert stage.capture(capture).state is CaptureState.DENIED
    assert [entry.ask for entry in stage.backlog()] == [last.id]
    assert [sent.split()[1] for sent in stage.link.taken()] == [f"deny:{last.id}"]


def test_a_move_that_two_processes_saw_is_one_move(stage: CaptureStage) -> None:
    capture = stage.requested()
    stage.settle()
    ask = ask_of(stage, capture)
    for _ in range(2):
        stage.write(lambda tx: head_moved(tx, stage.rules, stage.place, capture.id) if _is(tx, capture, ask) else None)
    assert stage.capture(capture).moved_heads == 1


def _is(tx: object, capture: Capture, ask: Ask) -> bool:
    found = captures.get(tx, capture.id)  # type: ignore[arg-type] # it is a Tx
    return found is not None and found.ask == ask.id


def test_what_the_policy_would_not_ask_any_more_stops_in_any_state(stage: CaptureStage) -> None:
    capture = stage.requested()
    stage.settle()
    approve(stage, capture)
    gone = stage.under({"verbs/capture.approve/params": {"trace_id": {"match": "never"}, "regime": {"match": "x"}}})
    stage.write(lambda tx: head_moved(tx, gone.rules, stage.place, capture.id))
    stage.settle()
    assert stage.capture(capture).state is CaptureState.DENIED
    assert stage.outside.calls("submit") == []
    assert seats(stage, capture) == {"loop-1": SeatState.DENIED}


def test_an_expired_capture_is_denied_and_reopened_for_the_loop_that_asks_again(stage: CaptureStage) -> None:
    stage.rules = replace(stage.rules, policy=stage.under({"verbs/capture.approve/expires": "1s"}).rules.policy)
    capture = stage.requested()
    ask = ask_of(stage, capture)
    while stage.read(lambda tx: tx.now) <= (ask.expires_at or 0):
        pass
    stage.settle()
    assert stage.capture(capture).state is CaptureState.DENIED
    assert seats(stage, capture) == {"loop-1": SeatState.DENIED}
    opened = stage.write(lambda tx: closing.reopen(tx, stage.rules, ask.id, PrincipalName("alice")))
    assert isinstance(opened, Opened)
    again = stage.requested("loop-1")
    assert again.id != capture.id and again.ask == opened.ask.id
    approve(stage, again)
    stage.settle()
    assert stage.capture(again).state is CaptureState.RESCOPED


def test_35_a_loop_that_is_away_is_told_once_when_it_is_back(stage: CaptureStage) -> None:
    capture = stage.requested()
    stage.outside.broken["send"] = 2
    approve(stage, capture)
    stage.settle()
    assert stage.capture(capture).state is CaptureState.READY
    stage.loop("loop-1")
    for _ in range(40):
        stage.settle()
        if stage.capture(capture).state is CaptureState.RESCOPED:
            break
        stage.loop("loop-1")
    assert len(stage.link.taken()) == 1
    assert seats(stage, capture) == {"loop-1": SeatState.RESCOPED}


def test_a_deny_reaches_every_loop_that_waits(stage: CaptureStage) -> None:
    capture = stage.requested("loop-1")
    stage.requested("loop-2")
    stage.answer(ask_of(stage, capture), "alice", "deny", "too dear")
    stage.settle()
    assert set(seats(stage, capture).values()) == {SeatState.DENIED}
    assert [call["reason"] for call in stage.outside.calls("send")] == ["too dear", "too dear"]
    assert stage.get(capture.ask or "").state is AskState.DENIED


def test_an_expiry_leaves_the_backlog_with_its_cause(stage: CaptureStage) -> None:
    capture = stage.requested()
    stage.write(lambda tx: closing.withdraw(tx, capture.ask or "", "alice", "away", to_backlog=True))
    stage.settle()
    assert [(entry.ask, entry.cause) for entry in stage.read(lambda tx: threads.open_backlog(tx, "", 9))] == [
        (capture.ask, "withdrawn")
    ]
    assert stage.capture(capture).state is CaptureState.CANCELLED
    assert [ask.id for ask in stage.read(lambda tx: asks.page(tx, "", 9, only_open=True))] == []
