"""What no transaction leaves behind is made by hand here, and put right with one entry; what is sound is let be."""

import pytest
from sqlalchemy import Executable, delete, update

from gitops_bot.fleet import reconcile
from gitops_bot.ports import BodyEnd, BodyStop
from gitops_bot.store import dispatches, repairs
from gitops_bot.store.fleet_tables import dispatches as dispatch_rows
from gitops_bot.store.fleet_tables import fleet_agents as rows
from gitops_bot.store.roles import Role
from gitops_bot.store.states import AgentState, RunState, WakeOn, WakePolicy
from gitops_bot.store.tables import agents as agent_rows
from gitops_bot.store.tables import runs as run_rows
from gitops_bot.store.work_tables import waiters as waiter_rows
from tests.fleet_stage import HOLDER, FleetStage
from tests.store_fixtures import FreshDatabase
from tests.store_rows import contents

ASK = "ASK: Which way?\nOPTIONS: left | right\n"


@pytest.fixture
def owner(database: FreshDatabase) -> FleetStage:
    """A hand in the database."""
    return FleetStage(database.open(Role.OWNER))


@pytest.fixture
def stage(database: FreshDatabase) -> FleetStage:
    return FleetStage(database.open(Role.BROKER))


def repaired(stage: FleetStage) -> list[str | None]:
    return [entry["reason"] for entry in stage.happened("fleet.repaired")]


def test_a_lost_body_is_settled_with_what_it_said_and_dispatched_once_more(stage: FleetStage) -> None:
    agent = stage.member("one")
    stage.message(agent, "please look")
    opened = stage.dispatched(lease=0)["one"]
    run, version = opened.dispatch.run, opened.dispatch.version
    text = "REPORT: began\n" + ASK + "OUTCOME: WORK_DONE\nREPORT: torn of"
    stage.write(lambda tx: dispatches.append_text(tx, run, version, 0, text[:20]))
    stage.write(lambda tx: dispatches.append_text(tx, run, version, 1, text[20:]))
    stage.reconcile()
    assert len(stage.happened("run.lost")) == 1 and repaired(stage) == []
    assert [entry["facts"].count("began") for entry in stage.happened("agent.report")] == [1], "the torn line is none"
    assert stage.open_asks(agent) == [], "the end never came"
    assert stage.wakes_in(agent)[1] == "retry" and not stage.token_stands(opened.token)
    stage.hurry(agent)
    again = stage.dispatched()["one"]
    assert (again.dispatch.run, again.dispatch.version) == (run, version + 1)
    assert again.dispatch.capsule == opened.dispatch.capsule, "whatever it was told may not have been read"


def test_a_body_with_a_lease_is_let_be(stage: FleetStage) -> None:
    opened = stage.dispatch(stage.member("one"))
    stage.reconcile()
    assert stage.state_of(opened.dispatch.run) is RunState.LIVE and stage.happened("run.lost") == []


def test_a_lease_that_was_renewed_meanwhile_is_let_be(stage: FleetStage) -> None:
    opened = stage.dispatch(stage.member("one"), lease=0)
    (lost,) = stage.read(lambda tx: dispatches.lost(tx, 9))
    stage.write(lambda tx: dispatches.beat(tx, HOLDER, 60_000))
    assert not stage.write(lambda tx: reconcile.recover(tx, stage.rules, lost))
    assert stage.state_of(opened.dispatch.run) is RunState.LIVE


def test_the_body_of_a_holder_that_is_known_to_be_dead_is_lost_before_its_lease_is_over(stage: FleetStage) -> None:
    opened = stage.dispatch(stage.member("one"))
    stage.reconcile(gone=lambda holders: [one for one in holders if one == HOLDER])
    assert len(stage.happened("run.lost")) == 1
    assert stage.state_of(opened.dispatch.run) is RunState.PARKED


def test_a_lost_body_that_had_asked_waits_for_the_answer(stage: FleetStage) -> None:
    agent = stage.member("one")
    opened = stage.dispatch(agent, lease=0)
    run = opened.dispatch.run
    found = next(one for one in [stage.read(lambda tx: reconcile.agents.run(tx, run))] if one is not None)
    ask = stage.ask(opened.agent, found)
    stage.reconcile()
    assert stage.state_of(run) is RunState.PARKED and stage.wakes_in(agent) == (None, None)
    stage.withdraw(ask)
    assert stage.state_of(run) is RunState.ENDED and stage.is_due(agent)


def test_a_live_run_without_a_dispatch_is_lost_too(stage: FleetStage, owner: FleetStage) -> None:
    agent = stage.member("one")
    opened = stage.dispatch(agent)
    owner.write(lambda tx: tx.execute(delete(dispatch_rows)))
    stage.reconcile()
    assert len(stage.happened("run.lost")) == 1
    assert stage.state_of(opened.dispatch.run) is RunState.PARKED and stage.wakes_in(agent)[1] == "retry"


def test_an_open_dispatch_of_a_run_that_ended_is_ended(stage: FleetStage, owner: FleetStage) -> None:
    opened = stage.dispatch(stage.member("one"), lease=0)
    owner.write(lambda tx: tx.execute(update(run_rows).values(state="ended", ended_at=1)))
    stage.reconcile()
    run, version = opened.dispatch.run, opened.dispatch.version
    assert stage.read(lambda tx: dispatches.ended(tx, run, version)) is not None
    assert repaired(stage)[0] == "dispatch without its run"


def test_a_parked_run_that_waits_for_nothing_is_ended(stage: FleetStage, owner: FleetStage) -> None:
    agent = stage.member("one")
    opened = stage.run_turn(agent, ASK)
    owner.write(lambda tx: tx.execute(delete(waiter_rows)))
    stage.reconcile()
    assert stage.state_of(opened.dispatch.run) is RunState.ENDED
    assert repaired(stage) == ["parked run that waits for nothing"]


def test_the_open_asks_of_a_retired_agent_are_withdrawn(stage: FleetStage, owner: FleetStage) -> None:
    agent = stage.member("one")
    stage.run_turn(agent, ASK)
    (ask,) = stage.open_asks(agent)
    owner.write(lambda tx: tx.execute(update(agent_rows).values(state=AgentState.RETIRED.value)))
    owner.write(lambda tx: tx.execute(update(rows).values(resting=1)))
    stage.reconcile()
    assert stage.get(ask).state == "WITHDRAWN" and [entry.ask for entry in stage.backlog()] == [ask]
    assert repaired(stage) == ["open ask of a retired agent"]


@pytest.mark.parametrize("policy", [WakePolicy.CONTINUOUS, WakePolicy.SCHEDULED])
def test_an_agent_that_would_sleep_for_ever_is_woken(stage: FleetStage, owner: FleetStage, policy: WakePolicy) -> None:
    agent = stage.member("one", policy)
    owner.write(lambda tx: tx.execute(update(rows).values(due_at=None, due_reason=None)))
    stage.reconcile()
    assert repaired(stage) == ["agent that nothing would wake"]
    wait, reason = stage.wakes_in(agent)
    assert wait is not None and reason == ("soon" if policy is WakePolicy.CONTINUOUS else "schedule")
    assert (wait <= 0) is (policy is WakePolicy.CONTINUOUS)


def test_an_answer_that_nobody_was_woken_for_wakes(stage: FleetStage, owner: FleetStage) -> None:
    agent = stage.member("one")
    stage.run_turn(agent, ASK)
    stage.answer(stage.get(stage.open_asks(agent)[0]), "alice", "o1")
    owner.write(lambda tx: tx.execute(update(rows).values(due_at=None, due_reason=None)))
    stage.reconcile()
    assert stage.wakes_in(agent)[1] == "answer" and stage.is_due(agent)


def test_a_run_to_be_dispatched_again_that_nothing_wakes_is_due(stage: FleetStage, owner: FleetStage) -> None:
    agent = stage.member("one")
    opened = stage.run_turn(agent, "", BodyEnd(BodyStop.FAILED))
    owner.write(lambda tx: tx.execute(update(rows).values(due_at=None, due_reason=None)))
    stage.reconcile()
    assert stage.dispatched()["one"].dispatch.run == opened.dispatch.run


def test_every_sound_state_is_let_be(stage: FleetStage, owner: FleetStage) -> None:
    """Each way in which an agent may stand still by its own rule, beside each in which it goes on."""
    stage.run_turn(stage.member("asked", WakePolicy.CONTINUOUS), ASK)
    stage.run_turn(stage.member("blocked", WakePolicy.CONTINUOUS), "OUTCOME: BLOCKED\n")
    stage.run_turn(stage.member("idle", WakePolicy.CONTINUOUS), "OUTCOME: NO_WORK\n")
    stage.run_turn(stage.member("failed", WakePolicy.EVENT), "", BodyEnd(BodyStop.FAILED))
    stage.run_turn(stage.member("event", WakePolicy.EVENT), "OUTCOME: WORK_DONE\n")
    stage.member("manual", WakePolicy.MANUAL)
    stage.member("scheduled", WakePolicy.SCHEDULED)
    stage.dispatch(stage.member("live", WakePolicy.CONTINUOUS))
    gone = stage.member("gone", WakePolicy.CONTINUOUS)
    stage.run_turn(gone, ASK)
    stage.retire(gone)
    patient = stage.member("patient", wake_on=WakeOn.ALL)
    stage.run_turn(patient, ASK + "ASK: And then?\n")
    stage.answer(stage.get(stage.open_asks(patient)[0]), "alice", "o1")
    before = contents(owner.database)
    stage.reconcile(steps=3)
    assert contents(owner.database) == before


def test_a_fleet_longer_than_a_step_is_walked_to_its_end(
    stage: FleetStage, owner: FleetStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconcile, "WALKED", 2)
    monkeypatch.setattr(reconcile, "MOST", 1)
    members = [stage.member(f"a{n}", WakePolicy.CONTINUOUS) for n in range(5)]
    owner.write(lambda tx: tx.execute(update(rows).values(due_at=None, due_reason=None)))
    duty = reconcile.Reconcile(stage.database, stage.rules)
    waits = [duty.step() for _ in range(8)]
    assert all(stage.is_due(one) for one in members) and repaired(stage) == ["agent that nothing would wake"] * 5
    assert waits[0] == 0.0 and min(waits[-2:]) > 0.0


def plan_of(stage: FleetStage, statement: Executable) -> str:
    compiled = str(statement.compile(stage.database.engine))  # type: ignore[attr-defined] # every select has it
    values = tuple(1 for _ in range(compiled.count("?")))
    with stage.database.engine.connect() as connection:
        return "\n".join(str(row[3]) for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {compiled}", values))


@pytest.mark.parametrize(
    "name", ["_BODILESS", "_PARKED", "_ORPHANED", "_ASLEEP", "_LAST_RUN", "_LAST_ASK", "_LAST_AGENT"]
)
def test_no_look_walks_a_whole_table(sqlite_database: FreshDatabase, name: str) -> None:
    plan = plan_of(FleetStage(sqlite_database.open(Role.OWNER)), getattr(repairs, name))
    walks = [line for line in plan.splitlines() if line.startswith("SCAN") and "walked" not in line]
    assert all("INDEX ux_runs_live" in line or "INDEX ix_asks_open" in line for line in walks), plan
