"""Bodies of people's calls as values; what is not exactly one is refused with the member that is wrong.

An answer that does not echo what binds it is read all the same: that it is `unbindable` is for settling to say. What a
passkey said is taken as an object of bounded size and *not* looked into. Who may do it is *not* decided here.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from gitops_bot.api.grammar import ID, MAX_REASON
from gitops_bot.api.members import checked, key, members, optional, text
from gitops_bot.core.asks import MAX_TEXT, Binding
from gitops_bot.core.canonical import MAX_INTEGER, Digest
from gitops_bot.core.durations import parse_duration
from gitops_bot.core.errors import Malformed
from gitops_bot.core.statements import MOST_IN_BATCH

MAX_MESSAGE: Final = 8_000
MAX_NAME: Final = 64
MAX_PURPOSE: Final = 500
MAX_CEREMONY: Final = 128
SLUG: Final = re.compile(r"[a-z][a-z0-9-]{0,62}", re.ASCII)
NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,31}", re.ASCII)
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)
_CEREMONY: Final = re.compile(r"[A-Za-z0-9._~-]+", re.ASCII)
_ECHO: Final = ("action_hash", "policy", "run_version")
_GIVEN: Final = ("option", "text", *_ECHO)


@dataclass(frozen=True, slots=True)
class Assertion:
    """A ceremony and what a passkey said in it, as browsers write it (WebAuthn Level 3, AuthenticationResponseJSON)."""

    ceremony: str
    credential: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class GivenBody:
    """One answer as it was sent. `binding` None: it does not echo all that binds it."""

    option: str | None
    text: str | None
    binding: Binding | None
    idempotency_key: str | None = None


@dataclass(frozen=True, slots=True)
class AnswerBody:
    """`POST /asks/ID/answer`."""

    given: GivenBody
    assertion: Assertion | None


@dataclass(frozen=True, slots=True)
class BatchBody:
    """`POST /answers`: answers by ask, in the order in which they were shown and signed."""

    answers: tuple[tuple[str, GivenBody], ...]
    assertion: Assertion | None


@dataclass(frozen=True, slots=True)
class HoldBody:
    """`POST /asks/ID/hold`: for how long in ms, and why."""

    lasts: int
    reason: str


@dataclass(frozen=True, slots=True)
class AgentBody:
    """`POST /agents`: a new agent that acts as a service. `loop`: its token registers loops and does nothing else."""

    slug: str
    principal: str
    purpose: str
    loop: bool


def parse_given(raw: bytes) -> GivenBody:
    """Read the body of `POST /asks/ID/statement`.

    Raises:
        Malformed: no JSON object, an unknown member, a wrong type or size.
    """
    return _given(members(raw, _GIVEN))


def parse_answer(raw: bytes) -> AnswerBody:
    """Read the body of `POST /asks/ID/answer`.

    Raises:
        Malformed: as `parse_given`.
    """
    body = members(raw, (*_GIVEN, "idempotency_key", "assertion"), floats=True)
    return AnswerBody(_given(body), _assertion(body, "assertion"))


def parse_batch(raw: bytes) -> BatchBody:
    """Read the body of `POST /answers` or, where there is no assertion yet, of `POST /answers/statement`.

    Raises:
        Malformed: as `parse_given`; or none, more than a batch holds, or one ask twice.
    """
    body = members(raw, ("answers", "assertion"), required=("answers",), floats=True)
    items = optional(body, "answers", list) or []
    if not 1 <= len(items) <= MOST_IN_BATCH:
        raise Malformed(f"answers are 1 to {MOST_IN_BATCH}", where="body")
    answers = tuple(_item(item) for item in items)
    if len({ask for ask, _ in answers}) != len(answers):
        raise Malformed("answers name one ask twice", where="body")
    return BatchBody(answers, _assertion(body, "assertion"))


def _item(item: object) -> tuple[str, GivenBody]:
    if not isinstance(item, dict):
        raise Malformed("answers must be objects", where="body")
    _only(item, ("ask", *_GIVEN, "idempotency_key"))
    ask = optional(item, "ask", str)
    if ask is None or not ID.fullmatch(ask):
        raise Malformed("answers name their ask by its id", where="body")
    return ask, _given(item)


def _given(body: Mapping[str, Any]) -> GivenBody:
    option, words = optional(body, "option", str), optional(body, "text", str)
    return GivenBody(
        None if option is None else checked(option, "option", MAX_NAME),
        None if words is None else checked(words, "text", MAX_TEXT),
        _binding(body),
        key(body),
    )


def _binding(body: Mapping[str, Any]) -> Binding | None:
    hashes = [optional(body, name, str) for name in _ECHO[:2]]
    version = optional(body, "run_version", int)
    for name, value in zip(_ECHO, hashes, strict=False):
        if value is not None and not _DIGEST.fullmatch(value):
            raise Malformed(f"{name} is sha256: and 64 hex digits", where="body")
    if version is not None and not 0 <= version <= MAX_INTEGER:
        raise Malformed("run_version is a whole number", where="body")
    action, policy = hashes
    return (
        None
        if action is None or policy is None or version is None
        else Binding(Digest(action), Digest(policy), version)
    )


def _assertion(body: Mapping[str, Any], name: str) -> Assertion | None:
    found = optional(body, name, dict)
    if found is None:
        return None
    _only(found, ("ceremony", "credential"))
    ceremony, credential = optional(found, "ceremony", str), optional(found, "credential", dict)
    if ceremony is None or credential is None:
        raise Malformed(f"{name} is a ceremony and a credential", where="body")
    if len(ceremony) > MAX_CEREMONY or not _CEREMONY.fullmatch(ceremony):
        raise Malformed("a ceremony is the id that it was begun with", where="body")
    return Assertion(ceremony, MappingProxyType(credential))


def _only(found: Mapping[str, Any], names: tuple[str, ...]) -> None:
    for name in found:
        if name not in names:
            raise Malformed(f"unknown member {name[:60]!r}; known: {', '.join(names)}", where="body")


def parse_nothing(raw: bytes) -> None:
    """Read the body of a call that takes none, or a fresh assertion beside it.

    Raises:
        Malformed: as `parse_given`.
    """
    if raw:
        _fresh(members(raw, ("fresh",), floats=True))


def _fresh(body: Mapping[str, Any]) -> None:
    """Check the form of `fresh`; it is read where it is verified."""
    _assertion(body, "fresh")


def parse_reasoned(raw: bytes) -> str:
    """Read `{reason?, fresh?}`; no body at all is no reason.

    Raises:
        Malformed: as `parse_given`.
    """
    if not raw:
        return ""
    body = members(raw, ("reason", "fresh"), floats=True)
    _fresh(body)
    return text(body, "reason", MAX_REASON)


def parse_claim(raw: bytes) -> bool:
    """Read the body of `POST /asks/ID/claim`, `{release?}`: whether the ask is given back.

    Raises:
        Malformed: as `parse_given`.
    """
    return optional(members(raw, ("release",)), "release", bool) is True if raw else False


def parse_delegate(raw: bytes) -> str:
    """Read the body of `POST /asks/ID/delegate`, `{to, fresh?}`: a person's name.

    Raises:
        Malformed: as `parse_given`.
    """
    body = members(raw, ("to", "fresh"), required=("to",), floats=True)
    _fresh(body)
    name = text(body, "to", MAX_NAME)
    if not NAME.fullmatch(name):
        raise Malformed("to is a name of the policy", where="body")
    return name


def parse_snooze(raw: bytes) -> int | None:
    """Read the body of `POST /asks/ID/snooze`, `{lasts}`: for how long in ms; None, written null, takes it back.

    Raises:
        Malformed: as `parse_given`.
    """
    body = members(raw, ("lasts",), required=("lasts",))
    lasts = optional(body, "lasts", str)
    return None if lasts is None else parse_duration(lasts, where="lasts")


def parse_hold(raw: bytes) -> HoldBody:
    """Read the body of `POST /asks/ID/hold`, `{lasts, reason?}`. How long a hold may last is the service's to say.

    Raises:
        Malformed: as `parse_given`.
    """
    body = members(raw, ("lasts", "reason"), required=("lasts",))
    lasts = optional(body, "lasts", str)
    if lasts is None:
        raise Malformed("lasts is a duration, as 24h", where="body")
    return HoldBody(parse_duration(lasts, where="lasts"), text(body, "reason", MAX_REASON))


def parse_message(raw: bytes) -> str:
    """Read the body of `POST /agents/SLUG/messages`, `{text}`. Whether it says anything is the service's to judge.

    Raises:
        Malformed: as `parse_given`.
    """
    return text(members(raw, ("text",), required=("text",)), "text", MAX_MESSAGE)


def parse_agent(raw: bytes) -> AgentBody:
    """Read the body of `POST /agents`. That there is such a service is *not* known here.

    Raises:
        Malformed: as `parse_given`.
    """
    body = members(raw, ("slug", "principal", "purpose", "loop", "fresh"), required=("slug", "principal"), floats=True)
    _fresh(body)
    slug, principal = text(body, "slug", MAX_NAME), text(body, "principal", MAX_NAME)
    if not SLUG.fullmatch(slug):
        raise Malformed("slug is a letter, then letters, digits and dashes, all lower-case, at most 63", where="body")
    if not NAME.fullmatch(principal):
        raise Malformed("principal is a name of the policy", where="body")
    purpose = text(body, "purpose", MAX_PURPOSE)
    if not purpose.isprintable():
        raise Malformed("purpose is one printable line", where="body")
    return AgentBody(slug, principal, purpose, optional(body, "loop", bool) is True)
