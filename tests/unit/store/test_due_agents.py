"""What is due is claimed once, within slots and budgets, and told exactly once; on both engines."""

import threading

import pytest
from sqlalchemy import update

from gitops_bot.ports import BodyStop
from gitops_bot.store import agents, dispatches, due_agents, told
from gitops_bot.store.engine import Tx
from gitops_bot.store.fleet_tables import capsule_items, fleet_agents, lanes
from gitops_bot.store.fleet_tables import dispatches as table
from gitops_bot.store.roles import Role
from gitops_bot.store.states import AgentState, RunState
from gitops_bot.store.tables import agent_tokens, runs
from tests.due_stage import LANE, LEASE, DueStage
from tests.store_fixtures import FreshDatabase


@pytest.fixture
def stage(database: FreshDatabase) -> DueStage:
    return DueStage(database.open(Role.BROKER))


def overview(stage: DueStage) -> dict[str, due_agents.Lane]:
    return {lane.id: lane for lane in stage.read(due_agents.overview)}


def test_a_due_agent_gets_one_run_one_dispatch_and_one_token(stage: DueStage) -> None:
    """One transaction opens the run, consumes the wake, and gives a token for this run alone, for the turn's time."""
    agent = stage.member()
    stage.wake(agent)
    before = stage.standing(agent).wake_seq
    (opened,) = stage.dispatch()
    found = stage.read(lambda tx: dispatches.get(tx, opened.dispatch.run, 1))
    assert found == opened.dispatch
    assert (found.agent, found.slug, found.reason, found.wake_seq) == (agent.id, "agent-1", "person", before)
    assert stage.runs(agent) == [(opened.dispatch.run, 1, "live")]
    standing = stage.standing(agent)
    assert (standing.due_at, standing.due_reason, standing.wake_seq) == (None, None, before)
    bearer = stage.read(lambda tx: agents.bearer(tx, opened.token))
    assert bearer is not None and (bearer.run, bearer.scope.value) == (opened.dispatch.run, "run")
    row = stage.read(lambda tx: tx.execute(agent_tokens.select()).one())
    assert row.expires_at == opened.dispatch.started_at + 60_000 + due_agents.SLACK


def test_an_agent_that_is_not_due_or_rests_is_left_alone(stage: DueStage) -> None:
    """Neither a time to come nor a paused agent starts; the accepting twin is resumed."""
    asleep, paused = stage.member("asleep"), stage.member("paused")
    stage.wake(paused)
    stage.write(lambda tx: agents.set_state(tx, paused.id, AgentState.PAUSED))
    later = update(fleet_agents).where(fleet_agents.c.agent == asleep.id)
    stage.write(lambda tx: tx.execute(later.values(due_at=tx.now + 5_000, due_reason="idle")))
    assert stage.dispatch() == []
    lane = overview(stage)[LANE]
    assert not lane.is_ripe and lane.next_at == stage.standing(asleep).due_at
    stage.write(lambda tx: agents.set_state(tx, paused.id, AgentState.ACTIVE))
    assert [one.agent.id for one in stage.dispatch()] == [paused.id]


def test_an_agent_with_a_live_run_waits_for_its_end(stage: DueStage) -> None:
    """A wake while it runs stays due and starts nothing; without the live run it starts."""
    agent = stage.member()
    stage.wake(agent)
    (first,) = stage.dispatch()
    stage.wake(agent, "message")
    assert not overview(stage)[LANE].is_ripe
    assert stage.dispatch() == []
    assert stage.standing(agent).due_reason == "message"
    stage.write(lambda tx: agents.end_run(tx, first.dispatch.run, "done"))
    assert overview(stage)[LANE].is_ripe
    (second,) = stage.dispatch()
    assert second.dispatch.run != first.dispatch.run and second.dispatch.reason == "message"


def test_a_parked_run_does_not_keep_its_agent_from_another(stage: DueStage) -> None:
    """A wake for another reason opens a new row and leaves the parked one alone."""
    agent = stage.member()
    ask = stage.parked_ask(agent)
    stage.wake(agent, "message")
    (opened,) = stage.dispatch()
    assert sorted(state for _, _, state in stage.runs(agent)) == ["live", "parked"]
    assert opened.dispatch.run != ask.run


def test_the_longest_due_come_first_within_the_free_slots(stage: DueStage) -> None:
    """Slots count what runs in the lane, whoever holds it, and only an ended dispatch frees one."""
    members = [stage.member(f"agent-{number}") for number in range(5)]
    for place, agent in enumerate(reversed(members)):
        due = update(fleet_agents).where(fleet_agents.c.agent == agent.id)
        stage.write(lambda tx, due=due, place=place: tx.execute(due.values(due_at=1_000 + place, due_reason="idle")))  # type: ignore[misc] # bound now
    first = stage.dispatch(slots=2, holder="broker-1")
    assert [one.agent.id for one in first] == [members[4].id, members[3].id]
    assert stage.dispatch(slots=2, holder="broker-2") == []
    assert overview(stage)[LANE].running == 2
    ended = first[0].dispatch
    stage.write(lambda tx: dispatches.end(tx, ended.run, 1, BodyStop.ENDED, 0, "", "WORK_DONE"))
    assert [one.agent.id for one in stage.dispatch(slots=2, holder="broker-2")] == [members[2].id]


def test_a_closed_lane_starts_nothing_until_it_opens(stage: DueStage) -> None:
    """A rate limit of a provider holds its lane; another lane goes on."""
    held, other = stage.member("held"), stage.member("other", lane="command:other")
    for agent in (held, other):
        stage.wake(agent)
    closed = update(lanes).where(lanes.c.id == LANE)
    stage.write(lambda tx: tx.execute(closed.values(opens_at=tx.now + 60_000)))
    assert stage.dispatch() == []
    assert [one.agent.id for one in stage.dispatch("command:other")] == [other.id]
    assert overview(stage)[LANE].opens_at > stage.read(lambda tx: tx.now)
    stage.write(lambda tx: tx.execute(closed.values(opens_at=0)))
    assert [one.agent.id for one in stage.dispatch()] == [held.id]


def test_spent_turns_move_the_wake_to_when_there_is_one_again(stage: DueStage, database: FreshDatabase) -> None:
    """With two turns a day, the third waits until the first of them is a day old; older ones do not count."""
    agent, owner = stage.member(turns_a_day=2), database.open(Role.OWNER)
    for hours in (30, 20, 10):
        stage.wake(agent)
        (opened,) = stage.dispatch(slots=100)
        stage.write(lambda tx, run=opened.dispatch.run: agents.end_run(tx, run, "done"))  # type: ignore[misc] # bound now
        with owner.write() as tx:
            aged = update(table).where(table.c.run == opened.dispatch.run)
            tx.execute(aged.values(started_at=tx.now - hours * 3_600_000))
    stage.wake(agent)
    assert stage.dispatch(slots=100) == []
    first = min(stage.read(lambda tx: dispatches.started_since(tx, agent.id, tx.now - due_agents.DAY)))
    standing = stage.standing(agent)
    assert (standing.due_at, standing.due_reason) == (first + due_agents.DAY, "budget")


def test_each_item_is_told_in_one_capsule(stage: DueStage) -> None:
    """A verdict and two messages are told by the first run, and by no later one; what came meanwhile by the next."""
    agent = stage.member()
    ask = stage.parked_ask(agent, labels=("north", "south"))
    stage.say(agent, "bring water", depth=2, kind="agent", who="agent-2")
    stage.say(agent, "and bread")
    stage.answer(ask, "alice", "o2", "it is shorter")
    (first,) = stage.dispatch()
    told_first = [
        part in first.dispatch.capsule for part in ("bring water", "and bread", "option: o2", "it is shorter")
    ]
    assert all(told_first), first.dispatch.capsule
    assert (first.dispatch.depth, first.dispatch.reason) == (2, "answer")
    stage.say(agent, "late")
    stage.write(lambda tx: agents.end_run(tx, first.dispatch.run, "done"))
    (second,) = stage.dispatch()
    assert "late" in second.dispatch.capsule and "bring water" not in second.dispatch.capsule
    assert "option: o2" not in second.dispatch.capsule and second.dispatch.depth == 0
    items = stage.read(lambda tx: tx.execute(capsule_items.select().order_by(capsule_items.c.id)).all())
    assert [item.run for item in items] == [first.dispatch.run] * 3 + [second.dispatch.run]


def test_what_a_capsule_does_not_hold_waits_for_the_next(stage: DueStage) -> None:
    """More messages than one capsule takes: the oldest go, their number is said, asks are never behind them."""
    agent, other = stage.member(), stage.member("other")
    ask = stage.parked_ask(agent)
    for number in range(7):
        stage.say(agent, f"message {number}")
    stage.say(other, "one alone")
    stage.answer(ask, "alice", None, "yes, do")

    def read(tx: Tx) -> dict[str, told.Told]:
        return dict(told.untold(tx, [agent.id, other.id], 2, 3))

    found = stage.read(read)
    mine = found[agent.id]
    assert [message.text for message in mine.messages] == ["message 0", "message 1", "message 2"]
    assert [(one.id, one.text) for one in mine.asks] == [(ask.id, "yes, do")]
    assert (mine.more, len(mine.items)) == (4, 4)
    assert [message.text for message in found[other.id].messages] == ["one alone"]
    stage.write(lambda tx: told.consume(tx, [(item, ask.run) for item in mine.items]))
    assert [message.text for message in stage.read(read)[agent.id].messages] == ["message 3", "message 4", "message 5"]


def test_an_expired_ask_is_told_as_no_verdict(stage: DueStage) -> None:
    """Expiry never approves (I5): the capsule says EXPIRED, and names nobody."""
    agent = stage.member()
    stage.expiring(agent=agent, run=stage.run(agent), verb=None, params=None, text="Which way?")
    stage.expire_all()
    stage.write(lambda tx: agents.set_state(tx, agent.id, AgentState.ACTIVE))
    (opened,) = stage.dispatch()
    assert "state: EXPIRED (no verdict)" in opened.dispatch.capsule and "by:" not in opened.dispatch.capsule


def test_a_lost_run_is_dispatched_again_as_itself_with_the_same_capsule(stage: DueStage) -> None:
    """The same row at the next version, told the same to the letter; its old token is dead, news wait untold."""
    agent = stage.member()
    stage.say(agent, "the task")
    (first,) = stage.dispatch()

    def lose(tx: Tx) -> None:
        assert dispatches.end(tx, first.dispatch.run, 1, BodyStop.FAILED, None, "gone", "RETRYABLE_ERROR")
        agents.set_run_state(tx, first.dispatch.run, RunState.PARKED)
        tx.execute(update(fleet_agents).values(again=first.dispatch.run))

    stage.write(lose)
    stage.say(agent, "news")
    (second,) = stage.dispatch()
    assert (second.dispatch.run, second.dispatch.version) == (first.dispatch.run, 2)
    assert second.dispatch.capsule == first.dispatch.capsule
    assert stage.runs(agent) == [(first.dispatch.run, 2, "live")]
    assert stage.read(lambda tx: agents.bearer(tx, first.token)) is None
    assert stage.read(lambda tx: agents.bearer(tx, second.token)) is not None
    assert stage.standing(agent).again is None
    left = stage.read(lambda tx: told.untold(tx, [agent.id], 9, 9))
    assert [message.text for message in left[agent.id].messages] == ["news"]


def test_a_thousand_are_opened_at_once(stage: DueStage) -> None:
    """One call opens many; nobody is started twice."""
    for number in range(120):
        stage.wake(stage.member(f"agent-{number}"))
    assert len(stage.dispatch(slots=100)) == 100
    assert len(stage.dispatch(slots=1_000)) == 20
    assert stage.dispatch(slots=1_000) == []
    assert stage.count("runs") == stage.count("dispatches") == stage.count("agent_tokens") == 120


def test_two_brokers_never_start_one_agent_twice(stage: DueStage, database: FreshDatabase) -> None:
    """Racing claims, while people wake the agents: one live run an agent, whoever comes first, and no error."""
    members = [stage.member(f"agent-{number}") for number in range(12)]
    begin, failed = threading.Barrier(3), list[BaseException]()

    def race(work: object) -> None:
        assert callable(work)
        begin.wait()
        try:
            for _ in range(6):
                work()
        except BaseException as error:
            failed.append(error)
            raise

    def waking() -> None:
        for member in members:
            stage.wake(member)

    rivals = [DueStage(database.open(Role.BROKER)) for _ in range(2)]
    works = [waking, *(lambda rival=rival: rival.dispatch(slots=100, holder=str(id(rival))) for rival in rivals)]
    threads = [threading.Thread(target=race, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failed == []
    stage.dispatch(slots=100)
    live = stage.read(lambda tx: tx.execute(runs.select().where(runs.c.state == "live")).all())
    assert sorted(row.agent for row in live) == sorted(member.id for member in members)


def test_a_wake_while_nothing_runs_survives_a_rolled_back_dispatch(stage: DueStage) -> None:
    """A process that dies before the commit has consumed nothing: the next tick dispatches with the verdict, once."""
    agent = stage.member()
    ask = stage.parked_ask(agent)
    stage.answer(ask, "alice", None, "yes")

    class Died(Exception):
        pass

    def dies(tx: Tx) -> None:
        claimed = due_agents.claim(tx, LANE, 4)
        openings = [due_agents.Opening(claimed[0], "run-x", 1, "capsule", 0)]
        due_agents.open_runs(tx, openings, "broker-1", LEASE)
        raise Died

    with pytest.raises(Died):
        stage.write(dies)
    assert stage.standing(agent).due_reason == "answer"
    (opened,) = stage.dispatch()
    assert "yes" in opened.dispatch.capsule
    assert stage.dispatch() == []
