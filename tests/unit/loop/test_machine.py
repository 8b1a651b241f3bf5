"""The loop's decisions as transcripts: what was seen, what is ordered (protocols/loop.md)."""

from dataclasses import replace
from typing import Any

import pytest

from gitops_bot.core.captures import TraceId
from gitops_bot.loop.grammar import Escalation, Marker, Measurement, Mode
from gitops_bot.loop.machine import MAX_FAILED_TURNS, advance, exit_code
from gitops_bot.loop.vocabulary import (
    Baselined,
    Denial,
    Direction,
    DropDenial,
    Ending,
    Escalate,
    Finish,
    Head,
    Hold,
    Judged,
    Measure,
    Note,
    OpenAsk,
    OpenSegment,
    Park,
    Rebaseline,
    Rescope,
    Resolve,
    Row,
    RunTurn,
    Settle,
    State,
    Tampered,
    TurnEnded,
    Wait,
)

WANTED = TraceId("model=a/b;c=1;p=1;mt=1;lt=0;lf=0.0000")
OTHER = TraceId("model=a/b;c=2;p=1;mt=1;lt=0;lf=0.0000")
BLOCK, CONTINUE = OpenAsk(WANTED, "h", Mode.BLOCK), OpenAsk(OTHER, "h", Mode.CONTINUE)
RESCOPE, DENIAL = Rescope("k", WANTED), Denial("d", "no")


def state(**changes: Any) -> State:
    ready = State("lower p99", Direction.MIN, 5, surface=True, baseline=10.0, best=10.0, iteration=1)
    return replace(ready, **changes)


EVERYTHING = Head(True, RESCOPE, DENIAL, None, (WANTED,), "used")


def test_the_head_has_one_order() -> None:
    """pause · park · rescope · deny · interrupt · waits that ran out · budget · iteration: each lever, taken away in
    turn, shows the next."""
    blocked = state(asks=(BLOCK,))
    seen = EVERYTHING
    assert advance(blocked, seen)[1] == (Hold(),)
    seen = replace(seen, paused=False)
    assert advance(blocked, seen)[1] == (Rebaseline(RESCOPE),)
    seen = replace(seen, rescope=None)
    assert advance(blocked, seen)[1][0] == DropDenial("d")
    seen = replace(seen, denial=None, stop="asked")
    assert advance(blocked, seen)[1] == (Finish("stopped", "asked"),)
    seen = replace(seen, stop=None)
    assert advance(blocked, seen)[1][0] == Resolve(BLOCK, Ending.TIMEOUT, "nobody answered within --max-park", None)
    seen = replace(seen, overdue=())
    assert advance(blocked, seen)[1] == (Park(BLOCK),)
    assert advance(state(), seen)[1] == (Finish("budget", "used"),)
    seen = replace(seen, exceeded=None)
    after, commands = advance(state(), seen)
    assert (after.iteration, commands) == (2, (RunTurn(2),))
    assert advance(state(iteration=5), seen)[1] == (Finish("finished", "all iterations are done"),)


def test_stop_ends_a_pause_and_a_park_and_settles_nothing() -> None:
    for seen in (Head(paused=True, stop="s"), Head(stop="s")):
        after, commands = advance(state(asks=(BLOCK,)), seen)
        assert commands == (Finish("stopped", "s"),)
        assert after.asks == (BLOCK,)


def test_a_block_ask_parks_even_when_iterations_and_budget_are_used() -> None:
    assert advance(state(asks=(BLOCK,), iteration=5), Head(exceeded="used"))[1] == (Park(BLOCK),)


def test_a_continue_ask_does_not_park() -> None:
    assert advance(state(asks=(CONTINUE,)), Head())[1] == (RunTurn(2),)


def test_a_rescope_opens_a_segment_then_resolves_then_settles() -> None:
    after, commands = advance(state(asks=(BLOCK, CONTINUE)), Baselined(Measurement(30.0), RESCOPE))
    assert (after.regime, after.baseline, after.best, after.asks) == (WANTED, 30.0, 30.0, (CONTINUE,))
    assert commands == (
        OpenSegment(after.fingerprint, 30.0, WANTED, "k", (WANTED,)),
        Resolve(BLOCK, Ending.GRANTED, WANTED, "k"),
        Settle("k", applied=True),
    )
    assert after.fingerprint != state().fingerprint


def test_a_rescope_to_a_name_of_the_sender_s_own_grants_what_blocks() -> None:
    after, commands = advance(state(asks=(BLOCK, CONTINUE)), Baselined(Measurement(30.0), Rescope("k", "rescoped")))
    assert after.asks == (CONTINUE,)
    assert Resolve(BLOCK, Ending.GRANTED, "rescoped", "k") in commands


def test_a_failed_baseline_leaves_the_admission_unsettled() -> None:
    after, commands = advance(state(asks=(BLOCK,)), Baselined(None, RESCOPE, "no knobs"))
    assert after.asks == (BLOCK,)
    (finish,) = commands
    assert isinstance(finish, Finish)
    assert finish.outcome == "error"


def test_a_deny_in_block_escalates() -> None:
    after, commands = advance(state(asks=(BLOCK, CONTINUE)), Head(denial=DENIAL))
    assert after.asks == (CONTINUE,)
    assert commands[:3] == (
        DropDenial("d"),
        Resolve(BLOCK, Ending.DENIED, "no", "d"),
        Settle("d", applied=True),
    )
    assert isinstance(commands[3], Escalate)
    assert commands[3].escalation.category == "needs-info"
    assert isinstance(commands[4], Finish)


def test_a_deny_of_a_continue_ask_by_name_leaves_the_parked_one() -> None:
    after, commands = advance(state(asks=(BLOCK, CONTINUE)), Head(denial=Denial("d", "no", OTHER)))
    assert after.asks == (BLOCK,)
    assert not any(isinstance(command, Escalate | Finish) for command in commands)
    assert advance(after, Head())[1] == (Park(BLOCK),)


def test_a_deny_for_no_open_ask_is_rejected_with_a_note() -> None:
    after, commands = advance(state(), Head(denial=DENIAL))
    assert after == state()
    assert commands[-1] == Settle("d", applied=False, note="no such ask is open")


def test_a_continue_ask_that_nobody_answers_becomes_a_note() -> None:
    after, commands = advance(state(asks=(CONTINUE,)), Head(overdue=(OTHER,)))
    assert after.asks == ()
    assert [type(command) for command in commands] == [Resolve, Note]


@pytest.mark.parametrize(
    ("mode", "candidate", "measured", "expected"),
    [
        (None, False, None, Mode.BLOCK),
        (None, True, 11.0, Mode.CONTINUE),
        (None, True, None, Mode.BLOCK),
        (Mode.BLOCK, True, 11.0, Mode.BLOCK),
        (Mode.CONTINUE, False, None, Mode.CONTINUE),
    ],
)
def test_the_mode_of_an_ask(mode: Mode | None, candidate: bool, measured: float | None, expected: Mode) -> None:
    """Absent: a measured candidate means continue, a bare ask means block."""
    after, commands = advance(state(), TurnEnded(marker=Marker(WANTED, "h", mode), candidate=candidate))
    if candidate:
        assert commands == (Measure(),)
        after, commands = advance(after, Judged(None if measured is None else Measurement(measured)))
    assert after.asks == (OpenAsk(WANTED, "h", expected),)
    assert commands[0] == Wait(OpenAsk(WANTED, "h", expected))
    assert isinstance(commands[-1], Row)


def test_a_second_marker_for_the_same_trace_id_is_one_ask() -> None:
    asked = state(asks=(BLOCK,))
    after, commands = advance(asked, TurnEnded(marker=Marker(WANTED, "h2", Mode.BLOCK)))
    assert after.asks == (BLOCK,)
    assert not any(isinstance(command, Wait) for command in commands)


def test_block_after_continue_for_the_same_trace_id_parks() -> None:
    after, _ = advance(state(asks=(CONTINUE,)), TurnEnded(marker=Marker(OTHER, "h", Mode.BLOCK)))
    assert after.asks == (OpenAsk(OTHER, "h", Mode.BLOCK),)


def test_an_ask_for_the_present_regime_is_a_note() -> None:
    after, commands = advance(state(regime=WANTED), TurnEnded(marker=Marker(WANTED, "h", None)))
    assert after.asks == ()
    assert any(isinstance(command, Note) for command in commands)


def test_without_a_surface_block_escalates_and_continue_goes_on() -> None:
    alone = state(surface=False)
    _, commands = advance(alone, TurnEnded(marker=Marker(WANTED, "h", Mode.BLOCK)))
    assert [type(command) for command in commands] == [Row, Escalate, Finish]
    after, commands = advance(alone, TurnEnded(marker=Marker(WANTED, "h", Mode.CONTINUE)))
    assert after.asks == ()
    assert [type(command) for command in commands] == [Note, Row]


def test_the_turn_s_files_have_one_order() -> None:
    """a failed turn · an escalation · a marker · the judge."""
    turn = TurnEnded("crashed", Escalation("c", "r"), Marker(WANTED, "h", None), False)
    assert [type(command) for command in advance(state(), turn)[1]] == [Row]
    turn = replace(turn, failed=None)
    assert [type(command) for command in advance(state(), turn)[1]] == [Escalate, Finish]
    turn = replace(turn, escalation=None)
    assert [type(command) for command in advance(state(), turn)[1]] == [Wait, Row]
    assert advance(state(), replace(turn, marker=None))[1] == (Measure(),)


def test_turns_that_keep_failing_end_the_run_and_one_good_turn_resets_the_count() -> None:
    now = state()
    for _ in range(MAX_FAILED_TURNS - 1):
        now, commands = advance(now, TurnEnded("crashed"))
        assert [type(command) for command in commands] == [Row]
    recovered, _ = advance(now, TurnEnded())
    assert recovered.failed_turns == 0
    assert isinstance(advance(now, TurnEnded("crashed"))[1][-1], Finish)


@pytest.mark.parametrize(
    ("direction", "score", "decision"),
    [("min", 9.0, "keep"), ("min", 10.0, "discard"), ("min", 11.0, "discard"), ("max", 11.0, "keep")],
)
def test_only_a_better_score_is_kept(direction: str, score: float, decision: str) -> None:
    after, commands = advance(state(direction=Direction(direction)), Judged(Measurement(score)))
    (row,) = commands
    assert isinstance(row, Row)
    assert (row.decision, row.keep, after.improved) == (decision, decision == "keep", decision == "keep")


def test_an_attempt_that_cannot_be_measured_is_discarded() -> None:
    after, commands = advance(state(), Judged(None, "why"))
    assert after.best == 10.0
    assert commands == (Row(1, "discard", None, keep=False, note="why"),)


def test_a_changed_judge_escalates_and_an_owed_escalation_comes_first() -> None:
    assert isinstance(advance(state(), Tampered("the judge"))[1][0], Escalate)
    owed = Escalation("needs-info", "r")
    after, commands = advance(state(owed=owed), EVERYTHING)
    assert commands[0] == Escalate(owed)
    assert after.owed is None


@pytest.mark.parametrize(
    ("improved", "outcome", "code"),
    [
        (True, "finished", 0),
        (False, "finished", 1),
        (False, "solved", 0),
        (True, "escalated", 2),
        (True, "stopped", 0),
        (True, "error", 1),
    ],
)
def test_exit_codes(improved: bool, outcome: str, code: int) -> None:
    assert exit_code(state(improved=improved), outcome) == code
