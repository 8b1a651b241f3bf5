"""The search that the crash and race suites end with finds what is planted, and nothing in a fleet that is well."""

import pytest
from sqlalchemy import update

from gitops_bot.store.fleet_tables import capsule_items, fleet_agents
from gitops_bot.store.roles import Role
from gitops_bot.store.states import RunState, WakePolicy
from tests.fleet_searched import sleeps_forever, told_wrongly
from tests.fleet_stage import FleetStage
from tests.store_fixtures import FreshDatabase

ASKS = "ASK: Which way?\nOPTIONS: north | south"


@pytest.fixture
def stage(sqlite_database: FreshDatabase) -> FleetStage:
    return FleetStage(sqlite_database.open(Role.BROKER))


def sleep(stage: FleetStage, slug: str) -> None:
    """Take an agent's wake away, as no transaction of ours does."""
    agent = stage.agent(slug)
    stage.write(
        lambda tx: tx.execute(
            update(fleet_agents).where(fleet_agents.c.agent == agent.id).values(due_at=None, due_reason=None)
        )
    )


def test_a_fleet_that_is_well_is_well(stage: FleetStage) -> None:
    """One waits for a person, one waits for its hour, one is due, one waits for events."""
    stage.run_turn(stage.member("asks"), ASKS)
    stage.member("scheduled", WakePolicy.SCHEDULED)
    stage.member("due", WakePolicy.CONTINUOUS)
    stage.member("idle")
    assert sleeps_forever(stage.database) == [] and told_wrongly(stage.database) == []


def test_what_nothing_wakes_is_found(stage: FleetStage) -> None:
    """A continuous agent without a wake, one with an answer untold, one with a message, a run parked for nothing."""
    asks, written = stage.member("asks"), stage.member("written")
    stage.run_turn(asks, ASKS)
    stage.answer(stage.get(stage.open_asks(asks)[0]), "alice", "o1")
    stage.message(written, "look")
    stage.run(stage.member("parked"), state=RunState.PARKED)
    stage.member("alone", WakePolicy.CONTINUOUS)
    for slug in ("alone", "asks", "written"):
        sleep(stage, slug)
    assert sorted(sleeps_forever(stage.database)) == [
        "alone: nothing wakes it",
        "asks: nothing wakes it",
        "parked: parked for nothing",
        "written: nothing wakes it",
    ]


def test_a_verdict_that_no_capsule_tells_is_found(stage: FleetStage) -> None:
    """It is consumed, and the capsule does not hold it; where both are so, all is well."""
    agent = stage.member("asks")
    stage.run_turn(agent, ASKS)
    ask = stage.open_asks(agent)[0]
    stage.answer(stage.get(ask), "alice", "o1")
    assert [found.split()[0] for found in told_wrongly(stage.database)] == [ask]
    run = stage.runs(agent)[0][0]
    stage.write(lambda tx: tx.execute(update(capsule_items).values(run=run)))
    assert [found.split()[0] for found in told_wrongly(stage.database)] == [ask]
    stage.write(lambda tx: tx.execute(update(capsule_items).values(run=None)))
    stage.run_turn(agent, "OUTCOME: NO_WORK")
    assert told_wrongly(stage.database) == []
