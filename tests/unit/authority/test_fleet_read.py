"""The status of a fleet agent is derived from when and why it is due; only two of its values ask for a person (I8)."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from sqlalchemy import update

from gitops_bot.authority import agents as acts
from gitops_bot.authority import fleet_read
from gitops_bot.authority.agents_read import AgentRow, agent_shown
from gitops_bot.core.principals import PrincipalName
from gitops_bot.core.status import AgentStatus
from gitops_bot.ports import BodyEnd, BodyStop
from gitops_bot.store.agents import Agent
from gitops_bot.store.engine import Database
from gitops_bot.store.fleet_tables import fleet_agents as rows
from gitops_bot.store.roles import Role
from gitops_bot.store.states import WakePolicy
from tests.fleet_stage import FleetStage
from tests.store_fixtures import FreshDatabase

ASK = "ASK: Which way?\n"
FAILED = BodyEnd(BodyStop.FAILED)


@dataclass
class Staged(FleetStage):
    """A fleet, and the database as the workspace reads it."""

    pages: Database | None = None


@pytest.fixture
def stage(database: FreshDatabase) -> FleetStage:
    return Staged(database.open(Role.BROKER), pages=database.open(Role.WORKSPACE))


def shown(stage: FleetStage, slug: str = "one") -> AgentRow:
    assert isinstance(stage, Staged) and stage.pages is not None
    with stage.pages.read() as tx:
        found = agent_shown(tx, stage.rules, slug)
    assert found is not None
    return found


def due(stage: FleetStage, after: int, reason: str) -> None:
    stage.write(lambda tx: tx.execute(update(rows).values(due_at=tx.now + after, due_reason=reason)))


@pytest.mark.parametrize(
    ("after", "reason", "expected"),
    [
        (0, "answer", AgentStatus.DUE),
        (-5_000, "soon", AgentStatus.DUE),
        (60_000, "schedule", AgentStatus.SCHEDULED),
        (60_000, "idle", AgentStatus.SCHEDULED),
        (60_000, "soon", AgentStatus.SCHEDULED),
        (60_000, "retry", AgentStatus.BACKING_OFF),
        (60_000, "lane", AgentStatus.WAITING_RESOURCE),
        (60_000, "budget", AgentStatus.WAITING_RESOURCE),
    ],
)
def test_a_wake_is_a_status_that_asks_for_nobody(
    stage: FleetStage, after: int, reason: str, expected: AgentStatus
) -> None:
    stage.member("one")
    due(stage, after, reason)
    found = shown(stage)
    assert (found.status, found.needs_person) == (expected, False)
    assert found.doing.endswith(".") and found.fleet is not None and found.fleet.due_reason == reason


@pytest.mark.parametrize(
    ("policy", "expected"), [(WakePolicy.EVENT, AgentStatus.WAITING_EVENT), (WakePolicy.MANUAL, AgentStatus.MANUAL)]
)
def test_without_a_wake_it_waits_by_its_policy(stage: FleetStage, policy: WakePolicy, expected: AgentStatus) -> None:
    stage.member("one", policy)
    assert shown(stage).status is expected


def test_due_in_a_closed_lane_is_waiting_for_a_resource(stage: FleetStage) -> None:
    agent = stage.member("one")
    stage.run_turn(agent, "OUTCOME: RATE_LIMITED\n")
    stage.wake(agent)
    assert shown(stage).status is AgentStatus.WAITING_RESOURCE


def test_people_s_word_a_body_and_an_ask_come_first(stage: FleetStage) -> None:
    agent = stage.member("one")
    opened = stage.dispatch(agent)
    assert shown(stage).status is AgentStatus.RUNNING
    stage.settle(opened, ASK)
    found = shown(stage)
    assert (found.status, found.needs_person) == (AgentStatus.WAITING_HUMAN, True)
    stage.dispatch(agent)
    assert shown(stage).status is AgentStatus.RUNNING, "an earlier run of it waits, and it runs all the same"
    stage.write(lambda tx: acts.pause(tx, "one", PrincipalName("alice"), "enough"))
    assert shown(stage).status is AgentStatus.PAUSED
    stage.retire(agent)
    assert shown(stage).status is AgentStatus.RETIRED


def blocked_by_withdrawal(stage: FleetStage, agent: Agent) -> None:
    stage.withdraw(stage.get(stage.open_asks(agent)[0]))


def blocked_by_answer(stage: FleetStage, agent: Agent) -> None:
    stage.answer(stage.get(stage.open_asks(agent)[0]), "alice", None, "go on")


@pytest.mark.parametrize(
    ("then", "expected"), [(blocked_by_withdrawal, AgentStatus.BLOCKED), (blocked_by_answer, AgentStatus.DUE)]
)
def test_blocked_stays_so_until_somebody_answers(
    stage: FleetStage, then: Callable[[FleetStage, Agent], None], expected: AgentStatus
) -> None:
    agent = stage.member("one")
    stage.run_turn(agent, "OUTCOME: BLOCKED\n")
    assert shown(stage).status is AgentStatus.WAITING_HUMAN
    then(stage, agent)
    assert shown(stage).status is expected


def test_blocked_where_nobody_could_be_asked_asks_for_a_person(stage: FleetStage) -> None:
    agent = stage.member("one")
    limits = type(stage.rules.limits)(max_open_questions=0)
    stage.rules = type(stage.rules)(stage.rules.policy, stage.rules.repository, stage.rules.environment, limits)
    stage.run_turn(agent, "OUTCOME: BLOCKED\n")
    found = shown(stage)
    assert (found.status, found.needs_person) == (AgentStatus.BLOCKED, True)
    stage.message(agent, "what is it?")
    assert shown(stage).status is AgentStatus.DUE


def test_a_failed_turn_backs_off_and_says_how_often(stage: FleetStage) -> None:
    stage.run_turn(stage.member("one"), "", FAILED)
    found = shown(stage)
    assert found.status is AgentStatus.BACKING_OFF and "1 in a row" in found.doing


def test_many_are_read_at_once_and_those_of_no_fleet_left_out(stage: FleetStage) -> None:
    one, two = stage.member("one"), stage.member("two", WakePolicy.MANUAL)
    other = stage.agent("other")
    found = stage.read(lambda tx: fleet_read.facts_of(tx, [one, two, other]))
    assert set(found) == {one.id, two.id} and found[one.id].waits_for_event and not found[two.id].waits_for_event
    assert stage.read(lambda tx: fleet_read.facts_of(tx, [])) == {}
    assert shown(stage, "other").fleet is None
