"""Measuring again inside a frozen regime: no person where the resource policy admits it, and nobody's judge moves."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gitops_bot.authority.settling import Revoked, Settled
from gitops_bot.broker import captures as moves
from gitops_bot.broker.captures import Answered, Request
from gitops_bot.core.captures import CaptureState, Regime
from gitops_bot.store import agents, captures
from gitops_bot.store.captures import Capture
from gitops_bot.store.engine import Tx
from gitops_bot.store.roles import Role
from gitops_bot.store.states import SeatState
from tests.capture_stage import REGIME, CaptureStage
from tests.store_fixtures import FreshDatabase

OTHER = replace(REGIME, concurrency=9)


@pytest.fixture
def stage(database: FreshDatabase, tmp_path: Path) -> Iterator[CaptureStage]:
    return CaptureStage(database.open(Role.BROKER), folder=tmp_path)


def rescoped(stage: CaptureStage) -> Capture:
    """Bring a loop into `REGIME`, the way of a person."""
    capture = stage.requested()
    ask = stage.capture(capture).ask
    assert ask is not None
    assert isinstance(stage.answer(stage.get(ask), "bob", "approve"), Settled)
    stage.settle()
    assert stage.capture(capture).state is CaptureState.RESCOPED
    return capture


def ask_again(stage: CaptureStage, regime: Regime = REGIME, loop: str = "loop-1") -> Answered:
    """Ask as a loop whose artefact no longer hashes, so that there is no hit."""
    run = stage.loop(loop).run

    def work(tx: Tx) -> object:
        agent = agents.get(tx, run.agent)
        assert agent is not None
        wanted = Request(agent, run, regime, "to see more of it", loop=loop)
        return moves.request(tx, stage.rules, stage.place, wanted, hit=None)

    answered = stage.write(work)
    assert isinstance(answered, Answered), answered
    return answered


def test_the_frozen_regime_is_measured_again_without_a_person(stage: CaptureStage) -> None:
    """Submitted at once under the standing approval, on no pull request; the loop is told nothing a second time."""
    first = rescoped(stage)
    answered = ask_again(stage)
    assert (answered.status, answered.ask) == ("submitted", first.ask)
    assert answered.capture is not None and answered.capture.id != first.id
    told = stage.link.taken()
    stage.settle()
    again = stage.capture(answered.capture)
    assert (again.state, again.digest is not None, again.pull_request) == (CaptureState.READY, True, None)
    assert stage.count("asks") == 1
    assert stage.link.taken() == told
    assert [seat.state for seat in stage.read(lambda tx: captures.seats(tx, again.id))] == []
    assert stage.request("loop-2"), "the new one is a hit for whoever asks next"


def test_a_second_request_joins_the_one_under_way(stage: CaptureStage) -> None:
    """One measurement, however often it is asked for."""
    rescoped(stage)
    first, second = ask_again(stage), ask_again(stage)
    assert (second.status, second.capture and second.capture.id) == ("submitted", first.capture and first.capture.id)


@pytest.mark.parametrize(("slots", "reserve", "status"), [(2, 1, "submitted"), (1, 1, "deferred"), (2, 2, "deferred")])
def test_the_reserve_is_kept_for_what_a_person_approved(
    stage: CaptureStage, slots: int, reserve: int, status: str
) -> None:
    """`gpu_reserve`: deferred has no capture, no ask, and no job."""
    rescoped(stage)
    stage.place = replace(stage.place, slots=slots, reserve=reserve)
    jobs = len(stage.outside.calls("submit"))
    answered = ask_again(stage)
    stage.settle()
    assert answered.status == status
    assert (answered.capture is None) == (status == "deferred")
    assert len(stage.outside.calls("submit")) - jobs == (status == "submitted")
    assert stage.count("asks") == 1


@pytest.mark.parametrize("case", ["another regime", "another loop", "revoked", "restarted"])
def test_everything_else_needs_a_person(stage: CaptureStage, case: str) -> None:
    """A regime that changes the judge, a loop that was never there, an approval that fell, a start from anew."""
    first = rescoped(stage)
    assert first.ask is not None
    if case == "revoked":
        assert isinstance(stage.answer(stage.get(first.ask), "alice", "deny"), Revoked)
    if case == "restarted":
        stage.loop(resume=False)
    regime, loop = (OTHER if case == "another regime" else REGIME), ("loop-9" if case == "another loop" else "loop-1")
    answered = ask_again(stage, regime, loop)
    assert answered.status == "pending_approval"
    assert answered.ask != first.ask


def test_a_revocation_ends_the_measurement_that_needed_no_person(stage: CaptureStage) -> None:
    """What was approved once and is taken back is not measured a second time."""
    first = rescoped(stage)
    answered = ask_again(stage)
    assert answered.capture is not None and first.ask is not None
    assert isinstance(stage.answer(stage.get(first.ask), "alice", "deny"), Revoked)
    stage.settle()
    assert stage.capture(answered.capture).state is CaptureState.CANCELLED
    assert len(stage.outside.calls("submit")) == 1


def test_without_an_approval_surface_only_the_frozen_regime_is_measured(stage: CaptureStage) -> None:
    """Degraded: a request that changes the judge escalates, one that does not is served."""
    rescoped(stage)
    stage.place = replace(stage.place, degraded=True)
    assert ask_again(stage, OTHER).status == "escalate"
    assert ask_again(stage).status == "submitted"


def test_captures_take_turns_at_the_endpoint(stage: CaptureStage) -> None:
    """Two at once would measure each other: the second stays approved until the first is over."""
    first = stage.requested()
    other = ask_again(stage, OTHER, "loop-2").capture
    assert other is not None
    stage.settle()
    for capture in (first, other):
        ask = stage.capture(capture).ask
        assert ask is not None
        assert isinstance(stage.answer(stage.get(ask), "bob", "approve"), Settled)
    stage.write(lambda tx: captures.change(tx, stage.capture(first), state=CaptureState.SUBMITTED))
    stage.write(lambda tx: captures.change(tx, stage.capture(other), state=CaptureState.APPROVED))
    stage.settle_one(other)
    assert stage.capture(other).state is CaptureState.APPROVED
    stage.settle()
    assert stage.capture(first).state is CaptureState.RESCOPED
    stage.settle_one(other)
    stage.settle()
    assert stage.capture(other).state is CaptureState.RESCOPED
    assert {seat.state for seat in stage.read(lambda tx: captures.seats(tx, other.id))} == {SeatState.RESCOPED}
