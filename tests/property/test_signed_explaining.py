"""An explanation is given for whatever bytes arrive, at a cost that grows with their length."""

import json
from collections.abc import Callable
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from gitops_bot.core.errors import Malformed
from gitops_bot.signed.explaining import MAX_MESSAGE, explain_file, explain_message, read_flat
from gitops_bot.signed.rendering import MAX_FILE
from tests.linear import assert_linear

FIRST = json.loads((Path(__file__).parents[1] / "vectors" / "approval.json").read_bytes())["approvals"][0]
FILE: bytes = FIRST["file"].encode()
MESSAGE: bytes = FIRST["message"].encode()
TOML = st.lists(
    st.sampled_from(
        [
            *(b"a", b"params", b"ask", b".", b" = ", b"\n", b"[", b"]", b"{", b"}", b'"', b"'", b"1", b",", b"#"),
            *(b"\\u00", b"1979-05-27T07:32:00Z", b"inf", b"\r", b"\xff"),
        ]
    ),
    max_size=30,
).map(b"".join)


def harmless(told: str) -> bool:
    """Tell whether a sentence is short, of one line, and printable ASCII."""
    return 0 < len(told) < 700 and told.isascii() and told.isprintable()


@given(st.binary(max_size=200) | TOML)
def test_a_sentence_is_all_that_comes_of_any_file(raw: bytes) -> None:
    assert harmless(explain_file(FILE, raw))
    assert harmless(explain_message(MESSAGE, raw))


@given(st.integers(0, len(FILE)), st.binary(max_size=4) | TOML, st.integers(0, 4))
def test_a_sentence_is_all_that_comes_of_a_damaged_file(at: int, junk: bytes, cut: int) -> None:
    assert harmless(explain_file(FILE, FILE[:at] + junk + FILE[at + cut :]))
    assert harmless(explain_message(MESSAGE, MESSAGE[:at] + junk + MESSAGE[at + cut :]))


@given(st.binary(max_size=200) | TOML)
def test_nothing_but_malformed_leaves_the_reader(raw: bytes) -> None:
    try:
        read = read_flat(raw)
    except Malformed:
        return
    assert isinstance(read, dict)


def test_explaining_costs_as_the_length() -> None:
    def file(size: int) -> Callable[[], object]:
        lines = b"".join(b"k%06d = 1\n" % one for one in range(size // 12))
        return lambda: explain_file(FILE, lines)

    def message(size: int) -> Callable[[], object]:
        return lambda: explain_message(MESSAGE, MESSAGE[:53] + b"x\n" * ((size - 60) // 2))

    assert_linear(file, MAX_FILE)
    assert_linear(message, MAX_MESSAGE)
