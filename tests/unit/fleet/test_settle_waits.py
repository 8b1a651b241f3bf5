"""Who settles and who ends an ask of the same agent wait for each other in one order, and never in a circle."""

import threading
import time
from collections.abc import Callable

import pytest
from sqlalchemy import text

from gitops_bot.authority.asking import Opened as Asked
from gitops_bot.authority.asking import Waiter, Wish, open_ask
from gitops_bot.authority.settling import Settled
from gitops_bot.store import agents, dispatches, turns
from gitops_bot.store.due_agents import Opened
from gitops_bot.store.roles import Role
from gitops_bot.store.states import RunState, WaiterKind
from tests.fleet_stage import FleetStage
from tests.store_fixtures import FreshDatabase

pytestmark = pytest.mark.postgresql
_WAITING = text("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")


@pytest.fixture
def stage(postgresql_database: FreshDatabase) -> FleetStage:
    return FleetStage(postgresql_database.open(Role.BROKER))


@pytest.fixture
def other(postgresql_database: FreshDatabase) -> FleetStage:
    return FleetStage(postgresql_database.open(Role.BROKER))


def question(opened: Opened, run: agents.Run) -> Wish:
    return Wish(opened.agent, run, Waiter(WaiterKind.RUN, run.id), text="Which way?")


def beside(stage: FleetStage, work: Callable[[], object]) -> tuple[threading.Thread, list[object]]:
    """Begin some work in a thread; give it, and what it gave, once it waits for a lock (or is done)."""
    given: list[object] = []
    thread = threading.Thread(target=lambda: given.append(work()))
    thread.start()
    until = time.monotonic() + 10
    while thread.is_alive() and time.monotonic() < until:
        if stage.read(lambda tx: tx.execute(_WAITING).scalar_one()):
            break
        time.sleep(0.01)
    return thread, given


def test_1_an_answer_and_a_settle_that_has_kept_its_text_both_commit(stage: FleetStage, other: FleetStage) -> None:
    """The text's row refers to the run's, which the answer locks after the agent's."""
    agent = stage.member("one")
    opened = stage.dispatch(agent)
    run = stage.read(lambda tx: agents.run(tx, opened.dispatch.run))
    ask = stage.ask(opened.agent, run, verb=None, params=None, text="Which way?")
    with stage.database.write() as tx:
        dispatches.append_text(tx, opened.dispatch.run, opened.dispatch.version, 0, "some text")
        thread, done = beside(other, lambda: other.answer(ask, "alice", None, "left"))
        settled = stage.settle_in(tx, opened, "OUTCOME: WORK_DONE\n")
    thread.join(20)
    assert settled is not None and isinstance(done[0], Settled)
    assert stage.is_due(agent) and stage.state_of(opened.dispatch.run) is RunState.ENDED


def test_21_retiring_and_a_body_that_asks_both_commit(stage: FleetStage, other: FleetStage) -> None:
    agent = stage.member("one")
    opened = stage.dispatch(agent)
    with stage.database.write() as tx:
        turns.take(tx, f"asks:{agent.id}")
        thread, done = beside(other, lambda: other.retire(agent))
        run = agents.run(tx, opened.dispatch.run)
        assert run is not None
        assert isinstance(open_ask(tx, stage.rules, question(opened, run)), Asked)
    thread.join(20)
    assert done == [None], "it was retired"
    assert stage.open_asks(agent) == [], "asked before it was retired, and withdrawn with it"


def test_two_that_send_to_each_other_at_their_ends_both_settle(stage: FleetStage, other: FleetStage) -> None:
    one, two = stage.member("one"), stage.member("two")
    opened = {"one": stage.dispatch(one), "two": stage.dispatch(two)}
    with stage.database.write() as tx:
        first = stage.settle_in(tx, opened["one"], "SEND: @two hello\n")
        thread, done = beside(other, lambda: other.settle(opened["two"], "SEND: @one hello\n"))
    thread.join(20)
    assert first is not None and done[0] is not None
    assert stage.is_due(one) and stage.is_due(two)
