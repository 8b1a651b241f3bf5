"""CBOR is read as a reader that knows it does, and what could be told to grow or to act is refused (I20)."""

from collections.abc import Callable
from typing import Any

import cbor2
import pytest
from hypothesis import given, strategies

from gitops_bot.core.cbor import MAX_DEPTH, loads, read
from gitops_bot.core.errors import Malformed
from tests.linear import assert_linear

NUMBERS = strategies.integers(-(2**64), 2**64 - 1)
KEYS = strategies.integers(-300, 300) | strategies.text(max_size=6)
ITEMS = strategies.recursive(
    NUMBERS
    | strategies.none()
    | strategies.booleans()
    | strategies.binary(max_size=300)
    | strategies.text(max_size=40),
    lambda inner: strategies.lists(inner, max_size=4) | strategies.dictionaries(KEYS, inner, max_size=4),
    max_leaves=10,
)


def nested(depth: int) -> bytes:
    return b"\x81" * depth + b"\x00"


@given(ITEMS)
def test_what_another_program_writes_is_read_as_it_was(item: Any) -> None:
    written = cbor2.dumps(item)
    try:
        assert loads(written) == item
    except Malformed as error:
        assert "nested deeper" in error.message


@given(strategies.binary(max_size=60))
def test_nothing_but_its_error_leaves_it_and_it_never_says_what_another_denies(raw: bytes) -> None:
    try:
        item = loads(raw)
    except Malformed:
        return
    assert cbor2.loads(raw, allow_duplicate_keys=False) == item


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\x18",
        b"\x19\x01",
        b"\x1c",
        b"\x42a",
        b"\x61\xff",
        b"\x5f\x41a\xff",
        b"\x9f\x00\xff",
        b"\xbf\xff",
        b"\xf9\x3c\x00",
        b"\xfb" + b"\x00" * 8,
        b"\xf7",
        b"\xf8\x20",
        b"\xff",
        b"\x00\x00",
        b"\xa2\x01\x00\x01\x00",
        b"\xa1\x40\x00",
        b"\xa1\xf5\x00",
        b"\xa1\x80\x00",
        b"\x9b" + b"\xff" * 8,
        b"\x5b" + b"\xff" * 8,
        b"\xbb" + b"\x7f" * 8,
        b"\xc0\x60",
        b"\xc2\x41\x01",
        b"\xd8\x1c\x81\x00",
        b"\xd8\x1d\x00",
        b"\xd8\x23\x61(",
        nested(MAX_DEPTH + 1),
        nested(50_000),
    ],
    ids=lambda raw: raw[:9].hex() or "empty",
)
def test_what_is_not_accepted_is_refused(raw: bytes) -> None:
    with pytest.raises(Malformed):
        loads(raw)


def test_what_is_accepted_next_to_it() -> None:
    assert loads(nested(MAX_DEPTH)) == [[[[[[[[0]]]]]]]]
    assert loads(b"\xa2\x01\x00\x20\xf6") == {1: 0, -1: None}
    assert read(b"\xff\x18\x2a\x00", 1) == (42, 3)


def test_references_that_double_are_not_followed() -> None:
    """A shared value (tag 28) that is referred to twice at each level grows as a power of the depth when written."""
    shared: list[Any] = []
    for _ in range(40):
        shared = [shared, shared]
    with pytest.raises(Malformed):
        loads(cbor2.dumps(shared, value_sharing=True))


def test_reading_takes_linear_time() -> None:
    shapes: list[Callable[[int], bytes]] = [
        lambda size: b"\x9a" + size.to_bytes(4, "big") + b"\x00" * size,
        lambda size: cbor2.dumps(dict.fromkeys(range(size // 4), b"")),
        lambda size: b"\x5a" + size.to_bytes(4, "big") + b"\x00" * size,
    ]
    for shape in shapes:

        def build(size: int, shape: Callable[[int], bytes] = shape) -> Callable[[], object]:
            raw = shape(size)
            return lambda: loads(raw)

        assert_linear(build, 65_536)
