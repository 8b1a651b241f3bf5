"""Whatever bytes an agent or a judge leaves: a value, or a typed error, at a cost that grows with their number only."""

import contextlib
import json
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gitops_bot.core.errors import Malformed
from gitops_bot.loop.grammar import MAX_MARKER, parse_escalation, parse_marker, parse_measurement
from gitops_bot.loop.recovery import read_past
from tests.linear import assert_linear

READERS: tuple[Callable[[bytes], object], ...] = (parse_marker, parse_escalation, parse_measurement)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
PARTS = st.sampled_from(["model", "concurrency", "prefixes", "max_tokens", "long_tokens", "long_frac"])
KINDS = st.sampled_from(
    [
        "identity",
        "phase",
        "segment",
        "agent_start",
        "agent_done",
        "row",
        "budget",
        "approval_wait",
        "parked",
        "approval_claimed",
        "approval_resolved",
        "escalation",
        "shutdown",
        "other",
    ]
)
MEMBERS = st.sampled_from(
    [
        "identity",
        "phase",
        "iter",
        "regime",
        "baseline_score",
        "key",
        "resolves",
        "row",
        "spent",
        "elapsed_secs",
        "trace_id",
        "mode",
        "handle",
        "waited_secs",
        "outcome",
        "reason",
        "kept_snap",
    ]
)


@given(st.binary(max_size=400))
def test_bytes_give_a_value_or_malformed(raw: bytes) -> None:
    for read in READERS:
        with contextlib.suppress(Malformed):
            read(raw)


@given(st.dictionaries(PARTS, SCALARS), VALUES, VALUES, VALUES)
def test_objects_give_a_value_or_malformed(regime: Any, trace_id: Any, handle: Any, mode: Any) -> None:
    value = {"regime": regime, "trace_id": trace_id, "handle": handle, "mode": mode, "score": mode, "reason": handle}
    for read in READERS:
        with contextlib.suppress(Malformed):
            read(json.dumps(value).encode())


@given(st.lists(st.tuples(KINDS, st.dictionaries(MEMBERS, VALUES, max_size=6)), max_size=12))
def test_any_session_log_is_folded(lines: list[tuple[str, dict[str, Any]]]) -> None:
    """A log written by another engine, or damaged, never stops a resume."""
    read_past({**members, "kind": kind} for kind, members in lines)


def reading(read: Callable[[bytes], object], raw: bytes) -> Callable[[], None]:
    def once() -> None:
        with contextlib.suppress(Malformed):
            read(raw)

    return once


def test_the_cost_is_linear_up_to_the_largest_marker() -> None:
    shapes: list[Callable[[int], bytes]] = [
        lambda n: b"[" * n,
        lambda n: b'{"regime":{"model":"' + b"a/" * (n // 2 - 60) + b'"}}',
        lambda n: b'{"score":0.' + b"9" * (n - 20) + b"}",
        lambda n: b'{"reason":"' + b" " * (n - 20) + b'"}',
    ]
    for read in READERS:
        for shape in shapes:
            assert_linear(lambda n, read=read, shape=shape: reading(read, shape(n)), MAX_MARKER)  # type: ignore[misc] # bound now
