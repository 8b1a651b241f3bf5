"""The tick starts what is due, sleeps until more is, and leaves what cannot run for later."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from sqlalchemy import update

from gitops_bot.authority.sealing import Sealer
from gitops_bot.core.errors import Unavailable
from gitops_bot.fleet.bodies import Bodies, Ground
from gitops_bot.fleet.tick import IDLE_SECONDS, Tick
from gitops_bot.ports import BodyEnd, BodyOrder, BodyStop
from gitops_bot.store import dispatches, ledger
from gitops_bot.store.fleet_tables import fleet_agents, lanes
from gitops_bot.store.roles import Role
from gitops_bot.store.states import HarnessKind, WakePolicy
from tests.due_stage import LANE, LEASE, DueStage
from tests.store_fixtures import FreshDatabase


@dataclass
class Held:
    """A harness whose bodies go on until they are let go, then say what a test gave them to say."""

    says: bytes = b""
    orders: list[BodyOrder] = field(default_factory=list)
    go: bool = False
    keeps_sessions: bool = False

    def run(self, order: BodyOrder, heard: Callable[[bytes], None], stopping: Callable[[], bool]) -> BodyEnd:
        self.orders.append(order)
        until = time.monotonic() + 20
        while not self.go and time.monotonic() < until:
            if stopping():
                return BodyEnd(BodyStop.STOPPED)
            time.sleep(0.002)
        heard(self.says)
        return BodyEnd(BodyStop.ENDED, 0)

    def release(self, order: BodyOrder) -> None:
        raise NotImplementedError


@dataclass
class House:
    stage: DueStage
    harness: Held
    bodies: Bodies
    tick: Tick
    rung: list[float]

    def let_go(self) -> None:
        """Let every body end, and wait until they have."""
        self.harness.go = True
        until = time.monotonic() + 10
        while self.bodies.count():
            assert time.monotonic() < until
            time.sleep(0.002)


@pytest.fixture
def house(database: FreshDatabase) -> House:
    stage, harness, rung = DueStage(database.open(Role.BROKER)), Held(), list[float]()
    ground = Ground(stage.database, stage.rules, {HarnessKind.COMMAND: harness}, "http://broker", "broker-1", LEASE)
    bodies = Bodies(ground, lambda: rung.append(time.monotonic()))
    tick = Tick(stage.database, bodies, holder="broker-1", slots=2, lease=LEASE)
    return House(stage, harness, bodies, tick, rung)


def test_it_starts_what_is_due_and_sleeps_when_nothing_is(house: House) -> None:
    """One step starts a body; the next has nothing to do and says how long to sleep."""
    assert house.tick.step() == IDLE_SECONDS
    agent = house.stage.member()
    house.stage.wake(agent)
    assert house.tick.step() == 0.0
    assert house.tick.step() > 0.0
    house.let_go()
    assert [order.agent for order in house.harness.orders] == ["agent-1"]
    assert house.stage.standing(agent).outcome == "NO_WORK"
    assert len(house.rung) == 1, "a place that is free rings"


def test_it_starts_no_more_than_the_slots_and_goes_on_when_one_is_free(house: House) -> None:
    """Three are due, two run; when they end, the third does."""
    for number in range(3):
        house.stage.wake(house.stage.member(f"agent-{number}"))
    house.tick.step()
    house.tick.step()
    assert house.bodies.count() == 2
    house.let_go()
    house.tick.step()
    house.let_go()
    assert sorted(order.agent for order in house.harness.orders) == ["agent-0", "agent-1", "agent-2"]


def test_it_sleeps_until_the_next_is_due_or_a_lane_opens(house: House) -> None:
    """The time to sleep is that of the nearest wake, or of a closed lane with somebody waiting in it."""
    agent = house.stage.member(policy=WakePolicy.CONTINUOUS)
    soon = update(fleet_agents).where(fleet_agents.c.agent == agent.id)
    house.stage.write(lambda tx: tx.execute(soon.values(due_at=tx.now + 400, due_reason="idle")))
    assert 0.0 < house.tick.step() <= 0.4
    house.stage.write(lambda tx: tx.execute(soon.values(due_at=tx.now)))
    closed = update(lanes).where(lanes.c.id == LANE)
    house.stage.write(lambda tx: tx.execute(closed.values(opens_at=tx.now + 600)))
    assert 0.0 < house.tick.step() <= 0.6
    assert house.bodies.count() == 0
    house.stage.write(lambda tx: tx.execute(closed.values(opens_at=tx.now)))
    assert house.tick.step() == 0.0
    house.let_go()


def test_a_wake_while_a_body_runs_costs_no_turn_and_starts_the_next_when_it_ends(house: House) -> None:
    """I2: a person's word during a turn is not lost at its end, and nothing starts beside it."""
    agent = house.stage.member()
    house.stage.wake(agent)
    house.tick.step()
    house.stage.say(agent, "one more thing")
    assert house.tick.step() > 0.0
    assert house.bodies.count() == 1
    house.harness.says = b"OUTCOME: WORK_DONE\n"
    house.let_go()
    assert house.stage.standing(agent).due_reason == "message"
    house.tick.step()
    house.let_go()
    first, second = house.harness.orders
    assert b"one more thing" in second.prompt and b"one more thing" not in first.prompt


def test_the_ledger_tells_of_each_dispatch(house: House) -> None:
    """Why, at which version, in which lane, and how many things it was told."""
    agent = house.stage.member()
    house.stage.say(agent, "hello")
    house.tick.step()
    house.let_go()
    sealer = Sealer(house.stage.database)
    sealer.arm()
    while sealer.seal():
        continue
    entries = house.stage.read(lambda tx: [one.document for one in ledger.sealed(tx, 0, 100)])
    (entry,) = [one for one in entries if one["kind"] == "run.dispatched"]
    assert entry["agent"] == agent.id and entry["run"] == house.stage.runs(agent)[0][0]
    assert entry["facts"] == {"slug": "agent-1", "version": 1, "lane": LANE, "wake": "message", "told": 1}


def test_a_database_that_is_away_is_waited_for(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unavailable is no bug: the tick comes again."""
    house.stage.wake(house.stage.member())

    def away() -> object:
        raise Unavailable("away")

    with monkeypatch.context() as patched:
        patched.setattr(house.stage.database, "read", away)
        assert house.tick.step() == IDLE_SECONDS
    assert house.tick.step() == 0.0
    house.let_go()


def test_an_agent_of_a_harness_with_sessions_goes_on_in_its_own(house: House) -> None:
    """A first turn gets a name for its session; it is kept in the agent's row, and the order carries it."""
    keeping = Tick(
        house.stage.database,
        house.bodies,
        holder="broker-1",
        slots=2,
        lease=LEASE,
        keeping={HarnessKind.COMMAND},
    )
    agent = house.stage.member()
    house.stage.wake(agent)
    keeping.step()
    ((run, _, _),) = house.stage.runs(agent)
    assert house.stage.standing(agent).session == f"agent-1-{run}"
    house.let_go()
    assert house.harness.orders[0].session == f"agent-1-{run}"
    assert house.stage.read(lambda tx: dispatches.open_of(tx, agent.id)) is None
