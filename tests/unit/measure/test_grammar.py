"""What the capture program reads: the regime, the address, and an endpoint's stream, which may hold anything."""

import contextlib
import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitops_bot.core.captures import Regime
from gitops_bot.core.errors import Malformed
from gitops_bot.measure.grammar import (
    MAX_LINE,
    MAX_REGIME,
    Event,
    Usage,
    parse_endpoint,
    read_line,
    read_regime,
)
from tests.linear import assert_linear

REGIME = Regime("Qwen/Qwen3-0.6B", 48, 8, 8, 0, "0.0000")


def test_a_regime_comes_back_as_it_was_handed_over() -> None:
    """The accepting twin: exactly the members of `Regime.params()`."""
    assert read_regime(json.dumps(REGIME.params()).encode()) == REGIME


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b"\xff",
        b"[" * 4000,
        json.dumps({**REGIME.params(), "more": 1}).encode(),
        json.dumps({**REGIME.params(), "concurrency": True}).encode(),
        json.dumps({**REGIME.params(), "model": "../x"}).encode(),
        b'{"model":"a","model":"a","concurrency":1,"prefixes":1,"max_tokens":1,"long_tokens":0,"long_frac":"0.0000"}',
        json.dumps(REGIME.params()).encode() + b" " * MAX_REGIME,
    ],
)
def test_another_regime_is_refused(data: bytes) -> None:
    """Nothing is measured under a regime that was not named exactly."""
    with pytest.raises(Malformed, match=r"regime|trace_id"):
        read_regime(data)


@pytest.mark.parametrize(
    ("line", "event"),
    [
        (b'data: {"choices":[{"text":"a"}]}\n', Event("a")),
        (b'data:{"choices":[{"delta":{"content":"a"}}]}\r\n', Event("a")),
        (b'data: {"choices":[{"delta":{"role":"assistant"}}]}\n', Event()),
        (b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}', Event(usage=Usage(3, None, 2))),
        (
            b'data: {"choices":[],"usage":{"prompt_tokens":3,"prompt_tokens_details":{"cached_tokens":1}}}',
            Event(usage=Usage(3, 1, None)),
        ),
        (b"data: [DONE]\n", Event(done=True)),
        (b'data: {"error":{"message":"no"}}\n', Event(error="no")),
        (b": comment\n", None),
        (b"\n", None),
        (b"event: x\n", None),
    ],
)
def test_stream_lines_of_both_calls_are_read(line: bytes, event: Event | None) -> None:
    """Completions and chat completions, with and without usage."""
    assert read_line(line) == event


@pytest.mark.parametrize(
    "line",
    [
        b"data: x",
        b"data: []",
        b'data: {"choices":[1]}',
        b'data: {"choices":[{"text":1}]}',
        b'data: {"usage":{"prompt_tokens":-1}}',
        b'data: {"usage":{"prompt_tokens":true}}',
        b"data: " + b"[" * 60_000,
        b"data: " + b"1" * 60_000,
        b"x" * (MAX_LINE + 1),
    ],
)
def test_a_stream_line_that_is_no_chunk_is_refused(line: bytes) -> None:
    """A stream with nonsense in it is a failed request, never a measured one."""
    with pytest.raises(Malformed, match="stream"):
        read_line(line)


@pytest.mark.parametrize(
    ("url", "full"),
    [
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000/v1/completions"),
        ("http://127.0.0.1:8000/v1/", "http://127.0.0.1:8000/v1/completions"),
        ("https://models.example/llm", "https://models.example:443/llm/v1/completions"),
        ("http://[::1]:9", "http://[::1]:9/v1/completions"),
    ],
)
def test_an_address_is_read(url: str, full: str) -> None:
    """The accepting twin of the refused addresses."""
    assert parse_endpoint(url, "completions").url == full


@pytest.mark.parametrize(
    "url",
    ["", "file:///etc/passwd", "http://", "http://a b", "http://u:p@h", "http://h:x", "http://h/a b", "http://h?x=1",
     "http://h/\r\nX: y", "http://a..b", "http://" + "a" * 600],
)  # fmt: skip
def test_another_address_is_refused(url: str) -> None:
    """No credentials in a record, no line break in a request."""
    with pytest.raises(Malformed, match="endpoint"):
        parse_endpoint(url, "completions")


@given(st.one_of(st.binary(max_size=300), st.text(max_size=200).map(lambda text: b"data: " + text.encode())))
def test_nothing_but_malformed_leaves_the_byte_grammars(data: bytes) -> None:
    """I20: whatever bytes arrive."""
    for read in (read_regime, read_line):
        with contextlib.suppress(Malformed):
            read(data)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["choices", "usage", "delta", "text", "content", "error", "message"]), inner)
    ),
    max_leaves=8,
)


@given(json_values)
def test_nothing_but_malformed_leaves_for_any_json(value: object) -> None:
    """I20: whatever shape a chunk has."""
    with contextlib.suppress(Malformed):
        read_line(b"data: " + json.dumps(value).encode())


@given(st.text(max_size=80))
def test_nothing_but_malformed_leaves_the_address(url: str) -> None:
    """I20, for a configured address."""
    for text in (url, "http://" + url):
        with contextlib.suppress(Malformed):
            parse_endpoint(text, "chat")


@pytest.mark.parametrize(
    "make",
    [
        lambda n: b'data: {"choices":[{"text":"' + b"a" * (n - 40) + b'"}]}',
        lambda n: b'data: {"choices":[' + b"{}," * ((n - 40) // 3) + b"{}]}",
        lambda n: b'data: {"choices":[{"text":"' + b"\\u0061" * ((n - 40) // 6) + b'"}]}',
    ],
)
def test_a_line_costs_linear_time(make: Callable[[int], bytes]) -> None:
    """At the size cap, four times the bytes cost about four times the work."""
    assert_linear(lambda n: lambda: read_line(make(n)), MAX_LINE)
