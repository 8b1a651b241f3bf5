"""TOML bytes become tables whose keys are known and whose values have the type that the caller asks for.

TOML 1.0 is read by the standard library, behind a guard that keeps its cost linear in the input: short lines, shallow
keys, no multi-line strings. What the values mean is left to the readers of people and verbs.
"""

import difflib
import re
import tomllib
from collections.abc import Iterator, Mapping, Set
from datetime import UTC, date, datetime
from typing import Final, TypeVar, cast

from gitops_bot.core.durations import parse_duration
from gitops_bot.core.errors import Malformed
from gitops_bot.policy.faults import DoesNotLoad, LoadFault

MAX_FILE: Final = 1 << 20
MAX_LINE: Final = 4_096
MAX_DOTS: Final = 32
MAX_ITEMS: Final = 2_000

T = TypeVar("T")

_QUOTED: Final = re.compile(r'"(?:[^"\\]|\\.)*+"' + r"|'[^']*+'")


def read_toml(content: bytes, *, where: str) -> dict[str, object]:
    """Read one TOML file.

    Raises:
        Malformed: over `MAX_FILE` bytes, no UTF-8, no TOML 1.0, a line over `MAX_LINE` characters, a multi-line string,
            or keys or arrays nested beyond use.
    """
    if len(content) > MAX_FILE:
        raise Malformed(f"larger than {MAX_FILE} bytes", where=where)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        raise Malformed("not UTF-8", where=where) from None
    _guard(text, where)
    try:
        return tomllib.loads(text)
    # tomllib recurses once a bracket, without a limit of its own; the interpreter's limit is the bound.
    except RecursionError:
        raise Malformed("nested too deeply", where=where) from None
    except ValueError as error:
        raise Malformed(f"not TOML 1.0: {str(error)[:200]}", where=where) from None


def _guard(text: str, where: str) -> None:
    """Refuse what makes tomllib quadratic: it copies every prefix of a dotted key and walks it for each line below."""
    if '"""' in text or "'''" in text:
        raise Malformed("multi-line strings have no use in a bundle", where=where)
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > MAX_LINE:
            raise Malformed(f"line {number} is longer than {MAX_LINE} characters", where=where)
        if line.count(".") > MAX_DOTS and _QUOTED.sub("", line).partition("#")[0].count(".") > MAX_DOTS:
            raise Malformed(f"line {number} has a key with too many parts", where=where)


def nearest(word: str, known: tuple[str, ...]) -> str:
    """Give `; did you mean …?` for the nearest known word, or the empty string."""
    close = difflib.get_close_matches(word[:64], known, n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else ""


def shown(word: object) -> str:
    """Write a short, printable form of something read, for an error message."""
    return ascii(word)[:80]


class Table:
    """A TOML table with a closed list of keys. Every getter gives a value of its type or raises `Malformed`."""

    def __init__(self, raw: object, where: str, known: tuple[str, ...] | None) -> None:
        """Check that `raw` is a table and each of its keys known; `known` None leaves the names to the caller."""
        if not isinstance(raw, dict):
            raise Malformed("must be a table", where=where)
        self.where = where
        self._raw = cast("dict[str, object]", raw)
        if len(self._raw) > MAX_ITEMS:
            raise Malformed(f"more than {MAX_ITEMS} entries", where=where)
        if known is not None:
            for key in self._raw:
                if key not in known:
                    raise Malformed(f"unknown key {shown(key)}{nearest(key, known)}", where=where)

    def __contains__(self, key: str) -> bool:
        return key in self._raw

    def __iter__(self) -> Iterator[str]:
        return iter(self._raw)

    def raw(self, key: str) -> object:
        """Give a value as it was read.

        Raises:
            Malformed: it is missing.
        """
        if key not in self._raw:
            raise Malformed(f"{key} is missing", where=self.where)
        return self._raw[key]

    def at(self, key: str) -> str:
        """Name a place in this table for a message."""
        return f"{self.where}.{key}"

    def _typed(self, key: str, kind: type[T], name: str) -> T:
        value = self.raw(key)
        if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
            raise Malformed(f"{key} must be {name}", where=self.where)
        return value

    def text(self, key: str) -> str:
        """Give a string that must be there."""
        return self._typed(key, str, "a string")

    def text_or_none(self, key: str) -> str | None:
        """Give a string, or None when it is absent."""
        return self.text(key) if key in self else None

    def integer(self, key: str) -> int:
        """Give an integer that must be there; a boolean is none."""
        return self._typed(key, int, "an integer")

    def integer_or(self, key: str, absent: int) -> int:
        """Give an integer, or `absent`."""
        return self.integer(key) if key in self else absent

    def integer_or_none(self, key: str) -> int | None:
        """Give an integer, or None when it is absent."""
        return self.integer(key) if key in self else None

    def flag(self, key: str) -> bool:
        """Give a boolean; absent is false."""
        return self._typed(key, bool, "true or false") if key in self else False

    def items(self, key: str) -> list[object]:
        """Give a list of at most `MAX_ITEMS` things that must be there."""
        value = cast("list[object]", self._typed(key, list, "a list"))
        if len(value) > MAX_ITEMS:
            raise Malformed(f"{key} has more than {MAX_ITEMS} entries", where=self.where)
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """Give a list of distinct strings that must be there; it may be empty."""
        values = self.items(key)
        if not all(isinstance(value, str) for value in values):
            raise Malformed(f"{key} must be a list of strings", where=self.where)
        if len(set(values)) != len(values):
            raise Malformed(f"{key} names something twice", where=self.where)
        return tuple(cast("list[str]", values))

    def duration(self, key: str) -> int:
        """Give a duration in ms that must be there."""
        return parse_duration(self.text(key), where=self.at(key))

    def duration_or(self, key: str, absent: int) -> int:
        """Give a duration in ms, or `absent`."""
        return self.duration(key) if key in self else absent

    def duration_or_none(self, key: str) -> int | None:
        """Give a duration in ms, or None when it is absent."""
        return self.duration(key) if key in self else None

    def day(self, key: str) -> int:
        """Give a TOML local date that must be there, as ms since 1970 at 00:00 UTC of that day."""
        value = self.raw(key)
        if not isinstance(value, date) or isinstance(value, datetime):
            raise Malformed(f"{key} must be a date, as in 2026-01-31 without quotes", where=self.where)
        start = datetime(value.year, value.month, value.day, tzinfo=UTC)
        return int(start.timestamp()) * 1_000

    def table(self, key: str, known: tuple[str, ...] | None) -> "Table":
        """Give a table that must be there."""
        return Table(self.raw(key), self.at(key), known)


def merge(files: Mapping[str, dict[str, object]], groups: Set[str]) -> dict[str, object]:
    """Merge the top levels of several files. Tables named in `groups` are joined by their entries.

    Raises:
        Malformed: one of the groups is no table.
        DoesNotLoad: something is defined in two files.
    """
    merged: dict[str, object] = {}
    origin: dict[str, str] = {}
    for path in sorted(files):
        for key, value in files[path].items():
            if key in groups:
                joined = cast("dict[str, object]", merged.setdefault(key, {}))
                for name in Table(value, f"{path}: {key}", None):
                    _once(origin, f"{key}.{name}", path)
                    joined[name] = cast("dict[str, object]", value)[name]
            else:
                _once(origin, key, path)
                merged[key] = value
    return merged


def _once(origin: dict[str, str], name: str, path: str) -> None:
    if name in origin:
        message = f"{shown(name)} is defined in {origin[name]} and in {path}"
        raise DoesNotLoad(LoadFault.DEFINED_TWICE, message, where="bundle")
    origin[name] = path
