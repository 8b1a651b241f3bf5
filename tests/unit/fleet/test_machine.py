"""What follows from the end of a turn, row by row of the page's table of wakes."""

import itertools

import pytest

from gitops_bot.core.status import AgentFacts, AgentStatus, status
from gitops_bot.fleet.grammar import Outcome
from gitops_bot.fleet.machine import (
    IDLE,
    LANE,
    LONGEST_NAMED,
    RETRY,
    Ending,
    LaneClosing,
    TurnFacts,
    Wake,
    WakeReason,
    back_off,
    close,
    rouses,
    settle,
    standing,
    starting,
)
from gitops_bot.store.states import RunState, WakeOn, WakePolicy

NOW = 1_800_000_000_000
CRON = NOW + 7_000_000
C, S, E, M = WakePolicy.CONTINUOUS, WakePolicy.SCHEDULED, WakePolicy.EVENT, WakePolicy.MANUAL


def facts(said: Outcome = Outcome.NO_WORK, policy: WakePolicy = C, **more: object) -> TurnFacts:
    values = {"ending": Ending.WHOLE, "said": said, "policy": policy, "now": NOW, "next_cron": CRON, **more}
    return TurnFacts(**values)  # type: ignore[arg-type]  # each call names fields of the value


@pytest.mark.parametrize(
    ("said", "policy", "wake"),
    [
        (Outcome.WORK_DONE, C, Wake(NOW + 1_000, WakeReason.SOON)),
        (Outcome.WORK_DONE, S, Wake(CRON, WakeReason.SCHEDULE)),
        (Outcome.WORK_DONE, E, None),
        (Outcome.WORK_DONE, M, None),
        (Outcome.NO_WORK, C, Wake(NOW + 60_000, WakeReason.IDLE)),
        (Outcome.NO_WORK, S, Wake(CRON, WakeReason.SCHEDULE)),
        (Outcome.NO_WORK, E, None),
        (Outcome.NO_WORK, M, None),
        *((Outcome.BLOCKED, policy, None) for policy in WakePolicy),
        *((Outcome.RATE_LIMITED, policy, Wake(NOW + 60_000, WakeReason.LANE)) for policy in WakePolicy),
        *((Outcome.RETRYABLE_ERROR, policy, Wake(NOW + 30_000, WakeReason.RETRY)) for policy in WakePolicy),
    ],
)
def test_the_next_wake_follows_from_outcome_and_policy(said: Outcome, policy: WakePolicy, wake: Wake | None) -> None:
    assert settle(facts(said, policy)).wake == wake


@pytest.mark.parametrize(("said", "policy"), list(itertools.product(Outcome, WakePolicy)))
def test_an_ask_parks_the_run_and_nothing_of_ours_wakes_it(said: Outcome, policy: WakePolicy) -> None:
    settled = settle(facts(said, policy, open_asks=1))
    assert (settled.run, settled.wake, settled.again, settled.ask_blocked) == (RunState.PARKED, None, False, False)
    assert (settled.lane is not None) is (said is Outcome.RATE_LIMITED)


def test_blocked_without_a_question_on_screen_becomes_one() -> None:
    blocked = settle(facts(Outcome.BLOCKED))
    assert (blocked.ask_blocked, blocked.run) == (True, RunState.PARKED)
    waits = settle(facts(Outcome.BLOCKED, other_open_asks=1))
    assert (waits.ask_blocked, waits.run, waits.wake) == (False, RunState.ENDED, None)
    told = settle(facts(Outcome.BLOCKED, untold=WakeReason.ANSWER))
    assert (told.ask_blocked, told.wake) == (False, Wake(NOW, WakeReason.ANSWER))


@pytest.mark.parametrize("ending", [Ending.FAILED, Ending.LOST, Ending.STOPPED, Ending.RATE_LIMITED])
@pytest.mark.parametrize("said", Outcome)
def test_of_a_body_that_did_not_end_well_no_outcome_counts_and_the_run_comes_again(
    ending: Ending, said: Outcome
) -> None:
    settled = settle(facts(said, ending=ending))
    limited = ending is Ending.RATE_LIMITED
    assert settled.outcome is (Outcome.RATE_LIMITED if limited else Outcome.RETRYABLE_ERROR)
    assert (settled.run, settled.again) == (RunState.PARKED, True)
    assert settled.wake is not None


def test_a_lost_body_that_had_asked_waits_for_the_answer_and_is_not_run_over_it() -> None:
    """A second dispatch of the same row would make the ask's binding stale."""
    settled = settle(facts(ending=Ending.LOST, open_asks=1))
    assert (settled.run, settled.wake, settled.again) == (RunState.PARKED, None, False)


def test_stopping_the_fleet_is_no_error_of_the_agent() -> None:
    stopped = settle(facts(ending=Ending.STOPPED, errors=3))
    assert (stopped.wake, stopped.errors) == (Wake(NOW, WakeReason.RETRY), 3)
    assert settle(facts(ending=Ending.LOST, errors=3)).errors == 4


def test_what_was_not_told_yet_wakes_at_once_but_never_hurries_a_retry() -> None:
    message = WakeReason.MESSAGE
    assert settle(facts(Outcome.NO_WORK, M, untold=message)).wake == Wake(NOW, message)
    assert settle(facts(Outcome.NO_WORK, C, open_asks=2, untold=message)).wake == Wake(NOW, message)
    assert settle(facts(Outcome.RETRYABLE_ERROR, untold=message)).wake == Wake(NOW + 30_000, WakeReason.RETRY)


@pytest.mark.parametrize(("bounds", "longest"), [(IDLE, 3_600_000), (RETRY, 900_000), (LANE, 3_600_000)])
def test_pauses_double_up_to_their_limit(bounds: tuple[int, int], longest: int) -> None:
    pauses = [back_off(bounds, count) for count in range(40)]
    assert pauses[:3] == [bounds[0], 2 * bounds[0], 4 * bounds[0]]
    assert pauses == sorted(pauses)
    assert (pauses[-1], back_off(bounds, 10**9), back_off(bounds, -1)) == (longest, longest, bounds[0])


def test_counters_rise_with_what_they_count_and_start_anew_after_work() -> None:
    after = {said: settle(facts(said, idle=2, errors=3)) for said in Outcome}
    assert {said: (settled.idle, settled.errors) for said, settled in after.items()} == {
        Outcome.WORK_DONE: (0, 0),
        Outcome.NO_WORK: (3, 0),
        Outcome.BLOCKED: (0, 0),
        Outcome.RATE_LIMITED: (2, 3),
        Outcome.RETRYABLE_ERROR: (2, 4),
    }
    assert {said for said, settled in after.items() if settled.lane_served} == {
        Outcome.WORK_DONE,
        Outcome.NO_WORK,
        Outcome.BLOCKED,
    }


@pytest.mark.parametrize(
    ("closings", "opens_at", "named", "closed"),
    [
        (0, None, None, LaneClosing(NOW + 60_000, 1)),
        (2, None, None, LaneClosing(NOW + 240_000, 3)),
        (0, None, 5.0, LaneClosing(NOW + 5_000, 1)),
        (0, NOW + 90_000, 5.0, LaneClosing(NOW + 90_000, 1)),
        (0, NOW - 90_000, 0.0, LaneClosing(NOW + 60_000, 1)),
        (0, None, -1.0, LaneClosing(NOW + 60_000, 1)),
        (0, None, float("nan"), LaneClosing(NOW + 60_000, 1)),
        (0, None, float("inf"), LaneClosing(NOW + 60_000, 1)),
        (0, None, 1e300, LaneClosing(NOW + LONGEST_NAMED, 1)),
    ],
)
def test_a_lane_is_closed_for_as_long_as_named_else_by_count(
    closings: int, opens_at: int | None, named: float | None, closed: LaneClosing
) -> None:
    assert close(NOW, closings, opens_at, named) == closed


def test_nothing_sleeps_forever_but_by_its_own_rule() -> None:
    """Every end leaves an agent due, waiting for a person, or resting as its policy says."""
    for ending, said, policy, opened in itertools.product(Ending, Outcome, WakePolicy, (0, 1)):
        settled = settle(facts(said, policy, ending=ending, open_asks=opened))
        waits = opened or settled.ask_blocked
        assert settled.wake is not None or waits or policy in (E, M)
        assert settled.wake is None or settled.wake.at >= NOW
        assert (settled.run is RunState.PARKED) is bool(waits or settled.again)


def test_who_starts_or_resumes_runs_now_by_schedule_or_when_called() -> None:
    assert starting(C, NOW, None) == Wake(NOW, WakeReason.FIRST)
    assert starting(C, NOW, None, WakeReason.RESUMED) == Wake(NOW, WakeReason.RESUMED)
    assert starting(S, NOW, CRON) == Wake(CRON, WakeReason.SCHEDULE)
    assert (starting(E, NOW, None), starting(M, NOW, None)) == (None, None)


def test_only_an_answer_waits_for_its_siblings() -> None:
    assert rouses(WakeReason.ANSWER, WakeOn.ANY, 2)
    assert not rouses(WakeReason.ANSWER, WakeOn.ALL, 1)
    assert rouses(WakeReason.ANSWER, WakeOn.ALL, 0)
    assert all(rouses(reason, WakeOn.ALL, 2) for reason in WakeReason if reason is not WakeReason.ANSWER)


@pytest.mark.parametrize(
    ("policy", "wake", "opens_at", "expected"),
    [
        (C, Wake(NOW, WakeReason.SOON), None, AgentStatus.DUE),
        (C, Wake(NOW, WakeReason.SOON), NOW + 1, AgentStatus.WAITING_RESOURCE),
        (C, Wake(NOW, WakeReason.SOON), NOW, AgentStatus.DUE),
        (C, Wake(NOW + 1, WakeReason.LANE), None, AgentStatus.WAITING_RESOURCE),
        (C, Wake(NOW + 1, WakeReason.RETRY), None, AgentStatus.BACKING_OFF),
        (C, Wake(NOW, WakeReason.RETRY), None, AgentStatus.DUE),
        (C, Wake(NOW + 1, WakeReason.IDLE), NOW + 1, AgentStatus.SCHEDULED),
        (S, Wake(NOW + 1, WakeReason.SCHEDULE), None, AgentStatus.SCHEDULED),
        (E, None, None, AgentStatus.WAITING_EVENT),
        (M, None, None, AgentStatus.MANUAL),
    ],
)
def test_the_status_says_what_the_wake_waits_for(
    policy: WakePolicy, wake: Wake | None, opens_at: int | None, expected: AgentStatus
) -> None:
    assert status(standing(AgentFacts(), policy, wake, NOW, opens_at)) is expected
