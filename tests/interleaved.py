"""Two transactions stepped statement by statement through every interleaving; nothing here sleeps or hopes.

Each transaction has a thread that stands before each of its statements until it is let on. One that the server makes
wait is known by `pg_blocking_pids`, and the other goes on alone. Two ways to one point are one: where both have run the
same statements and got the same answers, with the same commits behind them, what may follow is the same. So each step
from each point is taken once, and that is every interleaving.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import Engine, Insert, Select, Table, text
from sqlalchemy.sql import visitors

from gitops_bot.store.engine import Database, Tx

Work = Callable[[Tx], Any]
SECONDS: Final = 30.0
_LOOK: Final = 0.002
_MOST: Final = 2_000
_BLOCKING: Final = text("SELECT cardinality(pg_blocking_pids(:pid))")
_APPENDED: Final = frozenset({"ledger"})
"""Tables that everybody appends to by a number of the server's: nobody meets there."""


class Late(AssertionError):
    """A statement neither ended nor waited for the other."""


@dataclass(frozen=True)
class Touch:
    """The tables that a statement touches, and those of them that it writes or locks."""

    read: frozenset[str]
    held: frozenset[str]


def touch(statement: Any) -> Touch:
    """Tell what a statement touches; rows that an insert refers to are locked by it (PostgreSQL, 13.3.2)."""
    tables = {one for one in visitors.iterate(statement) if isinstance(one, Table)}
    names = {table.name for table in tables}
    if getattr(statement, "is_dml", False):
        written = statement.table
        parents = {key.column.table.name for key in written.foreign_keys} if isinstance(statement, Insert) else set()
        names |= parents
        return Touch(frozenset(names | {written.name}), frozenset({written.name} | parents))
    if not names:
        return Touch(frozenset({"a turn"}), frozenset({"a turn"}))
    is_locking = isinstance(statement, Select) and statement._for_update_arg is not None
    return Touch(frozenset(names), frozenset(names if is_locking else ()))


def meeting(one: list[Touch], other: list[Touch]) -> frozenset[str]:
    """Name the tables where two transactions may meet: both touch them, and one of them writes or locks there."""

    def all_of(touches: list[Touch], what: str) -> set[str]:
        return {name for single in touches for name in getattr(single, what)}

    return (
        frozenset((all_of(one, "held") & all_of(other, "read")) | (all_of(one, "read") & all_of(other, "held")))
        - _APPENDED
    )


class Actor:
    """One transaction in a thread of its own."""

    def __init__(self, name: str, database: Database, work: Work, stops: Callable[[Touch], bool]) -> None:
        self.name, self.database, self.work, self.stops = name, database, work, stops
        self.condition = threading.Condition()
        self.state = "running"
        self.may_go = False
        self.pid: int | None = None
        self.history: list[Any] = []
        self.touches: list[Touch] = []
        self.result: Any = None
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._live, daemon=True)

    def _live(self) -> None:
        _local.actor = self
        try:
            self.stand("begin")
            with self.database.write() as tx:
                if tx.dialect == "postgresql":
                    connection: Any = tx._connection.connection.driver_connection
                    self.pid = connection.info.backend_pid
                self.result = self.work(tx)
                self.stand("commit")
        except BaseException as error:  # noqa: BLE001 # told by whoever steps
            self.error = error
        finally:
            self._become("done")

    def _become(self, state: str) -> None:
        with self.condition:
            self.state = state
            self.condition.notify_all()

    def stand(self, before: str) -> None:
        """Wait to be let on."""
        with self.condition:
            self.history.append(before)
            self.state = "standing"
            self.condition.notify_all()
            if not self.condition.wait_for(lambda: self.may_go, SECONDS):
                raise Late(f"{self.name} was never let on")
            self.may_go = False

    def go(self) -> None:
        """Let it run its next statement."""
        with self.condition:
            self.may_go, self.state = True, "running"
            self.condition.notify_all()

    def waits(self, seconds: float) -> bool:
        """Tell whether it stands or is done, after at most so long."""
        with self.condition:
            return self.condition.wait_for(lambda: self.state != "running", seconds)


_local: Final = threading.local()


@contextmanager
def stepping() -> Iterator[None]:
    """Let every actor's statements be stood before, and their answers be noted."""
    execute = Tx.execute

    def stepped(tx: Tx, statement: Any, values: Any = None) -> Any:
        actor: Actor | None = getattr(_local, "actor", None)
        if actor is None:
            return execute(tx, statement, values)
        touched = touch(statement)
        actor.touches.append(touched)
        if actor.stops(touched):
            actor.stand("statement")
        result = execute(tx, statement, values)
        if not getattr(result, "returns_rows", hasattr(result, "freeze")):
            actor.history.append((id(statement), result.rowcount))
            return result
        frozen = result.freeze()
        actor.history.append((id(statement), tuple(tuple(map(_told, row)) for row in frozen().all())))
        return frozen()

    Tx.execute = stepped  # type: ignore[method-assign,assignment] # put back below
    try:
        yield
    finally:
        Tx.execute = execute  # type: ignore[method-assign] # as it was


def _told(value: object) -> object:
    """Give what a decision may hang on: words and small numbers. Ids, names and times are other ones in each run."""
    if isinstance(value, str):
        return value if value.replace("_", "").isalpha() else "a name"
    if isinstance(value, int):
        return value if value < 10 else "a number"
    return value if value is None else type(value).__name__


@dataclass
class Race:
    """Two transactions over rows prepared for them, and what must be true however they meet."""

    first: Work
    second: Work
    check: Callable[[Any, Any], None]


@dataclass
class Explored:
    """What an exploration went through: points, steps between them, runs; points where somebody waited."""

    runs: int = 0
    points: dict[Any, int] = field(default_factory=dict)
    steps: dict[int, dict[int, int | None]] = field(default_factory=dict)
    waited: int = 0

    def number(self, point: Any) -> int:
        """Give a point its number."""
        return self.points.setdefault(point, len(self.points))


class Server:
    """The server's word on who waits for whom."""

    def __init__(self, engine: Engine) -> None:
        self._connection = engine.connect()

    def is_blocked(self, actor: Actor) -> bool:
        """Tell whether the server makes an actor wait."""
        if actor.pid is None:
            return False
        return bool(self._connection.execute(_BLOCKING, {"pid": actor.pid}).scalar_one())

    def close(self) -> None:
        """Let go of the connection."""
        self._connection.close()


def settle_down(server: Server, actors: tuple[Actor, ...]) -> list[int]:
    """Wait until each stands, is done, or waits for the other; give those that stand."""
    for _ in range(int(SECONDS / _LOOK)):
        running = [actor for actor in actors if not actor.waits(_LOOK)]
        standing = [number for number, actor in enumerate(actors) if actor.state == "standing"]
        if not running:
            return standing
        # Both waiting is a deadlock, which the server ends.
        if standing and all(server.is_blocked(actor) and actor.state == "running" for actor in running):
            return standing
    raise Late([(actor.name, actor.state, actor.history[-2:]) for actor in actors])


def explore(
    server: Server, databases: tuple[Database, Database], prepare: Callable[[], Race], *, every: bool
) -> Explored:
    """Take every step from every point once; check each run's end. `every`: stand before statements, too, that cannot
    meet anything of the other's."""
    found = Explored()
    met = frozenset() if every else _meeting(databases, prepare)

    def stops(touched: Touch) -> bool:
        return every or bool(touched.read & met)

    while found.runs < _MOST:
        if found.runs and not _open_from(found.steps, _ROOT):
            return found
        _run(server, databases, prepare(), stops, found)
        found.runs += 1
    raise AssertionError(f"more than {_MOST} runs")


_ROOT: Final = -1


def _meeting(databases: tuple[Database, Database], prepare: Callable[[], Race]) -> frozenset[str]:
    """Run the two orders, and see where the two may meet."""
    seen: list[list[Touch]] = [[], []]
    for order in ((0, 1), (1, 0)):
        race = prepare()
        results: list[Any] = [None, None]
        for number in order:
            actor = Actor("alone", databases[number], (race.first, race.second)[number], lambda _: False)
            actor.thread.start()
            for _ in range(2):
                assert actor.waits(SECONDS)
                actor.go()
            actor.thread.join(SECONDS)
            if actor.error is not None:
                raise actor.error
            results[number] = actor.result
            seen[number] += actor.touches
        race.check(*results)
    return meeting(*seen)


def _run(
    server: Server,
    databases: tuple[Database, Database],
    race: Race,
    stops: Callable[[Touch], bool],
    found: Explored,
) -> None:
    works = (race.first, race.second)
    actors = tuple(Actor(name, databases[i], works[i], stops) for i, name in enumerate(("first", "second")))
    for actor in actors:
        actor.thread.start()
    path: list[int] = []
    before, taken = _ROOT, 0
    while True:
        standing = settle_down(server, actors)
        point = found.number(tuple((tuple(actor.history), actor.state) for actor in actors))
        found.steps.setdefault(before, {})[taken] = point
        known = found.steps.setdefault(point, {})
        for number in standing:
            known.setdefault(number, None)
        if not standing:
            break
        found.waited += any(actor.state == "running" for actor in actors)
        taken = _next(found.steps, point, standing)
        before = point
        path.append(taken)
        actors[taken].go()
    for actor in actors:
        actor.thread.join(SECONDS)
    for actor in actors:
        if actor.error is not None:
            raise AssertionError(f"{actor.name} failed on the way {path}") from actor.error
    try:
        race.check(actors[0].result, actors[1].result)
    except AssertionError as error:
        raise AssertionError(f"on the way {path}: {error}") from error


def _next(steps: dict[int, dict[int, int | None]], point: int, standing: list[int]) -> int:
    """Choose a step that was not taken, or one towards the nearest such."""
    for number in standing:
        if steps[point][number] is None:
            return number
    for number in standing:
        after = steps[point][number]
        if after is not None and _open_from(steps, after):
            return number
    return standing[0]


def _open_from(steps: dict[int, dict[int, int | None]], start: int) -> bool:
    """Tell whether a step that was not taken can be reached."""
    seen, todo = {start}, deque([start])
    while todo:
        for after in steps.get(todo.popleft(), {}).values():
            if after is None:
                return True
            if after not in seen:
                seen.add(after)
                todo.append(after)
    return False
