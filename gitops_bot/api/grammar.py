"""Bodies and queries of the HTTP API as values; what is not exactly one is refused with the member that is wrong.

Whoever holds a value from here holds members of the right type and size, without characters that a database or a
terminal cannot keep. Whether somebody may ask it is *not* decided here.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from gitops_bot.api.members import MAX_BODY as MAX_BODY
from gitops_bot.api.members import PRINTABLE, key, known, members, number, optional, strings, text
from gitops_bot.core.asks import MAX_OPTIONS, MAX_TEXT
from gitops_bot.core.canonical import MAX_INTEGER
from gitops_bot.core.captures import Regime, regime
from gitops_bot.core.durations import parse_duration
from gitops_bot.core.errors import SENTENCES, Fact, Malformed, Reason, Refused
from gitops_bot.core.strictjson import load_object

MAX_ANSWER: Final = 8 * 1024 * 1024
MAX_REASON: Final = 1_000
MAX_CANDIDATES: Final = 20
MAX_PAGE: Final = 200
MAX_WAIT: Final = 30
MODES: Final = ("block", "continue")
ID: Final = re.compile(r"[0-9a-hjkmnp-tv-z]{26}", re.ASCII)
"""An id in a path: a lower-case ULID."""
_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,31}", re.ASCII)
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]{1,512}=*", re.ASCII)


@dataclass(frozen=True, slots=True)
class AskBody:
    """`POST /asks`: a plain question. `expires_in` in ms, `due_at` in ms since 1970 UTC."""

    question: str
    options: tuple[str, ...]
    why: str
    candidates: tuple[str, ...]
    expires_in: int | None
    due_at: int | None
    idempotency_key: str | None


@dataclass(frozen=True, slots=True)
class VerbBody:
    """`POST /verbs/VERB/requests`: an action's parameters, as they were sent. `expires_in` in ms."""

    params: Mapping[str, Any]
    why: str
    expires_in: int | None
    idempotency_key: str | None


@dataclass(frozen=True, slots=True)
class CaptureBody:
    """`POST /captures`: a regime that is to be measured."""

    regime: Regime
    why: str
    mode: str
    idempotency_key: str | None


@dataclass(frozen=True, slots=True)
class LoopBody:
    """`POST /loops`: where a loop's bridge is. The token is a secret. `shares_user`: nothing keeps the loop's agent
    from what the loop may read; so it is when nothing is said."""

    id: str
    address: str
    broker_token: str
    resume: bool
    shares_user: bool


@dataclass(frozen=True, slots=True)
class Page:
    """Which part of a list: after this id, at most so many; with `only_open` those that are not over."""

    after: str
    limit: int
    only_open: bool


def parse_ask(raw: bytes) -> AskBody:
    """Read the body of `POST /asks`. Emptiness and doubled options are *not* judged: opening does, with its reasons.

    Raises:
        Malformed: no JSON object, an unknown or missing member, a wrong type or size.
    """
    names = ("question", "options", "why", "candidates", "expires_in", "due_at", "idempotency_key")
    body = members(raw, names, required=("question",))
    expires = optional(body, "expires_in", str)
    due_at = optional(body, "due_at", int)
    if due_at is not None and not 0 <= due_at <= MAX_INTEGER:
        raise Malformed("due_at is milliseconds since 1970", where="body")
    candidates = strings(body, "candidates", MAX_CANDIDATES, 32)
    if not all(_NAME.fullmatch(name) for name in candidates):
        raise Malformed("candidates are names of the policy", where="body")
    return AskBody(
        question=text(body, "question", MAX_TEXT),
        options=strings(body, "options", MAX_OPTIONS, MAX_TEXT),
        why=text(body, "why", MAX_TEXT),
        candidates=candidates,
        expires_in=None if expires is None else parse_duration(expires, where="expires_in"),
        due_at=due_at,
        idempotency_key=key(body),
    )


def parse_verb(raw: bytes) -> VerbBody:
    """Read the body of `POST /verbs/VERB/requests`. The parameters are an object without a float; whether they fit the
    verb is *not* judged: opening does, by the policy.

    Raises:
        Malformed: as `parse_ask`.
    """
    body = members(raw, ("params", "why", "expires_in", "idempotency_key"), required=("params",))
    params = body["params"]
    if not isinstance(params, dict):
        raise Malformed("params must be an object", where="body")
    expires = optional(body, "expires_in", str)
    return VerbBody(
        params=MappingProxyType(params),
        why=text(body, "why", MAX_TEXT),
        expires_in=None if expires is None else parse_duration(expires, where="expires_in"),
        idempotency_key=key(body),
    )


def parse_capture(raw: bytes) -> CaptureBody:
    """Read the body of `POST /captures`; `long_frac` is a number or its string of four decimals.

    Raises:
        Malformed: as `parse_ask`; or no regime that a trace id can name.
    """
    parts = ("model", "concurrency", "prefixes", "max_tokens", "long_tokens", "long_frac")
    body = members(raw, (*parts, "why", "mode", "idempotency_key"), required=parts, floats=True)
    mode = text(body, "mode", 16) or "block"
    if mode not in MODES:
        raise Malformed(f"mode is {' or '.join(MODES)}", where="body")
    measured = regime(*(body[name] for name in parts))
    return CaptureBody(measured, text(body, "why", MAX_TEXT), mode, key(body))


def parse_loop(raw: bytes) -> LoopBody:
    """Read the body of `POST /loops`. What an id or address may look like is left to the registration.

    Raises:
        Malformed: as `parse_ask`; or a broker token that no header could carry.
    """
    names = ("id", "address", "broker_token", "resume", "shares_user")
    body = members(raw, names, required=names[:3])
    token = text(body, "broker_token", 512)
    if not PRINTABLE.fullmatch(token):
        raise Malformed("broker_token is printable ASCII without spaces", where="body")
    resume, shares_user = (optional(body, name, bool) for name in ("resume", "shares_user"))
    return LoopBody(text(body, "id", 64), text(body, "address", 300), token, resume is True, shares_user is not False)


def parse_reason(raw: bytes) -> str:
    """Read the body of a cancellation, `{reason?}`; no body at all is none.

    Raises:
        Malformed: as `parse_ask`.
    """
    return text(members(raw, ("reason",)), "reason", MAX_REASON) if raw else ""


def parse_page(query: Mapping[str, str]) -> Page:
    """Read the query of a list: `after`, `limit` (1 to 200, 50 when absent), `open` (1: only what is not over).

    Raises:
        Malformed: another name, a cursor that is no id, or a number out of range.
    """
    known(query, ("after", "limit", "open"))
    after = query.get("after", "")
    if after and not ID.fullmatch(after):
        raise Malformed("after is the id of the last one seen", where="query")
    limit = number(query.get("limit", "50"), "limit")
    if not 1 <= limit <= MAX_PAGE:
        raise Malformed(f"limit is 1 to {MAX_PAGE}", where="query")
    if query.get("open", "0") not in ("0", "1"):
        raise Malformed("open is 0 or 1", where="query")
    return Page(after, limit, query.get("open") == "1")


def parse_wait(query: Mapping[str, str]) -> int:
    """Read the query of one ask: `wait`, the seconds that the answer may be held back, at most 30.

    Raises:
        Malformed: another name, or no number from 0 to 30.
    """
    known(query, ("wait",))
    wait = number(query.get("wait", "0"), "wait")
    if wait > MAX_WAIT:
        raise Malformed(f"wait is 0 to {MAX_WAIT} seconds", where="query")
    return wait


def parse_bearer(header: str | None) -> str | None:
    """Take the token out of an Authorization header (RFC 6750, section 2.1); None when there is none of that form."""
    scheme, _, token = (header or "").partition(" ")
    return token if scheme.lower() == "bearer" and _TOKEN.fullmatch(token) else None


def read_answer(raw: bytes) -> dict[str, Any]:
    """Read what the API answered.

    Raises:
        Malformed: no JSON object, or larger than `MAX_ANSWER`.
    """
    return load_object(raw, limit=MAX_ANSWER, floats=True, where="answer")


def read_problem(raw: bytes) -> Refused | None:
    """Read a problem document (RFC 9457) as the refusal that it tells; None when its reason is not of the closed list.

    Raises:
        Malformed: as `read_answer`.
    """
    document = read_answer(raw)
    code, detail, facts = document.get("reason"), document.get("detail"), document.get("facts")
    if not isinstance(code, str) or code not in set(Reason):
        return None
    reason = Reason(code)
    said = detail if isinstance(detail, str) else ""
    kept: dict[str, Fact] = {}
    for name, value in (facts if isinstance(facts, dict) else {}).items():
        if isinstance(value, list):
            kept[name] = tuple(str(item) for item in value)
        elif value is None or isinstance(value, str | int | bool):
            kept[name] = value
    return Refused(reason, said.removeprefix(SENTENCES[reason]).strip(), MappingProxyType(kept))
