"""What follows from the end of a turn is decided here: the run's state, the next wake, the lane, the ask that is due.

Pure; times are milliseconds of the database's clock. Writing it, and keeping a wake that a person set meanwhile (I2, by
the wake's sequence number), is left to `settle` in the room's transaction; so are the asks themselves.
"""

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Final, assert_never

from gitops_bot.core.status import AgentFacts
from gitops_bot.fleet.grammar import Outcome
from gitops_bot.store.states import RunState, WakeOn, WakePolicy

SECOND: Final = 1_000
SOON: Final = SECOND
IDLE: Final = (60 * SECOND, 3_600 * SECOND)
"""First back-off after a turn without work, and the longest; each further one doubles."""
RETRY: Final = (30 * SECOND, 900 * SECOND)
LANE: Final = (60 * SECOND, 3_600 * SECOND)
LONGEST_NAMED: Final = 24 * 3_600 * SECOND
"""A provider may name a longer rest; the lane is tried once a day all the same."""


class WakeReason(StrEnum):
    """Why an agent is due, as stored beside the time."""

    FIRST = "first"
    SOON = "soon"
    SCHEDULE = "schedule"
    IDLE = "idle"
    LANE = "lane"
    RETRY = "retry"
    BUDGET = "budget"
    """Its turns of a day are spent; when the oldest of them is a day old, it has one again."""
    ANSWER = "answer"
    WITHDRAWN = "withdrawn"
    EXPIRED = "expired"
    MESSAGE = "message"
    RESUMED = "resumed"
    EVENT = "event"
    PERSON = "person"


OWN: Final = frozenset(
    {
        WakeReason.SOON,
        WakeReason.SCHEDULE,
        WakeReason.IDLE,
        WakeReason.LANE,
        WakeReason.RETRY,
        WakeReason.BUDGET,
    }
)
"""What the scheduler sets; every other reason comes from outside and is never overwritten by a settle (I2)."""


class Ending(StrEnum):
    """How a body ended, as far as what follows differs."""

    WHOLE = "whole"
    """It ended by itself, well: its text is whole, and its outcome counts."""
    FAILED = "failed"
    """It ended badly, ran out of time, or never started."""
    RATE_LIMITED = "rate_limited"
    LOST = "lost"
    """Process gone or lease over; the reconciler found it."""
    STOPPED = "stopped"
    """We ended it, because the fleet stops."""


@dataclass(frozen=True, slots=True)
class Wake:
    """When an agent is due (ms), and why."""

    at: int
    reason: WakeReason


@dataclass(frozen=True, slots=True)
class LaneClosing:
    """Until when a lane is closed (ms), and how many times in a row it was closed with this one."""

    opens_at: int
    closings: int


@dataclass(frozen=True, slots=True)
class TurnFacts:
    """What is known of a turn that ended.

    `open_asks` are those of this run that are open now: the ones its markers open in this transaction, and those that
    it opened through the API and that nobody ended yet. `other_open_asks` are the agent's, of earlier runs. `untold` is
    why something wakes the agent that no capsule has told it yet: it came too late for this one, or did not fit.
    `idle` and `errors` are the agent's counters before; `next_cron` is the next time of a scheduled agent after now.
    `closings` is the lane's counter before, `lane_opens_at` until when it is closed already, `retry_after` the seconds
    that the provider named.
    """

    ending: Ending
    said: Outcome
    policy: WakePolicy
    now: int
    open_asks: int = 0
    other_open_asks: int = 0
    untold: WakeReason | None = None
    idle: int = 0
    errors: int = 0
    next_cron: int | None = None
    closings: int = 0
    lane_opens_at: int | None = None
    retry_after: float | None = None


@dataclass(frozen=True, slots=True)
class Settled:
    """What follows from a turn.

    `run` is the run's state after. `ask_blocked`: an ask that says that the agent is blocked is opened in the same
    transaction, as one of this run. `again`: the same run is dispatched once more, with the same capsule, for whatever
    it was told may not have been read; it keeps its row, and its version rises then. `lane_served`: the provider
    worked, so that the lane's count of closings starts anew unless it is closed now.
    """

    outcome: Outcome
    run: RunState
    wake: Wake | None
    idle: int
    errors: int
    lane: LaneClosing | None = None
    lane_served: bool = False
    ask_blocked: bool = False
    again: bool = False


_OUTCOMES: Final = MappingProxyType(
    {
        Ending.FAILED: Outcome.RETRYABLE_ERROR,
        Ending.RATE_LIMITED: Outcome.RATE_LIMITED,
        Ending.LOST: Outcome.RETRYABLE_ERROR,
        Ending.STOPPED: Outcome.RETRYABLE_ERROR,
    }
)


def settle(facts: TurnFacts) -> Settled:
    """Decide what follows from the end of a turn. Whether the agent was paused meanwhile is not looked at."""
    settled = _rest(facts, _OUTCOMES.get(facts.ending, facts.said))
    if facts.open_asks or settled.ask_blocked:
        # Asked: only what comes from outside wakes it. A lane that was met closes all the same.
        settled = replace(settled, run=RunState.PARKED, wake=None, again=False)
    if facts.untold is not None and not settled.again:
        settled = replace(settled, wake=Wake(facts.now, facts.untold))
    return settled


def _rest(facts: TurnFacts, outcome: Outcome) -> Settled:
    now, policy = facts.now, facts.policy
    match outcome:
        case Outcome.WORK_DONE:
            soon = Wake(now + SOON, WakeReason.SOON)
            return Settled(outcome, RunState.ENDED, _by_policy(policy, soon, facts.next_cron), 0, 0, lane_served=True)
        case Outcome.NO_WORK:
            later = Wake(now + back_off(IDLE, facts.idle), WakeReason.IDLE)
            wake = _by_policy(policy, later, facts.next_cron)
            return Settled(outcome, RunState.ENDED, wake, facts.idle + 1, 0, lane_served=True)
        case Outcome.BLOCKED:
            dead_end = facts.open_asks + facts.other_open_asks == 0 and facts.untold is None
            return Settled(outcome, RunState.ENDED, None, 0, 0, lane_served=True, ask_blocked=dead_end)
        case Outcome.RATE_LIMITED:
            lane = close(now, facts.closings, facts.lane_opens_at, facts.retry_after)
            wake = Wake(lane.opens_at, WakeReason.LANE)
            return Settled(outcome, RunState.PARKED, wake, facts.idle, facts.errors, lane, again=True)
        case Outcome.RETRYABLE_ERROR:
            stopped = facts.ending is Ending.STOPPED
            pause, errors = (0, facts.errors) if stopped else (back_off(RETRY, facts.errors), facts.errors + 1)
            wake = Wake(now + pause, WakeReason.RETRY)
            return Settled(outcome, RunState.PARKED, wake, facts.idle, errors, again=True)
        case _:
            assert_never(outcome)


def _by_policy(policy: WakePolicy, continuous: Wake, next_cron: int | None) -> Wake | None:
    match policy:
        case WakePolicy.CONTINUOUS:
            return continuous
        case WakePolicy.SCHEDULED:
            return None if next_cron is None else Wake(next_cron, WakeReason.SCHEDULE)
        case WakePolicy.EVENT | WakePolicy.MANUAL:
            return None
        case _:
            assert_never(policy)


def back_off(bounds: tuple[int, int], count: int) -> int:
    """Give the pause (ms) after `count` earlier ones in a row: the first bound, doubling, up to the second."""
    first, longest = bounds
    return min(first << min(max(count, 0), 32), longest)


def close(now: int, closings: int, opens_at: int | None, retry_after: float | None) -> LaneClosing:
    """Close a lane: for as long as its provider named (seconds), else by its count; never sooner than it opens now."""
    named = retry_after is not None and math.isfinite(retry_after) and retry_after > 0
    # Capped before it is made an integer: what a provider names may be any number.
    pause = math.ceil(min(retry_after or 0.0, LONGEST_NAMED / SECOND) * SECOND) if named else back_off(LANE, closings)
    return LaneClosing(max(now + pause, opens_at or 0), closings + 1)


def starting(policy: WakePolicy, now: int, next_cron: int | None, reason: WakeReason = WakeReason.FIRST) -> Wake | None:
    """Give the wake of an agent that is registered or resumed: now where it runs by itself, else by its schedule or
    none. What it has not been told yet is for the caller to look at; that is a wake at once, under any policy."""
    return _by_policy(policy, Wake(now, reason), next_cron)


def rouses(reason: WakeReason, wake_on: WakeOn, still_open: int) -> bool:
    """Tell whether what happened wakes an agent of which `still_open` asks are left: only an answer may have to wait
    for its siblings'."""
    return reason is not WakeReason.ANSWER or wake_on is WakeOn.ANY or still_open == 0


def standing(
    facts: AgentFacts, policy: WakePolicy, wake: Wake | None, now: int, lane_opens_at: int | None = None
) -> AgentFacts:
    """Add to an agent's facts what its wake says: lane, back-off, due time, schedule, whether it waits for an event."""
    due = wake is not None and wake.at <= now
    ahead = wake.reason if wake is not None and not due else None
    lacking = (WakeReason.LANE, WakeReason.BUDGET)
    return replace(
        facts,
        lane_closed=ahead in lacking or (due and lane_opens_at is not None and lane_opens_at > now),
        backing_off=ahead is WakeReason.RETRY,
        due=due,
        scheduled=ahead is not None and ahead not in (*lacking, WakeReason.RETRY),
        waits_for_event=wake is None and policy is WakePolicy.EVENT,
    )
