"""A request has one form in bytes, and what a person signs is a pure function of request, person and decision.

Whoever compares received bytes with these has parsed nothing untrusted to decide (signed-approvals, Approval file and
message). The file and the message hold what the person consents to; `requester`, `run` and `opened_at` are fixed by the
ask's id and stand in the request alone. Who may vote, and whether the ask is still open, is left to the channel.

Pure: no I/O, clock, randomness, logging or third-party library; `tests/architecture` holds it to that.
"""

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, Final, cast

from gitops_bot.core.asks import AskId, is_blank
from gitops_bot.core.canonical import MAX_INTEGER, Digest, action_bytes, action_hash, canonical
from gitops_bot.core.errors import Malformed, Reason, Refused, refuse
from gitops_bot.core.principals import PrincipalName
from gitops_bot.core.strictjson import load_object
from gitops_bot.core.verdicts import Decision
from gitops_bot.policy.params import check_values, printable

REQUEST: Final = "gitops-bot/request/v1"
APPROVAL: Final = "gitops-bot/approval/v1"
MAX_FILE: Final = 8 * 1024
"""Bytes that a vote's file may have (step 4); what would render longer is refused at the request."""
MAX_REQUEST: Final = 64 * 1024
DECISIONS: Final = (Decision.APPROVE, Decision.DENY, Decision.REVOKE)
"""What a commit can say; a plain question's `answer` is never signed."""

Scalar = str | int | bool
Param = Scalar | Sequence[Scalar]

_FIRST_LINES: Final[Mapping[Decision, str]] = MappingProxyType(
    {
        Decision.APPROVE: "# I approve exactly this action, once.",
        Decision.DENY: "# I deny this action.",
        Decision.REVOKE: "# I take back my approval of this action.",
    }
)
_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,31}", re.ASCII)
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)
_FORMS: Final[Mapping[str, re.Pattern[str]]] = MappingProxyType(
    {
        "repository": re.compile(r"[!-~]{1,200}", re.ASCII),
        "environment": _NAME,
        "ask": re.compile(r"[0-7][0-9a-hjkmnp-tv-z]{25}", re.ASCII),
        "verb": re.compile(r"[a-z][a-z0-9_]{0,31}(?:\.[a-z][a-z0-9_]{0,31}){0,3}", re.ASCII),
        "requester": _NAME,
        "run": re.compile(r"[!-~]{1,64}", re.ASCII),
        "policy": _DIGEST,
        "action_hash": _DIGEST,
    }
)
_COUNTS: Final[Mapping[str, int]] = MappingProxyType({"repository_id": 1, "epoch": 1, "run_version": 1})
"""Integer members and the least that each may be."""
_KEY: Final = re.compile(r"[a-z][a-z0-9_]{0,63}", re.ASCII)
_TIME: Final = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})Z", re.ASCII)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LAST: Final = 253_402_300_799_000  # 9999-12-31T23:59:59Z, the last that the form can write


@dataclass(frozen=True, slots=True)
class Request:
    """What a gated ask puts before its voters. Times are milliseconds since 1970 UTC in whole seconds (`in_seconds`).

    A value alone promises nothing: `check_request`, `request_bytes` and `read_request` hold it to the form.
    """

    repository: str
    repository_id: int
    environment: str
    epoch: int
    ask: AskId
    verb: str
    params: Mapping[str, Param]
    requester: PrincipalName
    run: str
    run_version: int
    policy: Digest
    opened_at: int
    expires_at: int
    summary: str
    action_hash: Digest


_MEMBERS: Final = frozenset(Request.__slots__) | {"protocol"}


def in_seconds(at: int) -> int:
    """Cut a time in ms to its whole second: a request never says that an ask lives longer than it does."""
    return at - at % 1000


def show_time(at: int) -> str:
    """Write a time in ms as RFC 3339 in UTC with `Z` and whole seconds.

    Raises:
        Malformed: parts of a second, or a year outside 1970 to 9999.
    """
    if at % 1000 or not 0 <= at <= _LAST:
        raise Malformed("no whole second between 1970 and 9999", where="time")
    return (_EPOCH + timedelta(seconds=at // 1000)).strftime("%Y-%m-%dT%H:%M:%SZ")


def read_time(text: object, *, where: str = "time") -> int:
    """Read what `show_time` writes, in ms.

    Raises:
        Malformed: any other form, or a date that no calendar has.
    """
    found = _TIME.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise Malformed("must be of the form 2026-12-01T12:00:00Z", where=where)
    try:
        at = datetime(*(int(part) for part in found.groups()), tzinfo=UTC)  # type: ignore[misc, arg-type] # six parts
    except ValueError:
        raise Malformed("a date that no calendar has", where=where) from None
    if at < _EPOCH:
        raise Malformed("before 1970", where=where)
    return (at - _EPOCH) // timedelta(milliseconds=1)


def check_request(request: Request) -> Refused | None:
    """Hold a request's parameters and summary against what can be shown and signed at all; None when they stand.

    That the parameters fit the verb's schema is *not* checked.
    """
    refused = check_values(request.params)
    if refused is not None:
        return refused
    for name, value in request.params.items():
        if _KEY.fullmatch(name) is None:
            return refuse(Reason.BAD_PARAMS, "A parameter's name has another form.", param=ascii(name)[:80])
        items = value if isinstance(value, list | tuple) else (value,)
        if not all(isinstance(item, str | int) for item in items):
            return refuse(Reason.BAD_PARAMS, "Strings, integers, booleans and flat lists of them.", param=name)
    if not printable(request.summary):
        return refuse(Reason.UNPRINTABLE, "The summary holds it.")
    if is_blank(request.summary):
        return refuse(Reason.BAD_PARAMS, "The summary would show nothing.")
    longest = len(_file(request, "x" * 32, Decision.REVOKE))
    if longest > MAX_FILE:
        return refuse(Reason.TOO_LARGE, f"Its file would have {longest} bytes of {MAX_FILE}.")
    return None


def request_bytes(request: Request) -> bytes:
    """Give the request's one form: RFC 8785 with exactly its members, `protocol` and times in RFC 3339.

    Raises:
        Malformed: a member out of form, an action hash of another action, or what `check_request` refuses.
    """
    for name, form in _FORMS.items():
        text = getattr(request, name)
        if not isinstance(text, str) or form.fullmatch(text) is None:
            raise Malformed("has another form", where=name)
    for name, least in _COUNTS.items():
        count = getattr(request, name)
        if isinstance(count, bool) or not isinstance(count, int) or not least <= count <= MAX_INTEGER:
            raise Malformed(f"must be an integer from {least}", where=name)
    if not request.opened_at < request.expires_at:
        raise Malformed("must be after opened_at", where="expires_at")
    refused = check_request(request)
    if refused is not None:
        raise Malformed(refused.sentence, where="request")
    action = action_bytes(request.repository, request.environment, request.verb, request.params)
    if action_hash(action) != request.action_hash:
        raise Malformed("is not that of the action", where="action_hash")
    members: dict[str, object] = {name: getattr(request, name) for name in Request.__slots__}
    members |= {name: show_time(getattr(request, name)) for name in ("opened_at", "expires_at")}
    return canonical({**members, "protocol": REQUEST})


def read_request(raw: bytes) -> Request:
    """Read a request's bytes; what comes back renders to them again.

    Raises:
        Malformed: other members, types or values, or any other bytes than the canonical ones.
    """
    members = load_object(raw, limit=MAX_REQUEST, where="request")
    if members.keys() != _MEMBERS or members.pop("protocol") != REQUEST:
        raise Malformed(f"not exactly the members of {REQUEST}", where="request")
    for name in ("opened_at", "expires_at"):
        members[name] = read_time(members[name], where=name)
    if not isinstance(members["summary"], str):
        raise Malformed("must be a string", where="summary")
    members["params"] = _frozen(members["params"])
    request = Request(**members)
    if request_bytes(request) != raw:
        raise Malformed("not the canonical bytes (RFC 8785)", where="request")
    return request


def _frozen(params: object) -> Mapping[str, Param]:
    if not isinstance(params, dict):
        raise Malformed("must be an object", where="params")
    items = cast("dict[str, Any]", params).items()
    return MappingProxyType({name: tuple(value) if isinstance(value, list) else value for name, value in items})


def render_file(request: Request, person: PrincipalName, decision: Decision) -> bytes:
    """Write the file that a person adds to say a decision on a request.

    Whether the person may, and whether the request is in form, is *not* checked.

    Raises:
        Malformed: a person's name or a decision that no path can hold, or a value that TOML cannot.
    """
    if _NAME.fullmatch(person) is None:
        raise Malformed("no name of a person", where="person")
    return _file(request, person, decision)


def _file(request: Request, person: str, decision: Decision) -> bytes:
    members: tuple[tuple[str, Param], ...] = (
        ("protocol", APPROVAL),
        ("repository", request.repository),
        ("repository_id", request.repository_id),
        ("environment", request.environment),
        ("epoch", request.epoch),
        ("ask", request.ask),
        ("person", person),
        ("decision", decision.value),
        ("verb", request.verb),
        ("summary", request.summary),
        ("action_hash", request.action_hash),
        ("policy", request.policy),
        ("run_version", request.run_version),
        ("expires_at", show_time(request.expires_at)),
    )
    lines = [_first_line(decision)]
    lines += [f"{name} = {_value(value)}" for name, value in members]
    lines += ["", "[params]"]
    lines += [f"{_key(name)} = {_value(request.params[name])}" for name in sorted(request.params)]
    return ("\n".join(lines) + "\n").encode("ascii")


def render_message(request: Request, person: PrincipalName, decision: Decision) -> bytes:
    """Write the whole commit message that belongs to `render_file`.

    It names the file by its SHA-256, so that the signature covers the bytes without trusting SHA-1 or tree reading.

    Raises:
        Malformed: as `render_file`.
    """
    file = hashlib.sha256(render_file(request, person, decision)).hexdigest()
    subject = f"{decision.value} {request.verb} {request.ask}"
    return f"{subject}\n\n{escape(request.summary)}\n\nApproval-SHA256: {file}\n".encode("ascii")


def short_code(file: bytes) -> str:
    """Give the eight letters that a person reads back: the first 40 bits of the file's SHA-256 in base32.

    Upper case, as RFC 4648 §6 and every tool print it, with neither 0, 1, 8 nor 9 in it; what is typed is compared in
    any case. It proves that somebody looked, never that the file is right.
    """
    return base64.b32encode(hashlib.sha256(file).digest()[:5]).decode("ascii")


def escape(text: str) -> str:
    r"""Write a text as the inside of a TOML basic string in printable ASCII: `\"`, `\\`, `\uXXXX`, `\UXXXXXXXX`.

    Raises:
        Malformed: a lone surrogate, which is no character.
    """
    return "".join(_char(char) for char in text)


def _char(char: str) -> str:
    if char in '"\\':
        return "\\" + char
    point = ord(char)
    if 0x20 <= point < 0x7F:
        return char
    if 0xD800 <= point < 0xE000:
        raise Malformed("a lone surrogate in a string")
    return f"\\u{point:04X}" if point < 0x10000 else f"\\U{point:08X}"


def _first_line(decision: Decision) -> str:
    line = _FIRST_LINES.get(decision)
    if line is None:
        raise Malformed("no decision that a commit can say", where="decision")
    return line


def _key(name: str) -> str:
    if _KEY.fullmatch(name) is None:
        raise Malformed("a parameter's name of another form", where="params")
    return name


def _value(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(int(value))
        case str():
            return f'"{escape(value)}"'
        case list() | tuple():
            items = cast("Sequence[object]", value)
            if any(isinstance(item, list | tuple) for item in items):
                raise Malformed("a list in a list", where="params")
            return "[" + ", ".join(_value(item) for item in items) + "]"
        case _:
            raise Malformed(f"a value of type {type(value).__name__}", where="params")
