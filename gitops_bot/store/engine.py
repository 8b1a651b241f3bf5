"""A database is opened in one role, and every change is one transaction behind an opaque `Tx`.

`Tx.now` is the database's clock at the begin of the transaction and the only time of a decision. SQLite and PostgreSQL
behave alike here: writers on SQLite take turns (`store.sqlite`), on PostgreSQL they meet at rows.
"""

import os
import re
import stat
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from sqlalchemy import (
    Connection,
    CursorResult,
    Engine,
    Executable,
    RootTransaction,
    Select,
    create_engine,
    event,
    literal_column,
    select,
)
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, InterfaceError, OperationalError

from gitops_bot.core.errors import ConfigError, Unavailable
from gitops_bot.store import roles, sqlite
from gitops_bot.store.prepared import Shelf
from gitops_bot.store.roles import Role

_NOW: Final[Mapping[str, Select[Any]]] = {
    # The subsecond clock of SQLite, by julian day for libraries before 3.42.
    "sqlite": select(literal_column("CAST((julianday('now') - 2440587.5) * 86400000.0 + 0.5 AS INTEGER)")),
    # clock_timestamp and not now(): a transaction that waited for its first lock must not decide by an older time.
    "postgresql": select(literal_column("CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)")),
}
_CACHED_STATEMENTS: Final = 512
_REPLACE: Final = re.compile(r"\bREPLACE\b", re.IGNORECASE)
_SQLITE_ERROR: Final = 1
"""SQLite's own code of a statement that is wrong in itself (sqlite.org/rescode.html)."""


class Tx:
    """An open transaction. It never crosses a thread; `execute` is for modules of `store` only."""

    __slots__ = ("_connection", "_hooks", "_shelf", "_thread", "dialect", "due_duties", "makes_due", "now", "writable")

    def __init__(self, connection: Connection, now: int, shelf: Shelf, *, writable: bool) -> None:
        self._connection = connection
        self._shelf = shelf
        self._thread = threading.get_ident()
        self._hooks: list[Callable[[], None]] = []
        self.dialect = connection.dialect.name
        self.now = now
        self.writable = writable
        self.makes_due = False
        """Set when something became due that is no row of a duty, so that a hint to all is worth sending."""
        self.due_duties: set[str] = set()
        """The duties of which `store.due` made a row due, so that after the commit these need to be woken alone."""

    def execute(
        self, statement: Executable, values: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None
    ) -> CursorResult[Any]:
        """Run a prebuilt statement in this transaction."""
        if threading.get_ident() != self._thread:
            raise RuntimeError("a Tx crossed a thread")
        if not self.writable and getattr(statement, "is_dml", False):
            raise RuntimeError("a read Tx was asked to write")
        if isinstance(values, Mapping):
            prepared = self._shelf.find(self._connection.dialect, statement, values)
            if prepared is not None:
                return prepared.run(self._connection, values)
        elif values and len(values) > 1:
            prepared = self._shelf.find(self._connection.dialect, statement, values[0])
            if prepared is not None and prepared.columns is None:
                return prepared.run_many(self._connection, values)
        return self._connection.execute(statement, values)

    def after_commit(self, hook: Callable[[], None]) -> None:
        """Run a hook once this transaction is committed; never on a roll-back. For hints only: it may be lost."""
        self._hooks.append(hook)


class Database:
    """A database opened in one role; `write` and `read` give transactions."""

    def __init__(self, engine: Engine, role: Role, path: Path | None) -> None:
        self._engine = engine
        self._path = path
        self._writing = threading.local()
        self._shelf = Shelf()
        self.role = role
        self.dialect = engine.dialect.name
        self.on_due: Callable[[], None] | None = None
        """Called after a commit that made something due; a hint, which may be lost."""
        self.on_due_of: Callable[[Collection[str]], None] | None = None
        """Called in its place, where there is one, when all that became due are rows of these duties."""

    @classmethod
    def open(cls, url: str, role: Role, *, force_standard_sqlite: bool = False, pool_size: int = 4) -> "Database":
        """Open a database by URL (`sqlite:///PATH` or `postgresql+psycopg://…`) with the rights of a role.

        The schema is *not* checked here: `store.schema.check` does.

        Raises:
            ConfigError: not a URL, another kind of database, a missing folder or file, a file that others may read or
                write, a journal that cannot be had, or a PostgreSQL login with other rights than the role's.
        """
        try:
            parsed = make_url(url)
        except (ArgumentError, ValueError):
            # The text is not repeated: it may hold a password.
            raise ConfigError("the database URL is not one", fix="use sqlite:///PATH or postgresql://…") from None
        match parsed.get_backend_name():
            case "sqlite":
                return cls._open_sqlite(parsed, role, force_standard_sqlite, pool_size)
            case "postgresql":
                engine = create_engine(
                    parsed.set(drivername="postgresql+psycopg"),
                    pool_size=pool_size,
                    hide_parameters=True,  # tokens are among the values; an error is logged
                    connect_args={"application_name": f"gitops-bot {role.value}", "connect_timeout": 10},
                )
                event.listen(engine, "connect", _fix_search_path)
                with _disposed_on_failure(engine):
                    roles.check_login(engine, role)
                return cls(engine, role, None)
            case other:
                raise ConfigError(f"unknown kind of database: {other}", fix="use sqlite:///PATH or postgresql://…")

    @classmethod
    def _open_sqlite(cls, parsed: URL, role: Role, force_standard: bool, pool_size: int) -> "Database":
        if not parsed.database or parsed.database == ":memory:":
            raise ConfigError("an SQLite database needs a file", fix="use sqlite:///PATH")
        path = Path(parsed.database).absolute()
        if not path.parent.is_dir():
            raise ConfigError(f"no folder {path.parent}", fix=f"mkdir -m 700 {path.parent}")
        if not path.exists():
            if role is not Role.OWNER:
                raise ConfigError(f"no database {path}", fix="gitops-bot db upgrade")
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        # SQLite gives its journal and shared memory the mode of the file.
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise ConfigError(f"others than its user may open {path}", fix=f"chmod 600 {path}")
        library = sqlite.choose_library(force_standard)
        engine = create_engine(
            URL.create("sqlite", database=str(path)),
            module=library.module,
            pool_size=pool_size,
            hide_parameters=True,  # tokens are among the values; an error is logged
            connect_args={"timeout": 30.0, "cached_statements": _CACHED_STATEMENTS},
        )
        _prepare_sqlite(engine, role, library.journal)
        with _disposed_on_failure(engine):
            try:
                engine.connect().close()
            except DBAPIError as error:
                raise ConfigError(f"{path} cannot be opened: {error.orig}", fix="gitops-bot db check") from error
        return cls(engine, role, path)

    @contextmanager
    def write(self) -> Iterator[Tx]:
        """Open a write transaction: committed at the end of the block, rolled back when it raises.

        Violated constraints leave it as SQLAlchemy's `IntegrityError`, on both engines; so does an attempt to change an
        append-only table. There is one write transaction a thread: a second one inside would wait for the first.

        Raises:
            Unavailable: the database cannot be reached or gave up (a dead connection, a lock time-out, a deadlock).
        """
        if getattr(self._writing, "now", False):
            raise RuntimeError("a write transaction was opened inside another")
        with ExitStack() as stack:
            self._writing.now = True
            stack.callback(setattr, self._writing, "now", False)
            if self._path is not None:
                stack.enter_context(sqlite.turn(self._path))
            tx = stack.enter_context(self._transaction(writable=True))
            yield tx
            stack.close()
            for hook in tx._hooks:
                hook()
            self._hint(tx)

    def _hint(self, tx: Tx) -> None:
        if tx.due_duties and not tx.makes_due and self.on_due_of is not None:
            self.on_due_of(tx.due_duties)
        elif (tx.due_duties or tx.makes_due) and self.on_due is not None:
            self.on_due()

    @contextmanager
    def read(self) -> Iterator[Tx]:
        """Open a read transaction: one consistent snapshot on both engines; takes no turn."""
        with self._transaction(writable=False) as tx:
            yield tx

    @contextmanager
    def _transaction(self, *, writable: bool) -> Iterator[Tx]:
        try:
            connection, transaction, now = self._begin(writable)
            with connection, transaction:
                yield Tx(connection, now, self._shelf, writable=writable)
        except DBAPIError as error:
            if _outside_failed(error, self.dialect):
                raise Unavailable(f"database: {type(error.orig).__name__}") from error
            raise

    def _begin(self, writable: bool) -> tuple[Connection, RootTransaction, int]:
        """Begin, and read the clock. A connection that died in the pool is told by this first statement and replaced:
        nothing was done in it, and a test of each connection before each use would cost a round trip."""
        options: dict[str, Any] = {"gitops_bot_write": writable}
        if self.dialect == "postgresql" and not writable:
            options |= {"postgresql_readonly": True, "isolation_level": "REPEATABLE READ"}
        for is_last in (False, True):
            with ExitStack() as stack:
                connection = self._engine.connect().execution_options(**options)
                stack.callback(connection.close)
                try:
                    transaction = connection.begin()
                    now = self._clock(connection)
                except DBAPIError as error:
                    if is_last or not error.connection_invalidated:
                        raise
                    continue
                stack.pop_all()
                return connection, transaction, now
        raise AssertionError("a loop of two returns or raises")

    def _clock(self, connection: Connection) -> int:
        statement = _NOW[self.dialect]
        prepared = self._shelf.find(connection.dialect, statement, {})
        now: int = (connection.execute(statement) if prepared is None else prepared.run(connection, {})).scalar_one()
        return now

    def close(self) -> None:
        """Close every connection."""
        self._engine.dispose()

    @property
    def engine(self) -> Engine:
        """The engine, for migrations and the schema check only."""
        return self._engine


def _outside_failed(error: DBAPIError, dialect: str) -> bool:
    """Tell the database that gave up from the statement that was ours and wrong."""
    if error.connection_invalidated:
        return True
    if dialect == "sqlite":
        # "no such table" and a syntax error come as OperationalError too; a value of a wrong type as InterfaceError.
        return isinstance(error, OperationalError) and getattr(error.orig, "sqlite_errorcode", 0) != _SQLITE_ERROR
    return isinstance(error, OperationalError | InterfaceError)


@contextmanager
def _disposed_on_failure(engine: Engine) -> Iterator[None]:
    with ExitStack() as stack:
        stack.callback(engine.dispose)
        yield
        stack.pop_all()


def _fix_search_path(connection: Any, _record: Any) -> None:
    # pg_temp, unless named, is searched first: a temporary table would stand before ours.
    connection.execute("SET search_path TO public, pg_temp")
    connection.commit()


def _prepare_sqlite(engine: Engine, role: Role, journal: str) -> None:
    def connect(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # BEGIN is ours (below), not the driver's
        found = connection.execute(f"PRAGMA journal_mode={journal}").fetchone()[0]
        if found.lower() != journal.lower():
            raise ConfigError(
                f"SQLite keeps the {found} journal where {journal} was wanted",
                fix="move the database to a local file system, and stop processes that use another SQLite library",
            )
        for pragma in (
            "synchronous=FULL",
            "foreign_keys=ON",
            # Without it INSERT OR REPLACE removes a row past the trigger that forbids its removal.
            "recursive_triggers=ON",
            "trusted_schema=OFF",
            "cell_size_check=ON",
        ):
            connection.execute(f"PRAGMA {pragma}").fetchall()
        connection.set_authorizer(roles.authorizer(role))

    def begin(connection: Connection) -> None:
        write = connection.get_execution_options().get("gitops_bot_write", True)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")

    event.listen(engine, "connect", connect)
    event.listen(engine, "begin", begin)
    if role is not Role.OWNER:
        event.listen(engine, "before_cursor_execute", _refuse_replacing)


@lru_cache(maxsize=1024)
def _replaces(statement: str) -> bool:
    return _REPLACE.search(statement) is not None


def _refuse_replacing(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
    # OR REPLACE rewrites every column of a row, and the authorizer is told of an insert only.
    if _replaces(statement):
        raise RuntimeError("a service's statement would replace a row")
