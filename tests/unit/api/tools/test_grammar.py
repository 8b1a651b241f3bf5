"""What comes in with a call of a tool is read strictly, and nothing but a typed error leaves."""

import contextlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitops_bot.api.tools.grammar import MAX_MESSAGE, message, parse_id, parse_request, parse_trace
from gitops_bot.core.errors import Malformed
from tests.linear import assert_linear

ID = "01arz3ndektsv4rrffq69g5fav"
REGIME: dict[str, Any] = {
    "model": "m", "concurrency": 1, "prefixes": 1, "max_tokens": 1, "long_tokens": 0, "long_frac": 0.25,
}  # fmt: skip
READERS: list[Callable[[bytes], object]] = [message, parse_trace, parse_request, lambda raw: parse_id(raw, "ask")]


def sent(value: object) -> bytes:
    return json.dumps(value).encode()


def test_what_fits_is_read() -> None:
    """The twin of all refusals here."""
    assert parse_trace(sent(REGIME)).regime.trace_id == "model=m;c=1;p=1;mt=1;lt=0;lf=0.2500"
    verb, body = parse_request(sent({"verb": "release.cut", "params": {"version": "1"}}))
    assert (verb, dict(body.params), body.why, body.idempotency_key) == ("release.cut", {"version": "1"}, "", None)
    assert parse_id(sent({"ask": ID}), "ask") == ID
    assert message(sent({"jsonrpc": "2.0", "id": 0.5}))["id"] == 0.5


@pytest.mark.parametrize(
    ("read", "value"),
    [
        (parse_trace, {**REGIME, "why": "x"}),
        (parse_trace, {name: REGIME[name] for name in REGIME if name != "model"}),
        (parse_trace, {**REGIME, "concurrency": True}),
        (parse_request, {"verb": "", "params": {}}),
        (parse_request, {"verb": "v" * 65, "params": {}}),
        (parse_request, {"verb": "v", "params": None}),
        (parse_request, {"verb": "v", "params": {"x": 0.5}}),
        (parse_request, {"verb": "v", "params": {}, "why": "x"}),
        (READERS[3], {"ask": ID.upper()}),
        (READERS[3], {"handle": ID}),
        (READERS[3], {"ask": ID, "more": 1}),
        (message, [{}]),
        (message, "x" * MAX_MESSAGE),
    ],
)
def test_anything_else_is_malformed(read: Callable[[bytes], object], value: object) -> None:
    """Each member by its type and size, and no other."""
    with pytest.raises(Malformed):
        read(sent(value))


@given(st.binary(max_size=200) | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(sent))
def test_nothing_but_its_typed_error_leaves(raw: bytes) -> None:
    """Whatever bytes come."""
    for read in READERS:
        with contextlib.suppress(Malformed):
            read(raw)


@pytest.mark.parametrize("read", READERS, ids=["message", "trace", "request", "id"])
@pytest.mark.parametrize("part", [b"\\\\", b"[]", b'"a",', b"0"], ids=["escapes", "brackets", "strings", "digits"])
def test_the_cost_is_linear_in_the_length(read: Callable[[bytes], object], part: bytes) -> None:
    """At its size cap."""

    def build(size: int) -> Callable[[], object]:
        raw = b'{"verb":"v","params":{"x":["' + part * (size // len(part)) + b'"]}}'
        return lambda: _try(read, raw)

    assert_linear(build, 60_000)


def _try(read: Callable[[bytes], object], raw: bytes) -> None:
    with contextlib.suppress(Malformed):
        read(raw)
