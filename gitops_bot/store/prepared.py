"""Prebuilt statements run by the driver, with what Core worked out about them once: text, order of values, columns.

Core builds and compiles every statement; what is saved is its work at each execution, which for an answer's dozen short
statements is more than theirs. A statement is prepared when the same object is run a second time, so what is built for
one use stays with Core, as does all that Core would still have to convert or expand. Errors are wrapped as Core wraps
them, and who listens for statements hears these too.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast
from weakref import WeakKeyDictionary

from sqlalchemy import (
    CompoundSelect,
    Connection,
    CursorResult,
    Delete,
    Dialect,
    Executable,
    Insert,
    LargeBinary,
    Select,
    Update,
)
from sqlalchemy.engine import IteratorResult
from sqlalchemy.engine.result import SimpleResultMetaData
from sqlalchemy.sql.compiler import SQLCompiler


class Changed:
    """What a statement without rows leaves: how many it changed."""

    __slots__ = ("rowcount",)

    def __init__(self, rowcount: int) -> None:
        self.rowcount = rowcount


@dataclass(frozen=True, slots=True)
class Prepared:
    """A statement as the driver takes it. `order` is None where the driver takes values by name."""

    sql: str
    fixed: Mapping[str, Any]
    converted: Mapping[str, Callable[[Any], Any]]
    order: tuple[str, ...] | None
    columns: SimpleResultMetaData | None

    def run(self, connection: Connection, values: Mapping[str, Any]) -> CursorResult[Any]:
        """Run it in the connection's transaction."""
        return self._run(connection, self._given(values), many=False)

    def run_many(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> CursorResult[Any]:
        """Run it for each of some rows that name the same values; for a statement that gives no rows back."""
        return self._run(connection, [self._given(values) for values in rows], many=True)

    def _given(self, values: Mapping[str, Any]) -> Any:
        merged = {**self.fixed, **values}
        for name, convert in self.converted.items():
            merged[name] = convert(merged[name])
        return merged if self.order is None else tuple([merged[name] for name in self.order])

    def _run(self, connection: Connection, given: Any, *, many: bool) -> CursorResult[Any]:
        cursor = connection.connection.cursor()
        for listener in connection.dispatch.before_cursor_execute:
            listener(connection, cursor, self.sql, given, None, many)
        try:
            if many:
                cursor.executemany(self.sql, given)
            else:
                cursor.execute(self.sql, given)
            if self.columns is None:
                result: Any = Changed(cursor.rowcount)
            else:
                result = IteratorResult(self.columns, iter(cursor.fetchall()))
        except connection.dialect.loaded_dbapi.Error as error:
            # Core's own wrapping: the class by the driver's, and a dead connection is known for one.
            connection._handle_dbapi_exception(error, self.sql, given, cursor, None)
            raise
        cursor.close()
        return cast("CursorResult[Any]", result)


class Shelf:
    """The prepared statements of one engine, by the statement object and the names of its values."""

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[Executable, dict[frozenset[str], Prepared | None]] = WeakKeyDictionary()

    def find(self, dialect: Dialect, statement: Executable, values: Mapping[str, Any]) -> Prepared | None:
        """Give a statement prepared; None at its first run, and where Core has to run it."""
        known = self._known.get(statement)
        if known is None:
            self._known[statement] = {}
            return None
        names = frozenset(values)
        if names not in known:
            known[names] = prepare(dialect, statement, names)
        return known[names]


def prepare(dialect: Dialect, statement: Executable, names: frozenset[str]) -> Prepared | None:
    """Compile a statement for these names; None where it needs Core at each run."""
    if not isinstance(statement, Select | CompoundSelect | Insert | Update | Delete):
        return None
    compiled = statement.compile(dialect=dialect, column_keys=sorted(names))
    assert isinstance(compiled, SQLCompiler)
    converted = {name: convert for name, convert in compiled._bind_processors.items() if callable(convert)}
    if compiled.post_compile_params or compiled.literal_execute_params:
        return None
    if not {bind.key for bind in compiled.binds.values() if bind.required} <= names:
        return None  # Core says what is missing
    columns = _columns(dialect, statement)
    if columns is None:
        return None
    order = None if compiled.positiontup is None else tuple(compiled.positiontup)
    metadata = SimpleResultMetaData(columns) if columns else None
    return Prepared(compiled.string, compiled.params, converted, order, metadata)


Ours = Select[Any] | CompoundSelect[Any] | Insert | Update | Delete


def _columns(dialect: Dialect, statement: Ours) -> Sequence[str] | None:
    """Name the columns that come back, none for a statement without rows; None where a value must be converted."""
    returned = list(statement.exported_columns)
    for column in returned:
        kept = isinstance(column.type, LargeBinary)  # bytes or a view of them, which the readers turn into bytes
        if not kept and column.type.dialect_impl(dialect).result_processor(dialect, None) is not None:
            return None
    return [str(column.key) for column in returned]
