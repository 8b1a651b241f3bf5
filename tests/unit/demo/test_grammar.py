"""The demo reads what strangers write: requests over HTTP, an agent's files, a broker's answer."""

import contextlib
import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitops_bot.core.errors import Malformed
from gitops_bot.demo.grammar import (
    MAX_ORDER,
    MAX_REQUEST,
    Completion,
    Reply,
    Weights,
    read_agreed,
    read_completion,
    read_order,
    read_reply,
    read_weights,
)
from tests.linear import assert_linear

GOOD = {"model": "m", "prompt": "a b", "max_tokens": 3, "stream": True}


def test_requests_of_both_calls_are_read() -> None:
    """The accepting twin of the refused requests."""
    assert read_completion(json.dumps(GOOD).encode(), chat=False) == Completion("m", ("a", "b"), 3)
    chat = {**GOOD, "messages": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]}
    assert read_completion(json.dumps(chat).encode(), chat=True) == Completion("m", ("a", "b"), 3)


@pytest.mark.parametrize(
    "change",
    [{"stream": False}, {"max_tokens": 0}, {"max_tokens": 10**9}, {"max_tokens": True}, {"prompt": 1}, {"model": ""},
     {"prompt": "\ud800"}],
)  # fmt: skip
def test_other_requests_are_refused(change: dict[str, object]) -> None:
    """Bounded work, whoever asks."""
    with pytest.raises(Malformed, match="request"):
        read_completion(json.dumps({**GOOD, **change}).encode(), chat=False)


def test_weights_are_read() -> None:
    """The accepting twin of the refused weights."""
    assert read_weights(b'{"load": 1, "prefix": -0.5}') == Weights(1.0, -0.5)


@pytest.mark.parametrize(
    "data",
    [b"", b"{}", b'{"load":1}', b'{"load":1,"prefix":2,"more":3}', b'{"load":NaN,"prefix":1}', b"[" * 9000,
     b'{"load":1e999,"prefix":1}', b'{"load":true,"prefix":1}', b'{"load":"1","prefix":1}',
     b'{"load":' + b"9" * 4000 + b',"prefix":1}', b'{"load":1001,"prefix":1}', b'{"load":1,"load":1,"prefix":1}'],
)  # fmt: skip
def test_other_weights_are_refused(data: bytes) -> None:
    """A picker that an agent filled with anything has no score."""
    with pytest.raises(Malformed, match="picker"):
        read_weights(data)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "model",
                    "prompt",
                    "messages",
                    "content",
                    "stream",
                    "load",
                    "prefix",
                    "status",
                    "key",
                    "protocol",
                    "action",
                ]
            ),
            inner,
        )
    ),
    max_leaves=8,
)


def test_answers_of_a_broker_are_read() -> None:
    """What its tool gave, the words of a refusal on one line, and the revision that was agreed on."""
    given_ = {"result": {"structuredContent": {"status": "hit", "handle": "01h", "knobs": {"a": 1.5}}}}
    assert read_reply(json.dumps(given_).encode()) == Reply("hit", "01h", "")
    no = {"result": {"isError": True, "content": [{"type": "text", "text": "rate_limited:\nLater.\x1b"}]}}
    assert read_reply(json.dumps(no).encode()) == "rate_limited: Later. "
    assert read_reply(b'{"error":{"code":-32602,"message":"No such tool."}}') == "No such tool."
    assert read_agreed(b'{"result":{"protocolVersion":"2025-11-25"}}') == "2025-11-25"


@pytest.mark.parametrize(
    "data",
    [b"", b"[]", b"{}", b'{"result":1}', b'{"result":{}}', b'{"result":{"structuredContent":{}}}',
     b'{"result":{"structuredContent":{"status":7}}}', b'{"result":{"structuredContent":{"status":"hit","handle":7}}}',
     b'{"result":{"isError":true}}', b'{"result":{"isError":true,"content":[7]}}', b'{"error":{}}',
     b'{"result":{"structuredContent":{"status":"' + b"x" * 20_000 + b'"}}}'],
)  # fmt: skip
def test_other_answers_are_refused(data: bytes) -> None:
    """An agent acts on no half answer."""
    for read in (read_reply, read_agreed):
        with pytest.raises(Malformed, match="answer"):
            read(data)


@given(st.binary(max_size=200) | json_values.map(lambda value: json.dumps(value).encode()))
def test_nothing_but_malformed_leaves(data: bytes) -> None:
    """I20: whatever bytes arrive."""
    readers: list[Callable[[bytes], object]] = [
        read_weights,
        read_agreed,
        read_reply,
        read_order,
        lambda body: read_completion(body, chat=False),
        lambda body: read_completion(body, chat=True),
    ]
    for read in readers:
        with contextlib.suppress(Malformed):
            read(data)


@pytest.mark.parametrize("unit", ["a ", "\\u00e4"])
def test_a_request_costs_linear_time(unit: str) -> None:
    """At the size cap, four times the bytes cost about four times the work."""

    def build(size: int) -> Callable[[], object]:
        prompt = unit * ((size - 100) // len(unit))
        body = ('{"model":"m","stream":true,"max_tokens":1,"prompt":"' + prompt + '"}').encode()
        return lambda: read_completion(body, chat=False)

    assert_linear(build, MAX_REQUEST)


def test_an_order_costs_linear_time() -> None:
    """At the size cap, four times the bytes cost about four times the work."""

    def build(size: int) -> Callable[[], object]:
        body = ('{"protocol":"gitops-bot/execution/v1","key":"k","action":{"a":"' + "a" * (size - 100) + '"}}').encode()

        def read() -> object:
            with contextlib.suppress(Malformed):
                return read_order(body)
            return None

        return read

    assert_linear(build, MAX_ORDER)
