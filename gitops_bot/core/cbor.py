"""The CBOR that an authenticator may send, read strictly and at a cost that its length bounds.

The types of CTAP2 (section 8, "Message Encoding") only: integers, byte and text strings, arrays, maps, booleans, null,
each of definite length. No tag, no float, no key twice, nothing nested deeper than `MAX_DEPTH`. A reader that knows
tags can be told by a few bytes to build values of any size; nothing is given to one before it was read here.
"""

from typing import Final

from gitops_bot.core.errors import Malformed

Item = int | bytes | str | bool | None | list["Item"] | dict[int | str, "Item"]

MAX_DEPTH: Final = 8
_SIMPLE: Final = {20: False, 21: True, 22: None}
_TEXT: Final = 3
_TAG: Final = 6


def read(raw: bytes, at: int = 0) -> tuple[Item, int]:
    """Read one item from a place; give it and the place after it.

    Raises:
        Malformed: what is there is none, or of a kind that is not accepted.
    """
    return _item(raw, at, 0)


def loads(raw: bytes) -> Item:
    """Read bytes that are exactly one item.

    Raises:
        Malformed: as `read`, or something follows it.
    """
    item, end = read(raw)
    if end != len(raw):
        raise Malformed("something follows the CBOR item")
    return item


def _item(raw: bytes, at: int, depth: int) -> tuple[Item, int]:
    if depth > MAX_DEPTH:
        raise Malformed(f"CBOR nested deeper than {MAX_DEPTH}")
    if at >= len(raw):
        raise Malformed("CBOR that ends too early")
    kind, small = raw[at] >> 5, raw[at] & 0x1F
    at += 1
    if kind > _TAG:
        if small not in _SIMPLE:
            raise Malformed("a CBOR value of a kind that is not accepted")
        return _SIMPLE[small], at
    number, at = _number(raw, at, small)
    match kind:  # the major types of RFC 8949, section 3.1
        case 0:
            return number, at
        case 1:
            return -1 - number, at
        case 2 | 3:
            return _string(raw, at, number, text=kind == _TEXT)
        case 4:
            return _array(raw, at, number, depth)
        case 5:
            return _map(raw, at, number, depth)
        case _:
            raise Malformed("a CBOR tag")


def _number(raw: bytes, at: int, small: int) -> tuple[int, int]:
    if small < 24:
        return small, at
    if small > 27:
        raise Malformed("CBOR of indefinite length, or a reserved one")
    end = at + (1 << (small - 24))
    if end > len(raw):
        raise Malformed("CBOR that ends too early")
    return int.from_bytes(raw[at:end], "big"), end


def _string(raw: bytes, at: int, length: int, *, text: bool) -> tuple[Item, int]:
    end = at + length
    if end > len(raw):
        raise Malformed("CBOR that ends too early")
    if not text:
        return raw[at:end], end
    try:
        return raw[at:end].decode("utf-8"), end
    except UnicodeDecodeError:
        raise Malformed("CBOR text that is not UTF-8") from None


def _array(raw: bytes, at: int, length: int, depth: int) -> tuple[Item, int]:
    if length > len(raw) - at:
        raise Malformed("CBOR that ends too early")
    items: list[Item] = []
    for _ in range(length):
        item, at = _item(raw, at, depth + 1)
        items.append(item)
    return items, at


def _map(raw: bytes, at: int, length: int, depth: int) -> tuple[Item, int]:
    if 2 * length > len(raw) - at:
        raise Malformed("CBOR that ends too early")
    found: dict[int | str, Item] = {}
    for _ in range(length):
        key, at = _item(raw, at, depth + 1)
        if isinstance(key, bool) or not isinstance(key, int | str) or key in found:
            raise Malformed("a CBOR key that is neither a number nor a text, or is there twice")
        found[key], at = _item(raw, at, depth + 1)
    return found, at
