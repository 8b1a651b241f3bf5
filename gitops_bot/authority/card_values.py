"""An action as a table: each parameter as people read it and as JSON, and what differs from an earlier action.

`plain` shows what a page or terminal would obey, reorder or hide as an escape, so that two values that differ never
look alike for that reason. Pure.
"""

import json
import unicodedata
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from gitops_bot.authority.shown import Change, Param

MAX_SHOWN: Final = 2_000
"""So many characters of a value are shown; the JSON beside it is whole."""
_HIDDEN: Final = frozenset("\u115f\u1160\u2800\u3164\uffa0\u034f\u17b4\u17b5")
"""Letters and marks by category that fonts show as nothing."""


def plain(text: str) -> str:
    """Escape control, format (direction marks among them), surrogate, private and unassigned characters, separators of
    lines, blanks but the plain one, and letters that show nothing."""
    return "".join(char if _is_plain(char) else _escape(char) for char in text)


def _is_plain(char: str) -> bool:
    return char == " " or (unicodedata.category(char)[0] not in "CZ" and char not in _HIDDEN)


def _escape(char: str) -> str:
    code = ord(char)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def show(value: Any) -> str:
    """Write a parameter's value for people: strings as they are but for what `plain` escapes, the rest as JSON."""
    if isinstance(value, str):
        text = plain(value)
    else:
        text = plain(json.dumps(value, ensure_ascii=False, sort_keys=True))
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}… ({len(text)} characters)"


def params_shown(params: Mapping[str, Any]) -> tuple[Param, ...]:
    """Give the table of an action's parameters, in order of name."""
    return tuple(
        Param(plain(name), show(value), json.dumps(value, ensure_ascii=True, sort_keys=True))
        for name, value in sorted(params.items())
    )


def changes_between(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[Change, ...]:
    """Give what differs from an earlier action; 1 and true, and absent and null, are different."""
    return tuple(
        Change(plain(name), _shown_in(before, name), _shown_in(after, name))
        for name in sorted(before.keys() | after.keys())
        if _json_in(before, name) != _json_in(after, name)
    )


def _shown_in(params: Mapping[str, Any], name: str) -> str | None:
    return show(params[name]) if name in params else None


def _json_in(params: Mapping[str, Any], name: str) -> str | None:
    return json.dumps(params[name], sort_keys=True) if name in params else None


def short(digest: str) -> str:
    """Give the first and last six characters of a digest, to compare by eye."""
    bare = digest.removeprefix("sha256:")
    return f"{bare[:6]}…{bare[-6:]}"


def is_web(url: str) -> bool:
    """Tell whether an address is of the web, and of nothing that acts."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and plain(url) == url and " " not in url
