"""The end of a turn is one transaction, by whoever comes first, and leaves the agent due, waiting or at rest."""

from typing import Any

import pytest
from sqlalchemy import event, update

from gitops_bot.core.asks import AskState
from gitops_bot.fleet.settle import BLOCKED, RELEASE
from gitops_bot.ports import BodyEnd, BodyStop
from gitops_bot.store import dispatches, lanes
from gitops_bot.store.fleet_tables import fleet_agents as rows
from gitops_bot.store.roles import Role
from gitops_bot.store.states import RunState, WakePolicy
from tests.fleet_stage import LANE, FleetStage
from tests.store_fixtures import FreshDatabase
from tests.store_rows import contents

ASK = "ASK: Which way?\nOPTIONS: left | right\n"


@pytest.fixture
def stage(database: FreshDatabase) -> FleetStage:
    return FleetStage(database.open(Role.BROKER))


def end_of(stop: BodyStop, **given: Any) -> BodyEnd:
    return BodyEnd(stop, 1, "the last line of it", **given)


def in_session(stage: FleetStage, slug: str = "one") -> Any:
    agent = stage.member(slug)
    stage.write(lambda tx: tx.execute(update(rows).where(rows.c.agent == agent.id).values(session="s-1")))
    return agent


class Power(Exception):
    """The machine stops."""


def test_i1_whatever_statement_fails_nothing_of_the_end_is_there(database: FreshDatabase) -> None:
    stage = FleetStage(database.open(Role.BROKER))
    owner = database.open(Role.OWNER)
    agent = in_session(stage)
    stage.member("two")
    opened = stage.dispatch(agent)
    stage.write(lambda tx: tx.execute(update(rows).where(rows.c.agent == agent.id).values(session="s-1")))
    before = contents(owner)
    text = ASK + "REPORT: done\nSEND: @two hello\nOUTCOME: RATE_LIMITED\n"
    written: list[str] = []
    fails_at = 0

    def count(_c: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement.lstrip().upper().startswith(("INSERT", "UPDATE", "DELETE")):
            written.append(statement)
            if len(written) == fails_at:
                raise Power

    event.listen(stage.database.engine, "before_cursor_execute", count)
    while True:
        fails_at += 1
        written.clear()
        try:
            settled = stage.settle(opened, text)
        except Power:
            assert contents(owner) == before
            continue
        break
    event.remove(stage.database.engine, "before_cursor_execute", count)
    assert fails_at > 15 and settled is not None
    assert len(stage.open_asks(agent)) == 1 and stage.state_of(opened.dispatch.run) is RunState.PARKED
    assert stage.effects() == [(f"agent:{agent.id}", RELEASE)]
    assert len(stage.happened("lane.closed")) == len(stage.happened("run.settled")) == 1


def test_who_comes_second_writes_nothing(database: FreshDatabase) -> None:
    stage = FleetStage(database.open(Role.BROKER))
    owner = database.open(Role.OWNER)
    opened = stage.dispatch(stage.member("one"))
    assert stage.settle(opened, ASK) is not None
    before = contents(owner)
    assert stage.settle(opened, ASK + "REPORT: more\n", end_of(BodyStop.FAILED)) is None
    assert contents(owner) == before


def test_the_end_of_a_dispatch_is_kept(stage: FleetStage) -> None:
    opened = stage.dispatch(stage.member("one"))
    stage.say(opened, "some text")
    stage.settle(opened, "some text", end_of(BodyStop.TIMED_OUT))
    run, version = opened.dispatch.run, opened.dispatch.version
    ended = stage.read(lambda tx: dispatches.ended(tx, run, version))
    assert ended is not None
    assert (ended.stop, ended.exit_code, ended.detail) == (BodyStop.TIMED_OUT, 1, "the last line of it")
    assert stage.read(lambda tx: dispatches.text(tx, run, version)) == ""


def test_the_report_is_in_the_thread_and_in_the_next_capsule(stage: FleetStage) -> None:
    agent = stage.member("one")
    stage.run_turn(agent, "I looked at it.\nREPORT: a line\nIt is fine.\n")
    assert ("agent", "I looked at it.\nIt is fine.") in stage.lines(agent)
    assert "| agent one: It is fine." in stage.dispatch(agent).dispatch.capsule


def test_a_turn_that_ends_badly_keeps_the_last_report_and_says_how_it_ended(stage: FleetStage) -> None:
    agent = stage.member("one")
    stage.run_turn(agent, "A whole report.\n")
    stage.run_turn(agent, "half of", end_of(BodyStop.FAILED))
    assert stage.standing(agent).report == "A whole report."
    said = [text for kind, text in stage.lines(agent) if kind == "system"]
    assert said == ["The turn ended badly: failed, exit code 1. the last line of it"]


def test_asks_park_the_run_and_release_the_session(stage: FleetStage) -> None:
    agent = in_session(stage)
    opened = stage.dispatch(agent)
    stage.write(lambda tx: tx.execute(update(rows).where(rows.c.agent == agent.id).values(session="s-1")))
    stage.settle(opened, ASK + "OUTCOME: WORK_DONE\n")
    assert stage.state_of(opened.dispatch.run) is RunState.PARKED
    assert stage.standing(agent).session is None and stage.effects() == [(f"agent:{agent.id}", RELEASE)]


def test_without_an_ask_the_session_is_gone_on_in(stage: FleetStage) -> None:
    agent = in_session(stage)
    opened = stage.dispatch(agent)
    stage.write(lambda tx: tx.execute(update(rows).where(rows.c.agent == agent.id).values(session="s-1")))
    stage.settle(opened, "OUTCOME: WORK_DONE\n")
    assert stage.state_of(opened.dispatch.run) is RunState.ENDED
    assert stage.standing(agent).session == "s-1" and stage.effects() == []


def test_an_ask_of_a_turn_has_its_text_options_run_and_waiter(stage: FleetStage) -> None:
    agent = stage.member("one")
    opened = stage.run_turn(agent, ASK)
    (found,) = stage.open_asks(agent)
    ask = stage.get(found)
    assert (ask.text, [option.label for option in ask.options]) == ("Which way?", ["left", "right"])
    assert (ask.run, ask.binding.run_version, ask.requester) == (opened.dispatch.run, 1, "agent")


def test_an_ask_that_is_refused_is_said_and_the_turn_goes_by_its_outcome(stage: FleetStage) -> None:
    agent = stage.member("one", WakePolicy.CONTINUOUS)
    limits = type(stage.rules.limits)(max_open_questions=1)
    stage.rules = type(stage.rules)(stage.rules.policy, stage.rules.repository, stage.rules.environment, limits)
    opened = stage.run_turn(agent, "ASK: First?\nASK: Second?\nOUTCOME: WORK_DONE\n")
    assert len(stage.open_asks(agent)) == 1 and stage.state_of(opened.dispatch.run) is RunState.PARKED
    (said,) = [text for kind, text in stage.lines(agent) if kind == "system"]
    assert "too_many_open" in said and said.endswith("It was: Second?")
    after = stage.dispatch(agent)
    settled = stage.settle(after, "ASK: Third?\nOUTCOME: WORK_DONE\n")
    assert settled is not None and settled.run is RunState.ENDED, "no ask of this run is open"


def test_blocked_without_an_ask_becomes_one_that_says_so(stage: FleetStage) -> None:
    agent = stage.member("one", WakePolicy.CONTINUOUS)
    opened = stage.run_turn(agent, "The disk is full.\nOUTCOME: BLOCKED\n")
    (found,) = stage.open_asks(agent)
    ask = stage.get(found)
    assert (ask.text, ask.why) == (BLOCKED, "The disk is full.")
    assert stage.standing(agent).blocked_ask == ask.id and stage.wakes_in(agent) == (None, None)
    assert stage.state_of(opened.dispatch.run) is RunState.PARKED
    stage.answer(ask, "alice", None, "delete the logs")
    assert stage.is_due(agent) and stage.get(ask).state is AskState.ANSWERED


def test_blocked_with_an_ask_opens_no_other(stage: FleetStage) -> None:
    agent = stage.member("one")
    stage.run_turn(agent, ASK + "OUTCOME: BLOCKED\n")
    assert len(stage.open_asks(agent)) == 1 and stage.standing(agent).blocked_ask is None


def test_blocked_and_nobody_can_be_asked_leaves_no_run_that_waits_for_ever(stage: FleetStage) -> None:
    agent = stage.member("one", WakePolicy.CONTINUOUS)
    limits = type(stage.rules.limits)(max_open_questions=0)
    stage.rules = type(stage.rules)(stage.rules.policy, stage.rules.repository, stage.rules.environment, limits)
    opened = stage.run_turn(agent, "OUTCOME: BLOCKED\n")
    assert stage.open_asks(agent) == [] and stage.state_of(opened.dispatch.run) is RunState.ENDED
    stage.reconcile()
    assert stage.wakes_in(agent) == (None, None), "it waits for a person, and its status says so"


def test_i2_a_message_while_it_ran_wakes_it_at_once_whatever_its_outcome(stage: FleetStage) -> None:
    agent = stage.member("one", WakePolicy.CONTINUOUS)
    opened = stage.dispatch(agent)
    stage.message(agent, "one more thing")
    stage.settle(opened, "OUTCOME: NO_WORK\n")
    assert stage.is_due(agent) and stage.wakes_in(agent)[1] == "message"


def test_i2_without_one_it_backs_off(stage: FleetStage) -> None:
    agent = stage.member("one", WakePolicy.CONTINUOUS)
    for pause in (60_000, 120_000, 240_000):
        stage.run_turn(agent, "OUTCOME: NO_WORK\n")
        wait, reason = stage.wakes_in(agent)
        assert reason == "idle" and wait is not None and pause - 10_000 < wait <= pause


def test_what_came_while_a_run_was_tried_again_is_told_by_the_next(stage: FleetStage) -> None:
    """The second start of a run tells the same as the first; a message that came between is not lost for that."""
    agent = stage.member("one")
    opened = stage.dispatch(agent)
    stage.message(agent, "one more thing")
    stage.settle(opened, end=end_of(BodyStop.FAILED))
    again = stage.dispatched()["one"]
    assert (again.dispatch.run, again.dispatch.version) == (opened.dispatch.run, 2)
    assert again.dispatch.capsule == opened.dispatch.capsule
    stage.settle(again, "OUTCOME: WORK_DONE\n")
    following = stage.dispatched()["one"]
    assert following.dispatch.run != again.dispatch.run and "one more thing" in following.dispatch.capsule


@pytest.mark.parametrize("stop", [BodyStop.FAILED, BodyStop.TIMED_OUT, BodyStop.NOT_STARTED])
def test_a_turn_that_fails_is_tried_again_later_as_the_same_run(stage: FleetStage, stop: BodyStop) -> None:
    agent = stage.member("one")
    opened = stage.dispatch(agent)
    settled = stage.settle(opened, ASK, end_of(stop))
    assert settled is not None and settled.again
    wait, reason = stage.wakes_in(agent)
    assert reason == "retry" and wait is not None and 20_000 < wait <= 30_000
    assert stage.standing(agent).again == opened.dispatch.run and not stage.token_stands(opened.token)


def test_a_turn_that_was_stopped_is_due_at_once_as_the_same_run(stage: FleetStage) -> None:
    agent = stage.member("one")
    opened = stage.dispatch(agent)
    stage.settle(opened, "", end_of(BodyStop.STOPPED))
    assert stage.is_due(agent)
    assert stage.dispatched()["one"].dispatch.run == opened.dispatch.run
    assert stage.standing(agent).errors == 0 and stage.lines(agent) == []


def lane_of(stage: FleetStage) -> lanes.Lane:
    found = stage.read(lambda tx: lanes.get(tx, LANE))
    assert found is not None
    return found


def test_a_limit_closes_the_lane_for_all_and_their_work_opens_it_anew(stage: FleetStage) -> None:
    one, two = stage.member("one"), stage.member("two")
    first, second = stage.dispatch(one), stage.dispatch(two)
    stage.settle(first, "OUTCOME: RATE_LIMITED\n")
    assert lane_of(stage).closings == 1
    stage.settle(second, "", end_of(BodyStop.RATE_LIMITED))
    assert lane_of(stage).closings == 1, "two that met one limit at one time closed it once"
    stage.wake(one)
    assert stage.dispatched() == {}, "the lane is closed"
    stage.write(lambda tx: tx.execute(update(lanes.lanes).values(opens_at=0)))
    again = stage.dispatched()
    assert again["one"].dispatch.run == first.dispatch.run
    stage.settle(again["one"], "OUTCOME: RATE_LIMITED\n")
    assert lane_of(stage).closings == 2
    stage.write(lambda tx: tx.execute(update(lanes.lanes).values(opens_at=0)))
    stage.run_turn(one, "OUTCOME: NO_WORK\n")
    assert lane_of(stage).closings == 0


def test_a_provider_that_names_its_limit_is_believed(stage: FleetStage) -> None:
    agent = stage.member("one")
    opened = stage.dispatch(agent)
    stage.settle(opened, "", end_of(BodyStop.RATE_LIMITED, retry_after=1800.0))
    wait, reason = stage.wakes_in(agent)
    assert reason == "lane" and wait is not None and 1_700_000 < wait <= 1_800_000


def test_markers_over_their_limit_are_one_event(stage: FleetStage) -> None:
    agent = stage.member("one")
    stage.run_turn(agent, "".join(f"REPORT: {n}\n" for n in range(60)))
    assert len(stage.happened("agent.report")) == 50 and len(stage.happened("markers.capped")) == 1
    stage.run_turn(agent, "".join(f"REPORT: {n}\n" for n in range(50)))
    assert len(stage.happened("markers.capped")) == 1
