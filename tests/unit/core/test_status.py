"""The status of an agent is the first row that holds; two of its values ask for a person and no other does (I8)."""

import itertools
from dataclasses import fields, replace
from typing import Any

import pytest

from gitops_bot.core.status import NEEDS_PERSON, AgentFacts, AgentStatus, status

ORDER: list[tuple[AgentStatus, dict[str, Any]]] = [
    (AgentStatus.RETIRED, {"retired": True}),
    (AgentStatus.DRAFT, {"draft": True}),
    (AgentStatus.PAUSED, {"paused": True}),
    (AgentStatus.RUNNING, {"live_run": True}),
    (AgentStatus.WAITING_HUMAN, {"answerable_asks": 1}),
    (AgentStatus.BLOCKED, {"gated_asks": 1}),
    (AgentStatus.WAITING_RESOURCE, {"lane_closed": True}),
    (AgentStatus.BACKING_OFF, {"backing_off": True}),
    (AgentStatus.DUE, {"due": True}),
    (AgentStatus.SCHEDULED, {"scheduled": True}),
    (AgentStatus.WAITING_EVENT, {"waits_for_event": True}),
]


def test_the_table_is_in_the_order_of_the_page() -> None:
    assert [value for value, _ in ORDER] + [AgentStatus.MANUAL] == list(AgentStatus)


@pytest.mark.parametrize("first", range(len(ORDER)))
def test_each_row_outranks_every_row_below_it(first: int) -> None:
    value, facts = ORDER[first]
    assert status(replace(AgentFacts(), **facts)) is value
    below: dict[str, Any] = {}
    for _, more in ORDER[first + 1 :]:
        below |= more
    assert status(replace(AgentFacts(), **{**below, **facts})) is value


def test_an_agent_of_which_nothing_is_known_is_manual() -> None:
    assert status(AgentFacts()) is AgentStatus.MANUAL


def test_an_ask_that_ended_without_an_answer_blocks() -> None:
    assert status(AgentFacts(blocked_without_answer=True)) is AgentStatus.BLOCKED


def test_i8_only_waiting_for_a_person_needs_a_person() -> None:
    """I8: over every combination of facts."""
    assert frozenset({AgentStatus.WAITING_HUMAN, AgentStatus.BLOCKED}) == NEEDS_PERSON
    names = [field.name for field in fields(AgentFacts)]
    for flags in itertools.product((0, 1), repeat=len(names)):
        facts = AgentFacts(**dict(zip(names, flags, strict=True)))
        asks_person = facts.answerable_asks or facts.gated_asks or facts.blocked_without_answer
        hidden = facts.retired or facts.draft or facts.paused or facts.live_run
        assert (status(facts) in NEEDS_PERSON) == bool(asks_person and not hidden)
