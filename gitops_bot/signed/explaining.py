"""Whoever is told that bytes or a message differ is told where, in one sentence that any terminal can print.

This reads untrusted text and therefore decides nothing: the bytes were compared before, and whatever is said here, they
differ. Every cost is bounded, every quoted text is cut and in printable ASCII.

Pure: no I/O, clock, randomness, logging or third-party library; `tests/architecture` holds it to that.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any, Final

from gitops_bot.core.errors import Malformed
from gitops_bot.signed.rendering import MAX_FILE

MAX_MESSAGE: Final = 64 * 1024
MAX_SHOWN: Final = 60
MAX_NESTING: Final = 8
MAX_DOTS: Final = 400
MAX_LINES: Final = 400
_NAMED: Final = 3
_BOM: Final = b"\xef\xbb\xbf"
_FIRST: Final = (
    *("ask", "decision", "person", "repository", "repository_id", "environment"),
    *("epoch", "verb", "run_version", "policy"),
)
"""What makes a file one of something else altogether is named before what differs within."""
_OTHER: Final = frozenset({"ask", "repository", "repository_id", "environment", "epoch", "run_version", "policy"})
_TRAILER: Final = re.compile(rb"Approval-SHA256: [0-9a-f]{64}")


def explain_file(expected: bytes, found: bytes) -> str:
    """Say in one sentence how a file differs from the rendered one."""
    if found == expected:
        return "The bytes are equal."
    if len(found) > MAX_FILE:
        return f"It has {len(found)} bytes; a vote has at most {MAX_FILE}."
    return _form(expected, found) or _values(expected, found) or _line(expected, found)


def explain_message(expected: bytes, found: bytes) -> str:
    """Say in one sentence how a commit message differs from the rendered one."""
    if found == expected:
        return "The messages are equal."
    if len(found) > MAX_MESSAGE:
        return f"It has {len(found)} bytes; a message has at most {MAX_MESSAGE}."
    said = _form(expected, found)
    if said is not None:
        return said
    wanted, given = expected.split(b"\n", MAX_LINES), found.split(b"\n", MAX_LINES)
    if given[0] != wanted[0]:
        return f"The subject is {_quoted(given[0])}, it must be {_quoted(wanted[0])}."
    if wanted[-2] not in given:
        other = next((line for line in given if _TRAILER.fullmatch(line)), None)
        if other is None:
            return f"The trailer is missing: {_ascii(wanted[-2], 90)}."
        return f"The trailer is that of another file: {_ascii(other, 90)}, it must be {_ascii(wanted[-2], 90)}."
    return _line(expected, found)


def _form(expected: bytes, found: bytes) -> str | None:
    """Find the faults that editors and git settings make, which no value shows."""
    if not found:
        return "It is empty."
    if found.startswith(_BOM):
        return "It begins with a BOM (a byte order mark); write plain ASCII."
    if found.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "It is in UTF-16; write plain ASCII."
    if b"\r" in found and found.replace(b"\r\n", b"\n").replace(b"\r", b"\n") == expected:
        return "It has CRLF line ends; they must be LF (core.autocrlf, or an editor, changed them)."
    if found + b"\n" == expected:
        return "It has no final newline."
    if found.rstrip(b"\n") == expected.rstrip(b"\n"):
        return "It has blank lines at its end."
    if _solid(found) == _solid(expected):
        return f"Only blanks differ, first in line {_first(expected, found)}."
    return None


def _solid(text: bytes) -> bytes:
    return b"".join(text.split())


def _values(expected: bytes, found: bytes) -> str | None:
    """Compare what two files say; None when the one found cannot be read or says the same."""
    try:
        wanted, given = read_flat(expected), read_flat(found)
    except Malformed:
        return None
    names = sorted(wanted.keys() | given.keys(), key=_rank)
    differing = [name for name in names if _kind(wanted, name) != _kind(given, name)]
    if not differing:
        return None
    first = differing[0]
    if first in _OTHER and first in given:
        what = {"ask": "ask", "policy": "policy", "run_version": "version of the run"}.get(first, first)
        return f"It is an approval file of another {what}: {_of(wanted, given, first)}."
    said = [_of(wanted, given, name) for name in differing[:_NAMED]]
    more = f"; and {len(differing) - _NAMED} more" if len(differing) > _NAMED else ""
    return "; ".join(said) + more + "."


def _rank(name: str) -> tuple[int, str]:
    return (_FIRST.index(name) if name in _FIRST else len(_FIRST), name)


def _kind(values: Mapping[str, Any], name: str) -> tuple[bool, str, object]:
    """Tell 1 from true, and a name that is not there from every value."""
    value = values.get(name)
    return (name in values, type(value).__name__, value)


def _of(wanted: Mapping[str, Any], given: Mapping[str, Any], name: str) -> str:
    shown = _ascii(name.removeprefix("params."))
    if name not in given:
        return f"{shown} is missing, the request says {_shown(wanted[name])}"
    if name not in wanted:
        return f"{shown} is {_shown(given[name])}, the request has none"
    return f"{shown} is {_shown(given[name])}, the request says {_shown(wanted[name])}"


def read_flat(raw: bytes) -> dict[str, Any]:
    """Read a file of TOML as one flat mapping, a parameter under `params.` and its name. To explain, never to decide.

    Raises:
        Malformed: too large, nested too deep, not UTF-8 or not TOML.
    """
    if len(raw) > MAX_FILE:
        raise Malformed("too large", where="file")
    # Bounded before parsing, what stands in strings included: the parser recurses into brackets, and a key of very
    # many dots costs the square of their number.
    depth = deepest = 0
    for byte in raw:
        depth += (byte in b"[{") - (byte in b"]}")
        deepest = max(deepest, depth)
    if deepest > MAX_NESTING or raw.count(b".") > MAX_DOTS:
        raise Malformed("nested too deep", where="file")
    try:
        read = tomllib.loads(raw.decode("utf-8"))
    except ValueError:  # UnicodeDecodeError, TOMLDecodeError, and what int() says of thousands of digits
        raise Malformed("not TOML", where="file") from None
    params = read.pop("params", {})
    if isinstance(params, dict):
        return read | {f"params.{name}": value for name, value in params.items()}
    return read | {"params.": params}


def _line(expected: bytes, found: bytes) -> str:
    """Name the first line that differs."""
    number = _first(expected, found)
    wanted, given = _at(expected, number), _at(found, number)
    if given is None:
        return f"It ends before line {number}, which must be {_quoted(wanted or b'')}."
    if wanted is None:
        return f"It goes on after its end, with {_quoted(given)}."
    return f"Line {number} is {_quoted(given)}, it must be {_quoted(wanted)}."


def _at(text: bytes, number: int) -> bytes | None:
    lines = text.removesuffix(b"\n").split(b"\n")
    return lines[number - 1] if number <= len(lines) else None


def _first(expected: bytes, found: bytes) -> int:
    """Count the lines, from 1, up to the first that differs."""
    pairs: Iterable[tuple[bytes, bytes]] = zip(expected.split(b"\n"), found.split(b"\n"), strict=False)
    same = 0
    for wanted, given in pairs:
        if wanted != given:
            break
        same += 1
    return same + 1


def _shown(value: object) -> str:
    """Write a value as TOML would, cut."""
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value) if value.bit_length() < 200 else "an integer of many digits"
        case float():
            return str(value)
        case dict():
            return "a table"
        case str():
            return f'"{_ascii(value)}"'
        case list():
            return "[" + ", ".join(_shown(item) for item in value[:4]) + (", ...]" if len(value) > 4 else "]")
        case _:
            return f"a {type(value).__name__}"


def _quoted(line: bytes) -> str:
    return f"`{_ascii(line)}`"


def _ascii(text: str | bytes, most: int = MAX_SHOWN) -> str:
    """Give a text that no terminal obeys: printable ASCII, cut to `most` characters of the original."""
    if isinstance(text, bytes):
        text = text[: most * 4 + 4].decode("utf-8", "replace")
    shown = "".join(char if " " <= char <= "~" else f"\\u{ord(char):04X}" for char in text[:most])
    return shown + ("..." if len(text) > most else "")
