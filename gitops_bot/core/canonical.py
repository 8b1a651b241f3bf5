"""Values have one canonical form here, and everything that binds a decision is a digest over it.

RFC 8785 (JSON Canonicalization Scheme) over the value types that an action may hold. Floats and integers beyond
±(2^53−1) are refused, strings are kept as they are (no Unicode normalisation), lone surrogates are refused, keys are
sorted by UTF-16 code units (RFC 8785 section 3.2.3). Reading untrusted text as JSON is the grammars' work; this module
checks values only.
"""

import hashlib
from collections.abc import Mapping, Sequence
from json.encoder import encode_basestring
from typing import Any, Final, NewType, cast

from gitops_bot.core.errors import Malformed

Digest = NewType("Digest", str)
"""`sha256:` and 64 lower-case hex digits."""

Value = str | int | bool | None | Sequence["Value"] | Mapping[str, "Value"]

MAX_INTEGER: Final = 2**53 - 1
MAX_DEPTH: Final = 32


def canonical(value: object) -> bytes:
    """Give the RFC 8785 bytes of a value.

    Raises:
        Malformed: a float, an integer beyond ±(2^53−1), a lone surrogate, a key that is no string, another type, or
            nesting deeper than `MAX_DEPTH`.
    """
    try:
        return _text(value, 0).encode("utf-8")
    except UnicodeEncodeError:
        raise Malformed("a lone surrogate in a string") from None


def _text(value: object, depth: int) -> str:
    if depth > MAX_DEPTH:
        raise Malformed(f"nested deeper than {MAX_DEPTH}")
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return _string(value)
        case int():
            if not -MAX_INTEGER <= value <= MAX_INTEGER:
                raise Malformed("an integer beyond ±(2^53−1); write it as a string")
            return str(int(value))
        case float():
            raise Malformed("a float; write decimals as strings")
        case Mapping():
            items = cast("Mapping[object, object]", value)
            if not all(isinstance(key, str) for key in items):
                raise Malformed("a key that is no string")
            # Sorting by UTF-16 code units, not code points: they differ above U+FFFF.
            keys = sorted(cast("Mapping[str, object]", value), key=_utf16)
            pairs = (f"{_string(key)}:{_text(items[key], depth + 1)}" for key in keys)
            return "{" + ",".join(pairs) + "}"
        case list() | tuple():
            return "[" + ",".join(_text(item, depth + 1) for item in cast("Sequence[object]", value)) + "]"
        case _:
            raise Malformed(f"a value of type {type(value).__name__}")


def _utf16(key: str) -> bytes:
    try:
        return key.encode("utf-16-be")
    except UnicodeEncodeError:
        raise Malformed("a lone surrogate in a key") from None


def _string(value: str) -> str:
    # The standard library escapes exactly the set of RFC 8785 section 3.2.2.2: \b \t \n \f \r \" \\ and \u00xx.
    return encode_basestring(value)


def digest(tag: str, payload: bytes) -> Digest:
    """Hash payload bytes under a tag: SHA-256 over the tag, one zero byte, the payload."""
    return Digest("sha256:" + hashlib.sha256(tag.encode("ascii") + b"\x00" + payload).hexdigest())


def action_bytes(repository: str, environment: str, verb: str, params: Mapping[str, Any]) -> bytes:
    """Give the canonical bytes of an action: `{"domain":{"environment","repository"},"params","verb"}`.

    Raises:
        Malformed: as `canonical`; or params are no mapping.
    """
    if not isinstance(params, Mapping):
        raise Malformed("params must be an object")
    domain = {"environment": environment, "repository": repository}
    return canonical({"domain": domain, "params": params, "verb": verb})


def action_hash(action: bytes) -> Digest:
    """Hash an action's canonical bytes (tag `gitops-bot/action/v1`, design/domain.md)."""
    return digest("gitops-bot/action/v1", action)


def question_hash(text: str, options: Sequence[tuple[str, str]]) -> Digest:
    """Hash a plain question: its text and its options as (id, label) pairs (tag `gitops-bot/question/v1`)."""
    offered = [{"id": option_id, "label": label} for option_id, label in options]
    return digest("gitops-bot/question/v1", canonical({"options": offered, "text": text}))


def bundle_digest(files: Mapping[str, bytes]) -> Digest:
    """Hash a policy bundle: for each file in byte order of its path: path, zero, length in decimal, zero, bytes.

    `files` maps paths relative to the bundle's folder, with forward slashes, to their bytes.
    """
    parts: list[bytes] = []
    for path, content in sorted((path.encode("utf-8"), content) for path, content in files.items()):
        parts += [path, b"\x00", str(len(content)).encode("ascii"), b"\x00", content]
    return digest("gitops-bot/policy-bundle/v1", b"".join(parts))


def text_digest(text: str) -> Digest:
    """Hash a text's UTF-8 without a tag, as `text_hash` of a verdict's statement has it (vectors/verdict.json)."""
    return Digest("sha256:" + hashlib.sha256(text.encode("utf-8")).hexdigest())
