"""A statement over a list of ids, prepared once and not written anew for each length of the list.

PostgreSQL takes the list as one array. SQLite, whose only other way is a table-valued function that no service's
connection may call, takes it in a few fixed lengths, filled up with its last id; a longer one in parts.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

from sqlalchemy import ARRAY, ColumnElement, Executable, String, any_, bindparam

from gitops_bot.store.engine import Tx

LENGTHS: Final = (1, 16, 128, 1_000)
Among = Callable[[ColumnElement[str]], ColumnElement[bool]]
"""Makes the condition that a column holds one of the ids."""


class Listed:
    """A statement built by `build` with the condition that it is given; it is built when first used."""

    def __init__(self, build: Callable[[Among], Executable]) -> None:
        self._build = build
        self._built: dict[int, Executable] = {}

    def statement(self, length: int) -> Executable:
        """Give the statement for a list of one of `LENGTHS`; for 0, the one that takes an array."""
        if length not in self._built:
            self._built[length] = self._build(_array if length == 0 else _names(length))
        return self._built[length]


def rows(tx: Tx, listed: Listed, ids: Sequence[str], **values: Any) -> list[Any]:
    """Read the rows of all of some ids, of which none stands there twice; in the statement's order within each
    thousand."""
    return [row for result in _run(tx, listed, ids, values) for row in result]


def change(tx: Tx, listed: Listed, ids: Sequence[str], **values: Any) -> None:
    """Run a statement that gives no rows for all of some ids."""
    for _ in _run(tx, listed, ids, values):
        pass


def _run(tx: Tx, listed: Listed, ids: Sequence[str], values: Mapping[str, Any]) -> Iterator[Any]:
    for start in range(0, len(ids), LENGTHS[-1]):
        part = list(ids[start : start + LENGTHS[-1]])
        if tx.dialect == "postgresql":
            yield tx.execute(listed.statement(0), {"ids": part, **values})
        else:
            length = next(length for length in LENGTHS if length >= len(part))
            part += part[-1:] * (length - len(part))
            yield tx.execute(listed.statement(length), {**dict(zip(_keys(length), part, strict=True)), **values})


@cache
def _keys(length: int) -> tuple[str, ...]:
    return tuple(f"id{index}" for index in range(length))


def _array(column: ColumnElement[str]) -> ColumnElement[bool]:
    return column == any_(bindparam("ids", type_=ARRAY(String)))


def _names(length: int) -> Among:
    return lambda column: column.in_([bindparam(key) for key in _keys(length)])
