"""What a body says is kept and lands while it speaks, its end is settled once, and nothing outlives its lease."""

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest

from gitops_bot.core.errors import Unavailable
from gitops_bot.fleet import landing, settle
from gitops_bot.fleet.bodies import MAX_TEXT, Bodies, Ground
from gitops_bot.fleet.grammar import Ended, Informational, Notify, Report
from gitops_bot.fleet.turn import Turn
from gitops_bot.ports import BodyEnd, BodyOrder, BodyStop
from gitops_bot.store import agents, dispatches
from gitops_bot.store.due_agents import Opened
from gitops_bot.store.engine import Tx
from gitops_bot.store.roles import Role
from gitops_bot.store.states import AgentState, HarnessKind
from tests.due_stage import DueStage
from tests.store_fixtures import FreshDatabase

Script = Callable[[Callable[[bytes], None], Callable[[], bool]], BodyEnd]
ENDED = BodyEnd(BodyStop.ENDED, 0)


@dataclass
class Scripted:
    """A harness that does what a test says, and remembers its orders."""

    script: Script
    orders: list[BodyOrder] = field(default_factory=list)
    keeps_sessions: bool = False

    def run(self, order: BodyOrder, heard: Callable[[bytes], None], stopping: Callable[[], bool]) -> BodyEnd:
        self.orders.append(order)
        return self.script(heard, stopping)

    def release(self, order: BodyOrder) -> None:
        raise NotImplementedError


@dataclass
class Landed:
    """What landed and what was settled, in order; `over` says that a turn is over, `away` that the database is."""

    informed: list[Informational] = field(default_factory=list)
    settled: list[tuple[Turn, BodyEnd, Ended]] = field(default_factory=list)
    over: bool = False
    away: int = 0

    def inform(self, tx: Tx, _rules: object, turn: Turn, markers: Iterable[Informational]) -> bool:
        if self.away > 0:
            self.away -= 1
            raise Unavailable("away")
        self.informed += () if self.over else markers
        return not self.over

    def settle(self, tx: Tx, _rules: object, turn: Turn, end: BodyEnd, ended: Ended, **_: object) -> None:
        if self.away > 0:
            self.away -= 1
            raise Unavailable("away")
        if dispatches.end(tx, turn.run, turn.version, end.stop, end.exit_code, end.detail, ended.outcome.value):
            self.settled.append((turn, end, ended))
            self.informed += ended.late


@pytest.fixture
def landed(monkeypatch: pytest.MonkeyPatch) -> Landed:
    made = Landed()
    monkeypatch.setattr(landing, "inform", made.inform)
    monkeypatch.setattr(settle, "settle", made.settle)
    return made


@pytest.fixture
def stage(sqlite_database: FreshDatabase) -> DueStage:
    return DueStage(sqlite_database.open(Role.BROKER))


def house(stage: DueStage, script: Script, lease: int = 30_000) -> tuple[Bodies, Scripted]:
    harness = Scripted(script)
    harnesses: Any = {HarnessKind.COMMAND: harness}
    ground = Ground(stage.database, stage.rules, harnesses, "http://broker", "broker-1", lease)
    return Bodies(ground, lambda: None), harness


def opened(stage: DueStage, slug: str = "agent-1") -> Opened:
    stage.wake(stage.member(slug))
    (found,) = stage.dispatch()
    return found


def over(bodies: Bodies, seconds: float = 10.0) -> None:
    """Wait until no body runs."""
    until = time.monotonic() + seconds
    while bodies.count():
        assert time.monotonic() < until, "a body did not end"
        time.sleep(0.005)


def test_a_body_gets_its_capsule_and_no_secret_but_its_runs_token(stage: DueStage, landed: Landed) -> None:
    """The order holds the capsule, the limit, the address and the run's token; nothing else of ours."""
    one = opened(stage)
    bodies, harness = house(stage, lambda _heard, _stopping: ENDED)
    bodies.start(one)
    over(bodies)
    (order,) = harness.orders
    assert order.prompt == one.dispatch.capsule.encode() and order.limit == 60.0
    assert dict(order.env) == {"GITOPS_BOT_URL": "http://broker", "GITOPS_BOT_TOKEN": one.token}
    assert (order.agent, order.run, order.version, order.session) == ("agent-1", one.dispatch.run, 1, None)
    assert [end for _, end, _ in landed.settled] == [ENDED]


def test_a_marker_lands_before_the_body_ends_and_its_text_with_it(stage: DueStage, landed: Landed) -> None:
    """A complete line lands at once; the last line counts when the turn ends."""
    one, seen = opened(stage), list[object]()

    def script(heard: Callable[[bytes], None], _: object) -> BodyEnd:
        heard(b"hello\nREPORT: ha")
        heard(b"lf\nNOTIFY: now\nREPORT: la")
        seen.append(list(landed.informed))
        seen.append(stage.read(lambda tx: dispatches.text(tx, one.dispatch.run, 1)))
        heard(b"st")
        return ENDED

    bodies, _ = house(stage, script)
    bodies.start(one)
    over(bodies)
    assert seen == [[Report("half"), Notify("now")], "hello\nREPORT: half\nNOTIFY: now\nREPORT: la"]
    ((turn, _, ended),) = landed.settled
    assert ended.late == (Report("last"),) and turn.wake_seq == one.dispatch.wake_seq
    assert stage.read(lambda tx: dispatches.text(tx, one.dispatch.run, 1)).endswith("REPORT: last")


def test_plain_text_is_kept_within_a_second_without_a_marker(stage: DueStage, landed: Landed) -> None:
    """Who only thinks aloud is read again after a crash too."""
    one, seen = opened(stage), list[str]()

    def script(heard: Callable[[bytes], None], stopping: Callable[[], bool]) -> BodyEnd:
        heard("thinking… ".encode())
        until = time.monotonic() + 5
        while time.monotonic() < until and not seen:
            stopping()
            text = stage.read(lambda tx: dispatches.text(tx, one.dispatch.run, 1))
            seen.extend([text] if text else [])
            time.sleep(0.05)
        return ENDED

    bodies, _ = house(stage, script)
    bodies.start(one)
    over(bodies)
    assert seen == ["thinking… "]


def test_no_more_text_is_kept_than_the_cap_but_markers_after_it_land(stage: DueStage, landed: Landed) -> None:
    """A flood costs a bounded number of bytes."""
    one = opened(stage)

    def script(heard: Callable[[bytes], None], _: object) -> BodyEnd:
        for _number in range(24):
            heard(b"x" * 63_999 + b"\n")
        heard(b"REPORT: still here\n")
        return ENDED

    bodies, _ = house(stage, script)
    bodies.start(one)
    over(bodies)
    assert len(stage.read(lambda tx: dispatches.text(tx, one.dispatch.run, 1))) == MAX_TEXT
    assert landed.informed == [Report("still here")]


def test_what_could_not_be_written_is_written_later_each_once(stage: DueStage, landed: Landed) -> None:
    """The database goes away in the middle and at the end: nothing is lost, nothing twice."""
    one = opened(stage)

    def script(heard: Callable[[bytes], None], _: object) -> BodyEnd:
        heard(b"REPORT: one\n")
        landed.away = 2
        heard(b"REPORT: two\n")
        heard(b"REPORT: three\n")
        landed.away = 2
        return ENDED

    bodies, _ = house(stage, script)
    bodies.start(one)
    over(bodies)
    assert landed.informed == [Report("one"), Report("two"), Report("three")]
    text = stage.read(lambda tx: dispatches.text(tx, one.dispatch.run, 1))
    assert text == "REPORT: one\nREPORT: two\nREPORT: three\n"
    assert len(landed.settled) == 1


def test_a_turn_that_is_over_lets_its_body_go(stage: DueStage, landed: Landed) -> None:
    """When a reconciler settled the turn, the body ends at its next word, and settles nothing."""
    one = opened(stage)

    def script(heard: Callable[[bytes], None], stopping: Callable[[], bool]) -> BodyEnd:
        stage.write(lambda tx: dispatches.end(tx, one.dispatch.run, 1, BodyStop.FAILED, None, "lost", None))
        landed.over = True
        heard(b"REPORT: too late\n")
        assert stopping()
        return BodyEnd(BodyStop.STOPPED)

    bodies, _ = house(stage, script)
    bodies.start(one)
    over(bodies)
    assert landed.informed == [] and landed.settled == []


def until_stopped(_heard: object, stopping: Callable[[], bool]) -> BodyEnd:
    """Go on until told to stop; well before the test's own time is over."""
    until = time.monotonic() + 20
    while not stopping() and time.monotonic() < until:
        time.sleep(0.01)
    return BodyEnd(BodyStop.STOPPED, None, "was stopped")


@pytest.mark.parametrize("why", ["retired", "fenced", "neither"])
def test_watching_ends_what_is_no_longer_ours(stage: DueStage, landed: Landed, why: str) -> None:
    """A retired agent's body is ended, and one whose dispatch somebody else ended; every other goes on."""
    one = opened(stage)
    bodies, _ = house(stage, until_stopped)
    bodies.start(one)
    if why == "retired":
        stage.write(lambda tx: agents.set_state(tx, one.agent.id, AgentState.RETIRED))
    elif why == "fenced":
        stage.write(lambda tx: dispatches.end(tx, one.dispatch.run, 1, BodyStop.FAILED, None, "lost", None))
    bodies.watch()
    if why == "neither":
        time.sleep(0.1)
        assert bodies.count() == 1
        assert bodies.drain(0.0)
    over(bodies)
    assert len(landed.settled) == (0 if why == "fenced" else 1)


def test_watching_keeps_the_lease(stage: DueStage, landed: Landed) -> None:
    """While a body runs its lease never runs out, and it is nobody's to find."""
    one = opened(stage)
    stage.write(lambda tx: dispatches.beat(tx, "broker-1", 60))
    bodies, _ = house(stage, until_stopped, lease=60)
    bodies.start(one)
    until = time.monotonic() + 0.5
    while time.monotonic() < until:
        assert 0 < bodies.watch() <= 0.02
        time.sleep(0.005)
    assert stage.write(lambda tx: dispatches.beat(tx, "broker-1", 30_000)) == 1
    assert stage.read(lambda tx: dispatches.lost(tx, 9)) == []
    assert bodies.drain(0.0)


def test_draining_lets_a_body_end_by_itself_first(stage: DueStage, landed: Landed) -> None:
    """What ends within the time is settled as it ended; the rest is stopped and settled so."""
    quick, slow = opened(stage, "quick"), opened(stage, "slow")
    begun = threading.Barrier(3)

    def script(heard: Callable[[bytes], None], stopping: Callable[[], bool]) -> BodyEnd:
        begun.wait(10)
        if threading.current_thread().name == "body quick":
            time.sleep(0.2)
            return ENDED
        return until_stopped(heard, stopping)

    bodies, _ = house(stage, script)
    bodies.start(quick)
    bodies.start(slow)
    begun.wait(10)
    assert bodies.drain(1.0)
    stops = {turn.agent.slug: end.stop for turn, end, _ in landed.settled}
    assert stops == {"quick": BodyStop.ENDED, "slow": BodyStop.STOPPED}


def test_a_harness_that_is_not_there_is_a_turn_that_never_started(stage: DueStage, landed: Landed) -> None:
    """An agent of a harness that this broker lacks is tried again later, with the reason."""
    one = opened(stage)
    ground = Ground(stage.database, stage.rules, {}, "http://broker", "broker-1", 30_000)
    bodies = Bodies(ground, lambda: None)
    bodies.start(one)
    over(bodies)
    ((_, end, _),) = landed.settled
    assert end == BodyEnd(BodyStop.NOT_STARTED, detail="this broker has no harness command")


def test_a_bug_in_a_body_ends_the_process_by_who_watches(
    stage: DueStage, landed: Landed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing swallows a bug: the next look raises it."""
    monkeypatch.setattr(threading, "excepthook", lambda _: None)

    def script(_heard: object, _stopping: object) -> BodyEnd:
        raise ZeroDivisionError

    bodies, _ = house(stage, script)
    bodies.start(opened(stage))
    over(bodies)
    with pytest.raises(RuntimeError, match="thread failed"):
        bodies.watch()
