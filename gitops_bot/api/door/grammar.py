"""Bodies of the door as values: signing in, keys, shells, sessions, preferences. What a credential proves is not judged
here; it is an object of bounded size that the service verifies."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from gitops_bot.api.members import MAX_BODY, checked, members, optional, text
from gitops_bot.core.canonical import MAX_INTEGER
from gitops_bot.core.errors import Malformed
from gitops_bot.core.strictjson import load_object

MAX_LABEL: Final = 60
MAX_CODE: Final = 64
MAX_CEREMONY: Final = 128
MAX_SECRET: Final = 200
MAX_PROVIDED: Final = 4_096
FRESH: Final = "fresh"
"""The member that confirms an act with a passkey; any body of an act may hold it."""
_WORD: Final = re.compile(r"[A-Za-z0-9._~-]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Finish:
    """What ends a ceremony: its id, and the credential as WebAuthn writes it in JSON."""

    ceremony: str
    credential: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Enrol:
    """What begins an enrolment: the code from the host, and what the person calls the key."""

    code: str
    label: str


@dataclass(frozen=True, slots=True)
class Provided:
    """What an OpenID provider sent a browser back with."""

    code: str
    state: str


def parse_nothing(raw: bytes) -> None:
    """Read a body that has nothing to say: none, or an empty object.

    Raises:
        Malformed: it says something.
    """
    if raw:
        members(raw, ())


def parse_finish(raw: bytes) -> Finish:
    """Read the end of a ceremony.

    Raises:
        Malformed: no JSON object, an unknown or missing member, a wrong type or size.
    """
    return _finish(members(raw, ("ceremony", "credential"), required=("ceremony", "credential"), floats=True))


def _finish(body: Mapping[str, Any]) -> Finish:
    credential = optional(body, "credential", dict)
    if credential is None:
        raise Malformed("credential must be an object", where="body")
    return Finish(_word(body, "ceremony", MAX_CEREMONY), MappingProxyType(credential))


def parse_enrol(raw: bytes) -> Enrol:
    """Read the begin of an enrolment, as `parse_finish`."""
    body = members(raw, ("code", "label"), required=("code",))
    return Enrol(text(body, "code", MAX_CODE).strip(), _label(body))


def parse_label(raw: bytes) -> str:
    """Read what a person calls a new key or a shell, as `parse_finish`."""
    return _label(members(raw, ("label", FRESH), floats=True))


def parse_waiting(raw: bytes) -> str:
    """Read what somebody calls a shell that waits to be let in, as `parse_finish`; nobody confirms that yet."""
    return _label(members(raw, ("label",)))


def parse_act(raw: bytes) -> Mapping[str, Any]:
    """Read the act that somebody wants to confirm, as `parse_finish`: an object without a float."""
    act = optional(members(raw, ("act",), required=("act",)), "act", dict)
    if not act:
        raise Malformed("act must be an object that says something", where="body")
    return MappingProxyType(act)


def parse_confirming(raw: bytes) -> None:
    """Read the body of an act that says nothing but `fresh`, as `parse_finish`."""
    if raw:
        members(raw, (FRESH,), floats=True)


def parse_fresh(raw: bytes) -> Finish | None:
    """Take `{"fresh": {"ceremony", "credential"}}` out of the body of any act; None when there is no such member.

    Raises:
        Malformed: as `parse_finish`.
    """
    body = load_object(raw, limit=MAX_BODY, floats=True, where="body") if raw else {}
    given = optional(body, FRESH, dict)
    if given is None:
        return None
    if set(given) != {"ceremony", "credential"}:
        raise Malformed("fresh holds ceremony and credential", where="body")
    return _finish(given)


def parse_shell(raw: bytes) -> str:
    """Read the code of a shell that is to be confirmed, as `parse_finish`."""
    return text(members(raw, ("code", FRESH), required=("code",), floats=True), "code", MAX_CODE).strip()


def parse_take(raw: bytes) -> str:
    """Read what a waiting shell keeps, as `parse_finish`."""
    return _word(members(raw, ("secret",), required=("secret",)), "secret", MAX_SECRET)


def parse_preferences(raw: bytes) -> bool:
    """Read whether single keys act on a page, as `parse_finish`."""
    found = optional(members(raw, ("single_keys",), required=("single_keys",)), "single_keys", bool)
    if found is None:
        raise Malformed("single_keys is true or false", where="body")
    return found


def parse_read(raw: bytes) -> int:
    """Read up to which notice a person has read, as `parse_finish`."""
    found = optional(members(raw, ("upto",), required=("upto",)), "upto", int)
    if found is None or not 0 <= found <= MAX_INTEGER:
        raise Malformed("upto is the number of a notice", where="body")
    return found


def parse_provided(raw: bytes) -> Provided:
    """Read what a provider answered, as `parse_finish`."""
    body = members(raw, ("code", "state"), required=("code", "state"))
    code = text(body, "code", MAX_PROVIDED)
    if not (code.isascii() and code.isprintable()) or not code:
        raise Malformed("code is printable ASCII", where="body")
    return Provided(code, _word(body, "state", MAX_PROVIDED))


def _label(body: Mapping[str, Any]) -> str:
    return checked(" ".join((optional(body, "label", str) or "").split()), "label", MAX_LABEL)


def _word(body: Mapping[str, Any], name: str, most: int) -> str:
    found = text(body, name, most)
    if not _WORD.fullmatch(found):
        raise Malformed(f"{name} is letters, digits and . _ ~ -", where="body")
    return found
