"""Whatever bytes come over the bridge: a command, or a typed error; and a cost that grows with their number only."""

import contextlib
import json
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gitops_bot.bridge.grammar import MAX_LINE, Auth, Change, Status, Tail, encode, parse_command, parse_incoming
from gitops_bot.core.errors import Malformed
from tests.linear import assert_linear

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
NAMES = st.sampled_from(
    ["status", "tail", "rescope", "re-scope", "approve", "deny", "steer", "set-budget", "stop", "x"]
)
MEMBERS = st.sampled_from(["id", "regime", "reason", "trace_id", "text", "usd", "from_seq", "role", "auth", "kind"])


@given(st.binary(max_size=400))
def test_bytes_give_a_command_or_malformed(raw: bytes) -> None:
    for read in (parse_command, parse_incoming):
        with contextlib.suppress(Malformed):
            read(raw)


@given(NAMES, st.dictionaries(MEMBERS, VALUES, max_size=5))
def test_objects_give_a_command_or_malformed_with_a_message_that_fits_a_reply(name: str, members: Any) -> None:
    raw = json.dumps({**members, "cmd": name}).encode()
    try:
        command = parse_command(raw)
    except Malformed as error:
        assert len(error.message) < 200
        return
    assert isinstance(command, Auth | Change | Status | Tail)
    if isinstance(command, Change) and command.key is not None:
        assert 1 <= len(command.key.encode()) <= 256


@given(st.dictionaries(st.text(max_size=10), st.text(max_size=30), max_size=4))
def test_a_written_line_reads_back(message: dict[str, str]) -> None:
    written = encode(message)
    assert written.endswith(b"\n")
    assert written.count(b"\n") == 1
    assert json.loads(written) == message


def reading(raw: bytes) -> Callable[[], None]:
    def once() -> None:
        with contextlib.suppress(Malformed):
            parse_command(raw)

    return once


def test_the_cost_is_linear_up_to_the_longest_line() -> None:
    """Each shape at a quarter of the cap and at the cap: the ratio stays near four, far from sixteen."""
    shapes = {
        "nesting": lambda n: b"[" * n,
        "members": lambda n: b"{" + b",".join(b'"%d":0' % i for i in range(n // 10)) + b"}",
        "string": lambda n: b'"' + b"\\u0041" * (n // 6) + b'"',
        "digits": lambda n: b'{"cmd":"set-budget","usd":' + b"9" * (n - 40) + b"}",
        "fraction": lambda n: b'{"cmd":"set-budget","usd":0.' + b"9" * (n - 40) + b"}",
        "steer": lambda n: b'{"cmd":"steer","text":"' + b" " * (n - 40) + b'"}',
    }
    for shape in shapes.values():
        assert_linear(lambda n, shape=shape: reading(shape(n)), MAX_LINE)  # type: ignore[misc] # bound now
