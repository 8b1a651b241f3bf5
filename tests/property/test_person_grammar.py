"""Whatever people's calls carry: a value or `Malformed`, at a cost that grows with their length."""

import contextlib
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitops_bot.api.members import MAX_BODY
from gitops_bot.api.person import grammar
from gitops_bot.api.query import grammar as query_grammar
from gitops_bot.core.errors import Malformed
from tests.linear import assert_linear

READERS: tuple[Callable[[bytes], object], ...] = (
    grammar.parse_given,
    grammar.parse_answer,
    grammar.parse_batch,
    grammar.parse_nothing,
    grammar.parse_reasoned,
    grammar.parse_claim,
    grammar.parse_delegate,
    grammar.parse_snooze,
    grammar.parse_hold,
    grammar.parse_message,
    grammar.parse_agent,
)
QUERIES: tuple[Callable[[Mapping[str, str]], object], ...] = (
    query_grammar.parse_inbox,
    query_grammar.parse_newest,
    query_grammar.parse_agents,
    query_grammar.parse_thread,
    query_grammar.parse_export,
    query_grammar.parse_ledger,
)
NAMES = st.sampled_from(
    ["option", "text", "action_hash", "policy", "run_version", "idempotency_key", "assertion", "ceremony", "credential",
     "answers", "ask", "fresh", "reason", "release", "to", "lasts", "slug", "principal", "purpose", "loop", "x"]
)  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
    | st.sampled_from(["sha256:" + "0" * 64, "01j9zs4v7k8m2q3r5t6w7x8y9z", "2h", "alice"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(st.binary(max_size=300))
def test_bytes_give_a_value_or_malformed(raw: bytes) -> None:
    for read in READERS:
        with contextlib.suppress(Malformed):
            read(raw)


@given(st.dictionaries(NAMES, VALUES, max_size=9))
def test_objects_give_a_value_or_malformed(members: dict[str, Any]) -> None:
    raw = json.dumps(members).encode()
    for read in READERS:
        with contextlib.suppress(Malformed):
            read(raw)


PARAMETERS = st.sampled_from(
    ["agent", "verb", "kind", "risk", "channel", "text", "snoozed", "before", "after", "limit", "since"]
)


@given(st.dictionaries(PARAMETERS, st.text(max_size=30), max_size=5))
def test_queries_give_a_value_or_malformed(query: dict[str, str]) -> None:
    for read in QUERIES:
        with contextlib.suppress(Malformed):
            read(query)


SHAPES: Mapping[str, Callable[[int], bytes]] = {
    "text": lambda n: b'{"text":"' + b"a" * (n - 40) + b'"}',
    "answers": lambda n: b'{"answers":[' + b",".join([b'{"ask":"0"}'] * (n // 12)) + b"]}",
    "credential": lambda n: (
        b'{"assertion":{"ceremony":"c","credential":{"a":[' + b",".join([b"1"] * (n // 3)) + b"]}}}"
    ),
    "members": lambda n: b"{" + b",".join(b'"%d":0' % i for i in range(n // 10)) + b"}",
    "unknown": lambda n: b'{"assertion":{"' + b"k" * (n - 60) + b'":0}}',
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("read", [grammar.parse_answer, grammar.parse_batch, grammar.parse_message])
def test_the_cost_is_linear_up_to_the_cap(read: Callable[[bytes], object], shape: str) -> None:
    def build(size: int) -> Callable[[], object]:
        raw = SHAPES[shape](size)

        def call() -> None:
            with contextlib.suppress(Malformed):
                read(raw)

        return call

    assert_linear(build, MAX_BODY)
