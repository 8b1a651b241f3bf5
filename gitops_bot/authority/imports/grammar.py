"""A Markdown file that asks for an approval becomes a value, or is refused with its line.

Front matter between two lines of `---` holds `key: value` lines and lists (in brackets, or one `- item` a line). It is
a small part of YAML on purpose: no tag, anchor, alias, nesting or block text, so that no file costs more than its
bytes, and nothing means what a reader of the file does not see. Unknown keys are kept out and named.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gitops_bot.core.asks import MAX_OPTIONS, MAX_TEXT, is_blank
from gitops_bot.core.errors import Malformed
from gitops_bot.core.texts import is_storable

MAX_FILE: Final = 64 * 1024
MAX_KEYS: Final = 50
_FENCE: Final = "---"
_KEY: Final = re.compile(r"([A-Za-z][A-Za-z0-9_-]{0,40}):(?:[ \t]+(.*)|[ \t]*)", re.ASCII)
_ITEM: Final = re.compile(r"[ \t]*-[ \t]+(.*)")
_NOT_PLAIN: Final = "&*!|>%@`{["
"""With which YAML begins what is no plain text (YAML 1.2.2, §7.3.3)."""
_OPEN: Final = frozenset({"open", "pending", "waiting", "asked", "needs-approval", "todo"})
_ENDED: Final = frozenset(
    {"answered", "approved", "denied", "rejected", "declined", "closed", "done", "resolved", "expired", "withdrawn"}
    | {"cancelled", "superseded"}
)


class FileState(StrEnum):
    """Whether a file still waits for a person."""

    OPEN = "open"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class ApprovalFile:
    """What a file says. `said` is its own word for its state, `answer` and `by` what it claims of its end, unchecked;
    `body` the text below the front matter; `ignored` the keys that mean nothing here."""

    question: str
    options: tuple[str, ...]
    state: FileState
    said: str
    answer: str | None
    by: str | None
    body: str
    ignored: tuple[str, ...]


def parse(raw: bytes) -> ApprovalFile:
    """Read one file.

    Raises:
        Malformed: it is too large, not UTF-8, has no front matter, or says something that is not understood.
    """
    if len(raw) > MAX_FILE:
        raise Malformed(f"the file is larger than {MAX_FILE // 1024} KiB")
    try:
        text = raw.decode("utf-8", "strict").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise Malformed(f"byte {error.start} is not UTF-8") from error
    if not is_storable(text):
        raise Malformed("it holds a zero")
    head, body = _split(text.replace("\r\n", "\n").split("\n"))
    values = _values(head)
    question = _text(values, "question") or _text(values, "title") or ""
    if is_blank(question) or len(question) > MAX_TEXT:
        raise Malformed(f"`question` needs its text, of at most {MAX_TEXT} characters")
    said = (_text(values, "state") or _text(values, "status") or "").lower()
    known = {"question", "title", "options", "state", "status", "answer", "answered_by", "by"}
    return ApprovalFile(
        question=question,
        options=_options(values),
        state=_state(said),
        said=said,
        answer=_text(values, "answer"),
        by=_text(values, "answered_by") or _text(values, "by"),
        body=body.strip("\n"),
        ignored=tuple(sorted(set(values) - known)),
    )


def _split(lines: list[str]) -> tuple[list[tuple[int, str]], str]:
    if not lines or lines[0].rstrip() != _FENCE:
        raise Malformed("line 1 is not `---`: there is no front matter")
    for at, line in enumerate(lines[1:], 1):
        if line.rstrip() == _FENCE:
            return list(enumerate(lines[1:at], 2)), "\n".join(lines[at + 1 :])
    raise Malformed("the front matter is never closed by a second `---`")


def _values(lines: list[tuple[int, str]]) -> dict[str, str | list[str]]:
    found: dict[str, str | list[str]] = {}
    last: str | None = None
    for number, line in lines:
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        item = _ITEM.fullmatch(line)
        if item is not None and last is not None:
            listed = found[last]
            if not isinstance(listed, list):
                raise Malformed(f"line {number}: `{last}` has a value and a list")
            listed.append(_scalar(item.group(1), number))
            continue
        pair = _KEY.fullmatch(line)
        if pair is None:
            raise Malformed(f"line {number} is neither `key: value` nor an item of a list")
        last = pair.group(1).lower().replace("-", "_")
        if last in found or len(found) == MAX_KEYS:
            raise Malformed(f"line {number}: `{last}` stands there twice, or there are more than {MAX_KEYS} keys")
        found[last] = _value(pair.group(2) or "", number)
    return found


def _value(text: str, number: int) -> str | list[str]:
    text = text.strip()
    if not text:
        return []
    if text.startswith("[") and text.endswith("]"):
        return [_scalar(part, number) for part in _parts(text[1:-1], number)]
    return _scalar(text, number)


def _parts(text: str, number: int) -> Iterator[str]:
    part, quote = "", ""
    for char in text:
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'" and not part.strip():
            quote = char
        elif char == ",":
            yield part
            part = ""
            continue
        part += char
    if quote:
        raise Malformed(f"line {number}: a quote is never closed")
    if part.strip():
        yield part


def _scalar(text: str, number: int) -> str:
    text = text.strip()
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'":
        inner = text[1:-1]
        if text[0] in inner or "\\" in inner:
            raise Malformed(f"line {number}: quotes and backslashes inside a quoted value are not read")
        return inner
    if text and text[0] in _NOT_PLAIN + "\"'":
        raise Malformed(f"line {number}: `{text[:20]}` is more YAML than is read here; put it into quotes")
    return re.split(r"[ \t]#", text, maxsplit=1)[0].rstrip()


def _text(values: dict[str, str | list[str]], key: str) -> str | None:
    value = values.get(key)
    if value is None or value == []:
        return None
    if isinstance(value, list):
        raise Malformed(f"`{key}` is a list and should be one text")
    return value


def _options(values: dict[str, str | list[str]]) -> tuple[str, ...]:
    value = values.get("options", [])
    if isinstance(value, str):
        raise Malformed("`options` is one text and should be a list")
    if len(value) == 1 or len(value) > MAX_OPTIONS:
        raise Malformed(f"`options` offers two to {MAX_OPTIONS}, or none")
    if any(is_blank(label) or len(label) > MAX_TEXT for label in value) or len(set(value)) != len(value):
        raise Malformed("`options` must be non-empty and differ")
    return tuple(value)


def _state(said: str) -> FileState:
    if said in _OPEN:
        return FileState.OPEN
    if said in _ENDED:
        return FileState.ENDED
    known = ", ".join(sorted(_OPEN | _ENDED))
    raise Malformed(f"`state` {said[:40]!r} is not understood; known: {known}")
