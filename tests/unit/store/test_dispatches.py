"""A dispatch is held under a lease, ends once, and keeps what its body said; on both engines."""

import pytest
from sqlalchemy import update

from gitops_bot.ports import BodyStop
from gitops_bot.store import agents, dispatches
from gitops_bot.store.fleet_tables import dispatches as table
from gitops_bot.store.roles import Role
from gitops_bot.store.states import AgentState
from tests.due_stage import LANE, LEASE, DueStage
from tests.store_fixtures import FreshDatabase


@pytest.fixture
def stage(database: FreshDatabase) -> DueStage:
    return DueStage(database.open(Role.BROKER))


@pytest.fixture
def dispatch(stage: DueStage) -> dispatches.Dispatch:
    stage.wake(stage.member())
    (opened,) = stage.dispatch()
    return opened.dispatch


def test_it_ends_once(stage: DueStage, dispatch: dispatches.Dispatch) -> None:
    """Who comes second writes nothing: the first end stands."""
    end = dispatches.end
    assert stage.write(lambda tx: end(tx, dispatch.run, 1, BodyStop.FAILED, 3, "a\0b", "RETRYABLE_ERROR"))
    assert not stage.write(lambda tx: end(tx, dispatch.run, 1, BodyStop.ENDED, 0, "", "WORK_DONE"))
    ended = stage.read(lambda tx: dispatches.ended(tx, dispatch.run, 1))
    assert ended is not None
    assert (ended.stop, ended.exit_code, ended.detail, ended.outcome) == (
        BodyStop.FAILED,
        3,
        "a\ufffdb",
        "RETRYABLE_ERROR",
    )
    assert stage.read(lambda tx: dispatches.open_of(tx, dispatch.agent)) is None
    assert stage.read(lambda tx: dispatches.running(tx, LANE)) == 0


def test_one_that_runs_is_found_by_its_agent_and_holder(stage: DueStage, dispatch: dispatches.Dispatch) -> None:
    """Open ones are found by agent and by holder, and nobody else's."""
    assert stage.read(lambda tx: dispatches.open_of(tx, dispatch.agent)) == dispatch
    assert stage.read(lambda tx: dispatches.open_by(tx, "broker-1")) == [dispatch]
    assert stage.read(lambda tx: dispatches.open_by(tx, "broker-2")) == []
    assert stage.read(dispatches.holders) == ["broker-1"]
    assert stage.read(lambda tx: dispatches.ended(tx, dispatch.run, 1)) is None


def test_it_is_lost_when_its_lease_is_over_and_not_while_its_holder_lives(
    stage: DueStage, dispatch: dispatches.Dispatch
) -> None:
    """A lease that ran out makes it lost; a sign of life, of its own holder alone, takes it back."""
    assert stage.read(lambda tx: dispatches.lost(tx, 10)) == []
    stage.write(lambda tx: tx.execute(update(table).values(lease_until=tx.now)))
    assert stage.read(lambda tx: dispatches.lost(tx, 10)) == [dispatch]
    assert stage.write(lambda tx: dispatches.beat(tx, "broker-2", LEASE)) == 0
    assert stage.read(lambda tx: dispatches.lost(tx, 10)) == [dispatch]
    assert stage.write(lambda tx: dispatches.beat(tx, "broker-1", LEASE)) == 1
    assert stage.read(lambda tx: dispatches.lost(tx, 10)) == []


def test_its_holder_hears_of_its_end_and_of_a_retired_agent(stage: DueStage, dispatch: dispatches.Dispatch) -> None:
    """What is held is named; with True where the agent was retired, and not at all once it has ended."""
    key = (dispatch.run, 1)
    assert stage.read(lambda tx: dispatches.held(tx, "broker-1")) == {key: False}
    stage.write(lambda tx: agents.set_state(tx, dispatch.agent, AgentState.RETIRED))
    assert stage.read(lambda tx: dispatches.held(tx, "broker-1")) == {key: True}
    stage.write(lambda tx: dispatches.end(tx, dispatch.run, 1, BodyStop.STOPPED, None, "", None))
    assert stage.read(lambda tx: dispatches.held(tx, "broker-1")) == {}


def test_its_text_is_kept_in_pieces_each_once(stage: DueStage, dispatch: dispatches.Dispatch) -> None:
    """The same part again changes nothing, the order is that of the parts, and what cannot be stored is replaced."""
    for part, text in ((0, "one "), (1, "two\0"), (0, "again"), (2, " \ud800three")):
        stage.write(lambda tx, part=part, text=text: dispatches.append_text(tx, dispatch.run, 1, part, text))  # type: ignore[misc] # bound now
    assert stage.read(lambda tx: dispatches.text(tx, dispatch.run, 1)) == "one two\ufffd \ufffdthree"
    assert stage.read(lambda tx: dispatches.text(tx, dispatch.run, 2)) == ""
    stage.write(lambda tx: dispatches.forget_text(tx, dispatch.run, 1))
    assert stage.read(lambda tx: dispatches.text(tx, dispatch.run, 1)) == ""


def test_a_body_begins_once(stage: DueStage, dispatch: dispatches.Dispatch) -> None:
    """The first sign of a body is kept, a later one is not its begin."""
    assert stage.write(lambda tx: dispatches.began(tx, dispatch.run, 1))
    assert not stage.write(lambda tx: dispatches.began(tx, dispatch.run, 1))
