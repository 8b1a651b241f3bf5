"""A call of one of the broker's tools is read strictly: each member by name, type and size, and no other.

`message` reads the frame that a call comes in (JSON-RPC 2.0) and leaves its meaning to the protocol's own library; the
rest read the arguments of one tool each. Whatever arrives, only `Malformed` leaves here, at a cost linear in length.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from gitops_bot.api.grammar import ID, CaptureBody, VerbBody
from gitops_bot.api.members import MAX_BODY, members
from gitops_bot.core.captures import regime
from gitops_bot.core.errors import Malformed
from gitops_bot.core.strictjson import load_object

MAX_MESSAGE: Final = MAX_BODY + 4_096
"""Bytes of a frame: the largest arguments, and what is around them."""
MAX_VERB: Final = 64
REGIME: Final = ("model", "concurrency", "prefixes", "max_tokens", "long_tokens", "long_frac")


def message(raw: bytes) -> Mapping[str, Any]:
    """Read a frame: one object, never a batch.

    Raises:
        Malformed: no JSON object, too large, nested too deep, a key twice, a number beyond a double.
    """
    return load_object(raw, limit=MAX_MESSAGE, floats=True, where="message")


def parse_trace(raw: bytes) -> CaptureBody:
    """Read the arguments of `request_trace`: a regime, all six parts of it.

    Raises:
        Malformed: another member, one missing, or no regime that a trace id can name.
    """
    body = members(raw, REGIME, required=REGIME, floats=True)
    return CaptureBody(regime(*(body[name] for name in REGIME)), "", "block", None)


def parse_request(raw: bytes) -> tuple[str, VerbBody]:
    """Read the arguments of `request_verb`: a verb's name and its parameters, an object without a float.

    Raises:
        Malformed: another member, one missing or of another type.
    """
    names = ("verb", "params")
    body = members(raw, names, required=names)
    verb, params = body["verb"], body["params"]
    if not isinstance(verb, str) or not 0 < len(verb) <= MAX_VERB or "\x00" in verb:
        raise Malformed(f"verb must be a name of up to {MAX_VERB} characters", where="body")
    if not isinstance(params, dict):
        raise Malformed("params must be an object", where="body")
    return verb, VerbBody(MappingProxyType(params), "", None, None)


def parse_id(raw: bytes, name: str) -> str:
    """Read the arguments of a look at one thing: its id, under this name, and nothing else.

    Raises:
        Malformed: another member, none of that name, or no id.
    """
    found = members(raw, (name,), required=(name,))[name]
    if not isinstance(found, str) or not ID.fullmatch(found):
        raise Malformed(f"{name} is 26 characters of an id, as it was answered", where="body")
    return found
