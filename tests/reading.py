"""What tests of cards and read models share: every text in a value, and the plan of every statement that was run."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Any, TypeVar

from sqlalchemy import event, text

from gitops_bot.authority.shown import AgentText, Card
from gitops_bot.store.engine import Database, Tx

T = TypeVar("T")


def texts(value: object, path: str = "") -> Iterator[tuple[str, str]]:
    """Give every text in a value that is not an agent's by its type, with the way to it. A card's rows are left out."""
    match value:
        case AgentText():
            yield f"{path}.by", value.by
        case Enum() | bool() | int() | float() | None:
            return
        case str():
            yield path, value
        case bytes():
            yield path, value.decode("utf-8", "replace")
        case Mapping():
            for key, item in value.items():
                yield from texts(key, f"{path}.key")
                yield from texts(item, f"{path}[{key}]")
        case tuple() | list() | frozenset():
            for place, item in enumerate(value):
                yield from texts(item, f"{path}[{place}]")
        case _:
            assert dataclasses.is_dataclass(value), (path, value)
            for field in dataclasses.fields(value):
                if not (isinstance(value, Card) and field.name == "view"):
                    yield from texts(getattr(value, field.name), f"{path}.{field.name}")


def statements(database: Database, work: Callable[[Tx], T]) -> tuple[T, list[tuple[str, Any]]]:
    """Read something, and give what was run for it."""
    said: list[tuple[str, Any]] = []

    def note(_connection: Any, _cursor: Any, statement: str, values: Any, *_: Any) -> None:
        said.append((statement, values))

    event.listen(database.engine, "before_cursor_execute", note)
    try:
        with database.read() as tx:
            found = work(tx)
    finally:
        event.remove(database.engine, "before_cursor_execute", note)
    return found, [one for one in said if "FROM" in one[0]]


def pages(database: Database, read: Callable[[Tx, Any], T], start: Any, following: Callable[[T], Any]) -> Iterator[T]:
    """Read page after page, each in a transaction of its own, until there is no next."""
    cursor = start
    while True:
        with database.read() as tx:
            page = read(tx, cursor)
        yield page
        cursor = following(page)
        if cursor is None:
            return


def plan(database: Database, sql: str, values: Any) -> str:
    """Give the plan of a statement. PostgreSQL is told not to prefer a scan of what is a tiny table here."""
    with database.engine.connect() as connection:
        if database.dialect == "sqlite":
            rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}", values)
            return "\n".join(row[3] for row in rows)
        for kind in ("seqscan", "sort", "bitmapscan"):
            connection.execute(text(f"SET enable_{kind} = off"))
        return "\n".join(row[0] for row in connection.exec_driver_sql(f"EXPLAIN {sql}", values))
