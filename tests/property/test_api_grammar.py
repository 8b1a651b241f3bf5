"""Whatever bytes arrive at the API's grammar: a value or `Malformed`, at a cost that grows with their length."""

import contextlib
import json
import time
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gitops_bot.api.grammar import (
    MAX_BODY,
    parse_ask,
    parse_bearer,
    parse_capture,
    parse_loop,
    parse_page,
    parse_reason,
    parse_verb,
    parse_wait,
    read_problem,
)
from gitops_bot.core.asks import MAX_TEXT
from gitops_bot.core.errors import Malformed

READERS: tuple[Callable[[bytes], object], ...] = (
    parse_ask,
    parse_capture,
    parse_loop,
    parse_reason,
    parse_verb,
    read_problem,
)
MEMBERS = st.sampled_from(
    [
        *("question", "options", "why", "candidates", "expires_in", "due_at", "idempotency_key", "mode", "reason"),
        *(
            "model",
            "concurrency",
            "prefixes",
            "max_tokens",
            "long_tokens",
            "long_frac",
            "id",
            "address",
            "broker_token",
        ),
        *("resume", "detail", "facts", "x"),
    ]
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["a/b", "2h", "block"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.binary(max_size=300))
def test_bytes_give_a_value_or_malformed(raw: bytes) -> None:
    for read in READERS:
        with contextlib.suppress(Malformed):
            read(raw)


@given(st.dictionaries(MEMBERS, VALUES, max_size=9))
def test_objects_give_a_value_or_malformed(members: dict[str, Any]) -> None:
    raw = json.dumps(members).encode()
    for read in READERS:
        with contextlib.suppress(Malformed):
            read(raw)


@given(st.dictionaries(st.sampled_from(["after", "limit", "open", "wait", "x"]), st.text(max_size=30), max_size=4))
def test_queries_give_a_value_or_malformed(query: dict[str, str]) -> None:
    for read in (parse_page, parse_wait):
        with contextlib.suppress(Malformed):
            read(query)


@given(st.text(max_size=100))
def test_headers_give_a_token_or_none(header: str) -> None:
    token = parse_bearer(header)
    assert token is None or (token.isascii() and token.isprintable() and " " not in token)


@given(st.text(max_size=200), st.lists(st.text(max_size=50), max_size=20))
def test_what_is_read_can_be_stored(question: str, options: list[str]) -> None:
    """Half a surrogate pair has no UTF-8, and PostgreSQL keeps no U+0000: neither leaves the grammar."""
    with contextlib.suppress(Malformed):
        read = parse_ask(json.dumps({"question": question, "options": options}).encode())
        for text in (read.question, *read.options):
            assert b"\x00" not in text.encode("utf-8")
            assert len(text) <= MAX_TEXT


def cost(read: Callable[[bytes], object], raw: bytes) -> float:
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        with contextlib.suppress(Malformed):
            read(raw)
        best = min(best, time.perf_counter() - start)
    return best


def test_the_cost_is_linear_up_to_the_cap() -> None:
    """Each shape at a quarter of the cap and at the cap: the ratio stays near four, far from sixteen."""
    shapes: dict[str, Callable[[int], bytes]] = {
        "nesting": lambda n: b"[" * n,
        "members": lambda n: b"{" + b",".join(b'"%d":0' % i for i in range(n // 10)) + b"}",
        "question": lambda n: b'{"question":"' + b"a" * (n - 40) + b'"}',
        "escapes": lambda n: b'{"question":"' + b"\\u0041" * ((n - 40) // 6) + b'"}',
        "options": lambda n: b'{"question":"?","options":[' + b",".join([b'"a"'] * (n // 5)) + b"]}",
        "fraction": lambda n: b'{"long_frac":0.' + b"9" * (n - 40) + b"}",
        "digits": lambda n: b'{"due_at":' + b"9" * (n - 40) + b"}",
        "key": lambda n: b'{"' + b"k" * (n - 40) + b'":0}',
        "model": lambda n: (
            b'{"model":"' + b"a/" * ((n - 200) // 2) + b'","concurrency":1,"prefixes":1,"max_tokens":1,'
            b'"long_tokens":1,"long_frac":"' + b"0" * 60 + b'"}'
        ),
    }
    for read in (parse_ask, parse_capture):
        for name, shape in shapes.items():
            small, large = cost(read, shape(MAX_BODY // 4)), cost(read, shape(MAX_BODY))
            assert large < 10 * small + 1e-3, (read.__name__, name, small, large)
