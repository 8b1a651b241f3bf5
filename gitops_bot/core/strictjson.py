"""Untrusted JSON is read strictly: no key twice, no float unless allowed, no NaN, no half surrogate pair, bounded size
and depth."""

import json
import math
from typing import Any, Final, NoReturn

from gitops_bot.core.errors import Malformed
from gitops_bot.core.texts import is_storable

MAX_BYTES: Final = 65_536
MAX_NESTING: Final = 32


def loads(raw: bytes, *, limit: int = MAX_BYTES, floats: bool = False, where: str = "JSON") -> Any:
    """Read one JSON document of at most `limit` bytes of UTF-8.

    Raises:
        Malformed: not JSON, too large, nested too deep, a key twice, a float where none is allowed, NaN or infinity
            (a float too large for a double included), half a surrogate pair.
    """
    if len(raw) > limit:
        raise Malformed(f"larger than {limit} bytes", where=where)
    # Depth is bounded before parsing: the parser recurses.
    if _nesting(raw) > MAX_NESTING:
        raise Malformed(f"nested deeper than {MAX_NESTING}", where=where)

    def no_float(text: str) -> NoReturn:
        raise Malformed(f"the float {text[:40]}; write decimals as strings", where=where)

    def no_constant(text: str) -> NoReturn:
        raise Malformed(f"{text} is no JSON", where=where)

    def number(text: str) -> float:
        found = float(text)
        if not math.isfinite(found):
            raise Malformed(f"the float {text[:40]} is beyond a double", where=where)
        return found

    def integer(text: str) -> int:
        if len(text) > 20:
            raise Malformed("an integer beyond ±(2^53−1)", where=where)
        return int(text)

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                raise Malformed(f"the key {key[:60]!r} twice", where=where)
            found[key] = value
        return found

    try:
        found = json.loads(
            raw.decode("utf-8"),
            object_pairs_hook=unique,
            parse_float=number if floats else no_float,
            parse_constant=no_constant,
            parse_int=integer,
        )
    except UnicodeDecodeError:
        raise Malformed("not UTF-8", where=where) from None
    except ValueError as error:
        raise Malformed(f"not JSON: {str(error)[:120]}", where=where) from None
    # UTF-8 holds no surrogate, but an escape may name one (RFC 8259 section 8.2); nothing could store or hash it.
    if b"\\u" in raw and not is_storable(json.dumps(found, ensure_ascii=False)):
        raise Malformed("half a surrogate pair", where=where)
    return found


def _nesting(raw: bytes) -> int:
    """Count the deepest nesting of brackets outside strings, in one pass."""
    depth = deepest = 0
    in_string = escaped = False
    for byte in raw:
        if in_string:
            if escaped:
                escaped = False
            elif byte == 0x5C:
                escaped = True
            elif byte == 0x22:
                in_string = False
        elif byte == 0x22:
            in_string = True
        elif byte in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif byte in b"]}":
            depth -= 1
    return deepest


def load_object(raw: bytes, *, limit: int = MAX_BYTES, floats: bool = False, where: str = "JSON") -> dict[str, Any]:
    """Read one JSON object, as `loads`."""
    found = loads(raw, limit=limit, floats=floats, where=where)
    if not isinstance(found, dict):
        raise Malformed("not a JSON object", where=where)
    return found
