"""A lane is closed until the latest time that anybody met; only work in it while it is open starts its count anew."""

import pytest

from gitops_bot.store import fleet, lanes
from gitops_bot.store.roles import Role
from tests.fleet_stage import LANE, FleetStage
from tests.store_fixtures import FreshDatabase


@pytest.fixture
def stage(database: FreshDatabase) -> FleetStage:
    stage = FleetStage(database.open(Role.BROKER))
    stage.member("one")
    return stage


def lane(stage: FleetStage) -> lanes.Lane:
    found = stage.read(lambda tx: lanes.get(tx, LANE))
    assert found is not None
    return found


def test_the_later_opening_stands(stage: FleetStage) -> None:
    stage.write(lambda tx: lanes.close(tx, LANE, 2_000, 1, "first"))
    stage.write(lambda tx: lanes.close(tx, LANE, 1_000, 1, "second"))
    assert (lane(stage).opens_at, lane(stage).closings) == (2_000, 1)
    stage.write(lambda tx: lanes.close(tx, LANE, 3_000, 2, "third"))
    assert (lane(stage).opens_at, lane(stage).closings, lane(stage).reason) == (3_000, 2, "third")


def test_work_in_an_open_lane_starts_its_count_anew_and_in_a_closed_one_does_not(stage: FleetStage) -> None:
    stage.write(lambda tx: lanes.close(tx, LANE, tx.now + 60_000, 3, "met a limit"))
    known = lane(stage)
    stage.write(lambda tx: lanes.served(tx, known))
    assert lane(stage).closings == 3
    stage.write(lambda tx: tx.execute(lanes.lanes.update().values(opens_at=tx.now)))
    known = lane(stage)
    stage.write(lambda tx: lanes.served(tx, known))
    assert (lane(stage).closings, lane(stage).reason) == (0, None)


def test_a_lane_that_no_agent_has_is_not_there(stage: FleetStage) -> None:
    assert stage.read(lambda tx: lanes.get(tx, "command:none")) is None
    assert stage.read(lambda tx: fleet.get(tx, "nobody")) is None
