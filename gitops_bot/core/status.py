"""The status of an agent is the first row of one table that holds; only two of its values ask for a person (I8)."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class AgentStatus(StrEnum):
    """In order of precedence."""

    RETIRED = "RETIRED"
    DRAFT = "DRAFT"
    PAUSED = "PAUSED"
    RUNNING = "RUNNING"
    WAITING_HUMAN = "WAITING_HUMAN"
    BLOCKED = "BLOCKED"
    WAITING_RESOURCE = "WAITING_RESOURCE"
    BACKING_OFF = "BACKING_OFF"
    DUE = "DUE"
    SCHEDULED = "SCHEDULED"
    WAITING_EVENT = "WAITING_EVENT"
    MANUAL = "MANUAL"


NEEDS_PERSON: Final = frozenset({AgentStatus.WAITING_HUMAN, AgentStatus.BLOCKED})


@dataclass(frozen=True, slots=True)
class AgentFacts:
    """What the status is derived from; each is one read of rows, none is stored."""

    retired: bool = False
    draft: bool = False
    paused: bool = False
    live_run: bool = False
    answerable_asks: int = 0
    gated_asks: int = 0
    blocked_without_answer: bool = False
    lane_closed: bool = False
    backing_off: bool = False
    due: bool = False
    scheduled: bool = False
    waits_for_event: bool = False


def status(facts: AgentFacts) -> AgentStatus:
    """Give the first status that holds."""
    table = (
        (facts.retired, AgentStatus.RETIRED),
        (facts.draft, AgentStatus.DRAFT),
        (facts.paused, AgentStatus.PAUSED),
        (facts.live_run, AgentStatus.RUNNING),
        (facts.answerable_asks > 0, AgentStatus.WAITING_HUMAN),
        (facts.gated_asks > 0 or facts.blocked_without_answer, AgentStatus.BLOCKED),
        (facts.lane_closed, AgentStatus.WAITING_RESOURCE),
        (facts.backing_off, AgentStatus.BACKING_OFF),
        (facts.due, AgentStatus.DUE),
        (facts.scheduled, AgentStatus.SCHEDULED),
        (facts.waits_for_event, AgentStatus.WAITING_EVENT),
    )
    return next((value for holds, value in table if holds), AgentStatus.MANUAL)
