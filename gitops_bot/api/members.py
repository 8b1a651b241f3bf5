"""The members of a body and the parameters of a query, each taken by name, type and size; what is not exactly so is
refused with its name. Every grammar of the API is written in these words."""

import re
from collections.abc import Collection, Mapping
from typing import Any, Final, TypeVar

from gitops_bot.core.errors import Malformed
from gitops_bot.core.strictjson import load_object

MAX_BODY: Final = 65_536
MAX_KEY: Final = 200
PRINTABLE: Final = re.compile(r"[\x21-\x7e]+", re.ASCII)
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,15}", re.ASCII)
T = TypeVar("T")


def members(
    raw: bytes, names: Collection[str], *, required: Collection[str] = (), floats: bool = False
) -> dict[str, Any]:
    """Read a body as an object with no other members than these.

    Raises:
        Malformed: no JSON object, an unknown member, or a required one is missing.
    """
    body = load_object(raw, limit=MAX_BODY, floats=floats, where="body")
    for name in body:
        if name not in names:
            raise Malformed(f"unknown member {name[:60]!r}; known: {', '.join(names)}", where="body")
    for name in required:
        if name not in body:
            raise Malformed(f"{name} is missing", where="body")
    return body


def optional(body: Mapping[str, Any], name: str, kind: type[T]) -> T | None:
    """Take a member of one type; None when it is absent or null.

    Raises:
        Malformed: it is of another type.
    """
    value = body.get(name)
    if value is None:
        return None
    # A boolean is an integer to isinstance.
    if type(value) is not kind:
        raise Malformed(f"{name} must be a {kind.__name__}", where="body")
    return value


def text(body: Mapping[str, Any], name: str, most: int) -> str:
    """Take a text of at most so many characters; '' when it is absent or null.

    Raises:
        Malformed: as `optional` and `checked`.
    """
    value = optional(body, name, str)
    return "" if value is None else checked(value, name, most)


def strings(body: Mapping[str, Any], name: str, most: int, longest: int) -> tuple[str, ...]:
    """Take a list of at most so many texts.

    Raises:
        Malformed: as `optional` and `checked`, or too many.
    """
    values = optional(body, name, list) or []
    if len(values) > most or not all(isinstance(value, str) for value in values):
        raise Malformed(f"{name} must be a list of at most {most} strings", where="body")
    return tuple(checked(value, name, longest) for value in values)


def checked(value: str, name: str, most: int) -> str:
    """Give a text that every database can keep.

    Raises:
        Malformed: it is longer, or holds what none can.
    """
    if len(value) > most:
        raise Malformed(f"{name} is longer than {most} characters", where="body")
    # PostgreSQL keeps no U+0000 in a text; no encoding keeps a lone surrogate.
    if "\x00" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise Malformed(f"{name} holds a zero character or half a surrogate pair", where="body")
    return value


def key(body: Mapping[str, Any]) -> str | None:
    """Take an idempotency key; None when there is none.

    Raises:
        Malformed: it is not of its form.
    """
    found = optional(body, "idempotency_key", str)
    if found is not None and not (len(found) <= MAX_KEY and PRINTABLE.fullmatch(found)):
        raise Malformed(f"idempotency_key is 1 to {MAX_KEY} printable ASCII characters without spaces", where="body")
    return found


def known(query: Mapping[str, str], names: Collection[str]) -> None:
    """Check that a query names nothing else.

    Raises:
        Malformed: it does.
    """
    for name in query:
        if name not in names:
            raise Malformed(f"unknown parameter {name[:60]!r}; known: {', '.join(names)}", where="query")


def number(text: str, name: str) -> int:
    """Read a whole number of a query.

    Raises:
        Malformed: it is written otherwise.
    """
    if not _NUMBER.fullmatch(text):
        raise Malformed(f"{name} must be a whole number", where="query")
    return int(text)
