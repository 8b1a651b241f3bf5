"""What acpx prints with `--format json`: the messages of the Agent Client Protocol between it and an agent, one a line.

Of these come the agent's own text, in order, and what is known of the turn's end. Thoughts, tools' output, what an
earlier turn said, and messages of any other kind are no text. A line that cannot be read is counted, for then nobody
knows whether the text is whole. Bounded for any input.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gitops_bot.core.texts import storable

LINE_CAP: Final = 8 * 1024 * 1024
"""Bytes of one message."""
_PENDING_CAP: Final = 1_000
_OPTIONS_CAP: Final = 20
_ID_CAP: Final = 200
_ALLOWING: Final = ("allow_once", "allow_always")
_Id = str | int | None
_APART: Final = frozenset({"tool_call", "agent_thought_chunk", "plan", "user_message_chunk"})
"""What stands between two messages of the agent; the other updates may come in the middle of one."""
_LIMITED_STATUS: Final = 429
_LIMITED_KINDS: Final = frozenset({"rate_limit", "rate_limited", "rate_limit_error", "rate_limit_exceeded"})
_STATUS_KEYS: Final = ("status", "statusCode", "httpStatus", "code")
_KIND_KEYS: Final = ("errorKind", "kind", "type", "reason")
_AFTER_KEYS: Final = (("retryAfter", 1.0), ("retry_after", 1.0), ("retryAfterSeconds", 1.0), ("retryAfterMs", 0.001))
_AFTER_CAP: Final = 7 * 24 * 3600.0
_DETAIL_CAP: Final = 1_000


@dataclass(frozen=True, slots=True)
class Failure:
    """An error that ended the turn: its message, acpx's own name for it (empty: the agent's error), and whether the
    provider said that its limit is reached, with the seconds it named."""

    message: str
    name: str
    rate_limited: bool
    retry_after: float | None


class Events:
    """Reads acpx's output piece by piece."""

    def __init__(self) -> None:
        self.stop_reason: str | None = None
        self.failure: Failure | None = None
        self.status: str | None = None
        self.cancelled: bool | None = None
        self.asked = 0
        self.allowed = 0
        self.unread = 0
        self._held = bytearray()
        self._over = False
        self._prompt: _Id = None
        self._open = False
        self._apart = False
        self._message: _Id = None
        self._pending: dict[_Id, frozenset[_Id]] = {}

    def feed(self, piece: bytes) -> bytes:
        """Take a piece of any size; give the agent's text that it completes."""
        *lines, rest = piece.split(b"\n")
        text: list[str] = []
        for line in lines:
            self._hold(line)
            text.append(self._line())
        self._hold(rest)
        return "".join(text).encode()

    def end(self) -> bytes:
        """Take a last line that has no end; give its text."""
        return self._line().encode()

    def _hold(self, part: bytes) -> None:
        if self._over or len(self._held) + len(part) > LINE_CAP:
            self._over = True
            self._held.clear()
        else:
            self._held += part

    def _line(self) -> str:
        line, over = bytes(self._held).strip(), self._over
        self._held.clear()
        self._over = False
        if not line and not over:
            return ""
        message = None if over else _object(line)
        if message is None:
            self.unread += 1
            return ""
        return self._read(message)

    def _read(self, message: Mapping[str, object]) -> str:
        method, params = message.get("method"), _mapping(message.get("params"))
        if method == "session/update":
            return "" if self._prompt is None else self._update(_mapping(params.get("update")))
        if method == "session/prompt":
            self._prompt, self._apart = _id(message.get("id")), False
        elif method == "session/request_permission":
            self._request(message.get("id"), params)
        elif method is None:
            self._reply(message)
        return ""

    def _update(self, update: Mapping[str, object]) -> str:
        kind = update.get("sessionUpdate")
        if kind != "agent_message_chunk":
            self._apart = self._apart or kind in _APART
            return ""
        content = _mapping(update.get("content"))
        text = content.get("text")
        if content.get("type") != "text" or not isinstance(text, str):
            return ""
        named = _id(update.get("messageId"))
        apart = self._open and (self._apart or named != self._message)
        self._apart, self._message = False, named
        self._open = not text.endswith("\n") if text else self._open and not apart
        # One message ends where another begins: a marker is a line, and these are not one line.
        return storable("\n" + text if apart else text)

    def _request(self, request: object, params: Mapping[str, object]) -> None:
        self.asked += 1
        options = params.get("options")
        known = map(_mapping, options[:_OPTIONS_CAP] if isinstance(options, list) else [])
        allowing = frozenset(_id(option.get("optionId")) for option in known if option.get("kind") in _ALLOWING)
        if len(self._pending) < _PENDING_CAP:
            self._pending[_id(request)] = allowing - {None}

    def _reply(self, message: Mapping[str, object]) -> None:
        which, result = _id(message.get("id")), _mapping(message.get("result"))
        if "status" in message and message.get("action") == "status_snapshot":
            self.status = str(message["status"])
        if message.get("action") == "cancel_result":
            self.cancelled = message.get("cancelled") is not False
        outcome = _mapping(result.get("outcome"))
        if outcome:
            allowing = self._pending.pop(which, frozenset())
            self.allowed += outcome.get("outcome") == "selected" and _id(outcome.get("optionId")) in allowing
        reason = result.get("stopReason")
        if which is not None and which == self._prompt and isinstance(reason, str):
            self.stop_reason = storable(reason)[:_DETAIL_CAP]
        error = _mapping(message.get("error"))
        if error and which in (None, self._prompt):
            self.failure = _failure(error)


def _object(line: bytes) -> Mapping[str, object] | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _id(value: object) -> _Id:
    """Give what names a message, None for what is no name or too long to be kept."""
    if isinstance(value, str):
        return value if len(value) <= _ID_CAP else None
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 64 else None


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _failure(error: Mapping[str, object]) -> Failure:
    """Read an error. Only what is said in a field of its own counts as a reached limit, never words of a message."""
    data = _mapping(error.get("data"))
    limited = error.get("code") == _LIMITED_STATUS
    limited = limited or any(data.get(key) == _LIMITED_STATUS for key in _STATUS_KEYS)
    limited = limited or any(isinstance(kind := data.get(key), str) and kind in _LIMITED_KINDS for key in _KIND_KEYS)
    after = None
    for key, unit in _AFTER_KEYS:
        value = data.get(key)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= _AFTER_CAP / unit:
            after = after or value * unit
    message, name = error.get("message"), data.get("acpxCode")
    return Failure(
        storable(message)[:_DETAIL_CAP] if isinstance(message, str) else "",
        storable(name)[:_DETAIL_CAP] if isinstance(name, str) else "",
        limited,
        after if limited else None,
    )
