"""A forge's state as entries that can be written down: each is a path into the tables of `model` and a value. Pure.

A table is a dictionary, of values or of dictionaries; a value is one of the frozen records of this package, or plain.
What is read back equals what was written. Where entries are kept is `state`'s.
"""

import base64
import dataclasses
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, Final

from gitops_bot.sandbox.apps import Installation, Registration
from gitops_bot.sandbox.checks import Check
from gitops_bot.sandbox.hooks import Delivery, Hook
from gitops_bot.sandbox.records import (
    Account,
    AccountType,
    App,
    Comment,
    Edit,
    Pull,
    Reaction,
    Repository,
    Review,
    Role,
    Session,
    Thread,
)
from gitops_bot.sandbox.rulesets import Ruleset
from gitops_bot.sandbox.teams import Membership, Team

Path = tuple[Any, ...]
"""The name of a table and the keys that lead to a value; a key is a text, a number or a tuple of them."""
Tables = Mapping[str, dict[Any, Any]]

_RECORDS: Final[Mapping[str, type]] = {
    record.__name__: record
    for record in (Account, App, Check, Comment, Delivery, Edit, Hook, Installation, Pull, Reaction, Registration,
                   Repository, Review, Ruleset, Session, Team, Thread)
}  # fmt: skip
_WORDS: Final[Mapping[str, type[Enum]]] = {word.__name__: word for word in (AccountType, Membership, Role)}


def entries(tables: Tables) -> Iterator[tuple[Path, object]]:
    """List every value with its path, in the order in which it was put."""
    for name, table in tables.items():
        yield from _below((name,), table)


def _below(path: Path, table: dict[Any, Any]) -> Iterator[tuple[Path, object]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _below((*path, key), value)
        else:
            yield (*path, key), value


def put(tables: Tables, path: Path, value: object) -> None:
    """Put a value where its path leads.

    Raises:
        KeyError: there is no such table.
    """
    table = tables[path[0]]
    for key in path[1:-1]:
        table = table.setdefault(key, {})
    table[path[-1]] = value


def drop(tables: Tables, path: Path) -> None:
    """Take a value away; one that is not there is no matter."""
    table: Any = tables[path[0]]
    for key in path[1:-1]:
        table = table.get(key, {})
    table.pop(path[-1], None)


def shown(value: object) -> object:
    """Give a value as JSON has it: a record names its type, as do words of a list, bytes and dictionaries."""
    match value:
        case Enum():
            return {"word": type(value).__name__, "is": value.value}
        case bytes():
            return {"bytes": base64.b64encode(value).decode("ascii")}
        case tuple():
            return [shown(one) for one in value]
        case Mapping():
            return {"map": {str(name): shown(one) for name, one in value.items()}}
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            has = {field.name: shown(getattr(value, field.name)) for field in dataclasses.fields(value)}
            return {"record": type(value).__name__, "has": has}
        case _:
            return value


def read(given: object) -> Any:
    """Give the value that `shown` wrote.

    Raises:
        KeyError, TypeError, ValueError: it wrote no such thing.
    """
    match given:
        case {"word": word, "is": value}:
            return _WORDS[word](value)
        case {"bytes": text}:
            return base64.b64decode(text, validate=True)
        case {"map": items}:
            return {name: read(one) for name, one in items.items()}
        case {"record": name, "has": has}:
            return _RECORDS[name](**{field: read(one) for field, one in has.items()})
        case dict():
            raise ValueError(f"neither record nor map: {sorted(given)[:5]}")
        case list():
            return tuple(read(one) for one in given)
        case _:
            return given
