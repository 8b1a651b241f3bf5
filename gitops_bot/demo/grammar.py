"""Bytes become the demo's values: a completion request, a picker's weights, a broker's answer, an order to pay.

Whatever arrives, only `Malformed` leaves here, at a cost linear in its length.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gitops_bot.core.canonical import action_hash, canonical
from gitops_bot.core.errors import Malformed
from gitops_bot.core.executions import CHECK_PROTOCOL, PROTOCOL
from gitops_bot.core.strictjson import load_object

MAX_REQUEST: Final = 1024 * 1024
MAX_TOKENS: Final = 512
MAX_FILE: Final = 16 * 1024
MAX_WEIGHT: Final = 1000.0
MAX_ORDER: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Completion:
    """A streamed completion as it was asked for; a word of the prompt is a token."""

    model: str
    prompt: tuple[str, ...]
    max_tokens: int


@dataclass(frozen=True, slots=True)
class Weights:
    """How much a picker minds a replica's load, and how much it likes a warm prefix; each within ±`MAX_WEIGHT`."""

    load: float
    prefix: float


@dataclass(frozen=True, slots=True)
class Reply:
    """What a broker answered to a request for a trace."""

    status: str
    handle: str
    reason: str


@dataclass(frozen=True, slots=True)
class Order:
    """What a payee was sent: the key of this one execution, and the action's canonical bytes; None is a check, which
    asks for nothing to be done. What hash the sender named is the hash of these bytes."""

    key: str
    action: bytes | None
    action_hash: str


def read_completion(data: bytes, *, chat: bool) -> Completion:
    """Read the body of a streamed completion, or of a chat whose messages hold plain text.

    Raises:
        Malformed: no such request.
    """
    value = load_object(data, limit=MAX_REQUEST, floats=True, where="request")
    if value.get("stream") is not True:
        raise Malformed("only streams are served here", where="request")
    limit = value.get("max_tokens", 16)
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MAX_TOKENS:
        raise Malformed(f"max_tokens must be from 1 to {MAX_TOKENS}", where="request")
    prompt = _messages(value.get("messages")) if chat else value.get("prompt")
    if not isinstance(prompt, str):
        raise Malformed("prompt must be a string", where="request")
    if any("\ud800" <= character <= "\udfff" for character in prompt):
        raise Malformed("prompt holds a lone surrogate", where="request")
    return Completion(_word(value, "model", "request"), tuple(prompt.split()), limit)


def read_weights(data: bytes) -> Weights:
    """Read `picker.json`: `{"load": number, "prefix": number}`, and nothing else in it.

    Raises:
        Malformed: no such file; it is an agent's, so it may hold anything.
    """
    value = load_object(data, limit=MAX_FILE, floats=True, where="picker.json")
    if sorted(value) != ["load", "prefix"]:
        raise Malformed("must have exactly the members load and prefix", where="picker.json")
    return Weights(_weight(value["load"]), _weight(value["prefix"]))


def read_agreed(data: bytes) -> str:
    """Read the revision of the protocol that the answer to `initialize` names.

    Raises:
        Malformed: no such answer, an error among them.
    """
    result = load_object(data, limit=MAX_FILE, floats=True, where="answer").get("result")
    return _word(result if isinstance(result, dict) else {}, "protocolVersion", "answer")


def read_reply(data: bytes) -> Reply | str:
    """Read the answer to a call of the tool `request_trace` (JSON-RPC 2.0): what it gave, or the words of a refusal.

    Raises:
        Malformed: no such answer.
    """
    value = load_object(data, limit=MAX_FILE, floats=True, where="answer")
    error, result = value.get("error"), value.get("result")
    if isinstance(error, dict):
        return _line(_word(error, "message", "answer"))
    if not isinstance(result, dict):
        raise Malformed("result must be an object", where="answer")
    if result.get("isError") is True:
        content = result.get("content")
        first = content[0] if isinstance(content, list) and content else None
        return _line(_word(first if isinstance(first, dict) else {}, "text", "answer"))
    given = result.get("structuredContent")
    if not isinstance(given, dict):
        raise Malformed("structuredContent must be an object", where="answer")
    optional = {name: given.get(name) or "" for name in ("handle", "reason")}
    return Reply(
        _word(given, "status", "answer"),
        _word(optional, "handle", "answer", empty=True),
        _word(optional, "reason", "answer", empty=True),
    )


def read_order(data: bytes) -> Order:
    """Read what an executor sends (docs/executors.md), and compute the action's hash again.

    Raises:
        Malformed: no such body, another protocol, or a hash that is not the action's.
    """
    value = load_object(data, limit=MAX_ORDER, where="order")
    key = _word(value, "key", "order")
    if value.get("protocol") == CHECK_PROTOCOL:
        return Order(key, None, "")
    if value.get("protocol") != PROTOCOL or not isinstance(value.get("action"), dict):
        raise Malformed("an unknown protocol", where="order")
    action = canonical(value["action"])
    if value.get("action_hash") != action_hash(action):
        raise Malformed("the hash is another action's", where="order")
    return Order(key, action, action_hash(action))


def _word(members: Mapping[str, object], name: str, where: str, *, empty: bool = False) -> str:
    text = members.get(name)
    if not isinstance(text, str) or len(text) > 1000 or not (text or empty):
        raise Malformed(f"{name} must be a string of up to 1000 characters", where=where)
    return text


def _line(text: str) -> str:
    """Put words of somebody else's on one line that a terminal takes as it is."""
    return "".join(character if character.isprintable() else " " for character in text)


def _weight(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Malformed("a weight must be a number", where="picker.json")
    # Compared before it becomes a float: an integer may be too large for one.
    if not -MAX_WEIGHT <= value <= MAX_WEIGHT or not math.isfinite(value):
        raise Malformed(f"a weight must lie within ±{MAX_WEIGHT:g}", where="picker.json")
    return float(value)


def _messages(messages: object) -> str:
    if not isinstance(messages, list) or not messages:
        raise Malformed("messages must be a list", where="request")
    texts: list[str] = []
    for message in messages:
        content = message.get("content") if isinstance(message, dict) else None
        if not isinstance(content, str):
            raise Malformed("a message's content must be a string", where="request")
        texts.append(content)
    return "\n".join(texts)
