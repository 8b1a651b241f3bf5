"""A session is released after the commit that parked its run, by the harness that keeps it, until it has worked."""

from collections.abc import Callable

import pytest
from sqlalchemy import update

from gitops_bot.authority.duties import Pace, RowDuty
from gitops_bot.authority.outbox import Outbox
from gitops_bot.core.errors import Unavailable
from gitops_bot.fleet.releasing import Releasing
from gitops_bot.fleet.settle import RELEASE
from gitops_bot.ports import BodyEnd, BodyOrder, BodyStop
from gitops_bot.store import outbox
from gitops_bot.store.fleet_tables import fleet_agents as rows
from gitops_bot.store.roles import Role
from gitops_bot.store.states import HarnessKind
from tests.fleet_stage import FleetStage
from tests.store_fixtures import FreshDatabase

ASK = "ASK: Which way?\n"


class Kept:
    """A harness that keeps sessions, and is away for the first of its releases."""

    def __init__(self, *, keeps: bool = True, away: int = 0) -> None:
        self.keeps_sessions, self.away = keeps, away
        self.released: list[BodyOrder] = []

    def run(self, order: BodyOrder, heard: Callable[[bytes], None], stopping: Callable[[], bool]) -> BodyEnd:
        raise AssertionError("no body runs here")

    def release(self, order: BodyOrder) -> None:
        if self.away:
            self.away -= 1
            raise Unavailable("it is away")
        self.released.append(order)


@pytest.fixture
def stage(sqlite_database: FreshDatabase) -> FleetStage:
    return FleetStage(sqlite_database.open(Role.BROKER))


def parked(stage: FleetStage) -> str:
    """Let an agent that is in a session ask; give its run."""
    agent = stage.member("one")
    opened = stage.dispatch(agent)
    stage.write(lambda tx: tx.execute(update(rows).values(session="s-1")))
    stage.settle(opened, ASK)
    return opened.dispatch.run


def deliver(stage: FleetStage, harness: Kept | None) -> None:
    harnesses = {} if harness is None else {HarnessKind.COMMAND: harness}
    routes = {RELEASE: Releasing(stage.database, harnesses).route()}
    duty = RowDuty(outbox.DUTY, stage.database, Outbox(stage.database, routes).lane, Pace(first_ms=1))
    for _ in range(3):
        duty.step()


def test_the_session_is_released_with_whose_it_was(stage: FleetStage) -> None:
    run, harness = parked(stage), Kept()
    deliver(stage, harness)
    (order,) = harness.released
    assert (order.agent, order.run, order.session, order.argv) == ("one", run, "s-1", ("true",))
    assert order.env == {} and order.prompt == b""
    assert len(stage.happened("effect.done")) == 1


def test_a_harness_without_sessions_is_not_called(stage: FleetStage) -> None:
    parked(stage)
    harness = Kept(keeps=False)
    deliver(stage, harness)
    assert harness.released == [] and len(stage.happened("effect.done")) == 1


def test_a_harness_that_is_away_is_asked_again(stage: FleetStage) -> None:
    parked(stage)
    harness = Kept(away=1)
    deliver(stage, harness)
    assert harness.away == 0 and stage.happened("effect.failed") == []


def test_without_the_harness_it_is_said_to_have_failed(stage: FleetStage) -> None:
    parked(stage)
    deliver(stage, None)
    assert len(stage.happened("effect.failed")) == 1


def test_a_retired_agent_s_session_is_released_at_the_end_of_its_turn(stage: FleetStage) -> None:
    agent = stage.member("one")
    opened = stage.dispatch(agent)
    stage.write(lambda tx: tx.execute(update(rows).values(session="s-1")))
    stage.retire(agent)
    stage.settle(opened, "", BodyEnd(BodyStop.STOPPED))
    harness = Kept()
    deliver(stage, harness)
    assert [order.session for order in harness.released] == ["s-1"]
