"""Over all text: nothing but `Malformed` leaves the comment grammar, only exact lines act, and its cost is linear."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitops_bot.core.captures import TraceId
from gitops_bot.core.errors import Malformed
from gitops_bot.forge.grammar import MAX_BODY, Approve, Command, Deny, Outcome, Silent, exact_line, judge, parse
from tests.linear import assert_linear

T = TraceId("model=Qwen/Qwen3-0.6B;c=48;p=8;mt=8;lt=0;lf=0.0000")
ACTS = (Outcome.APPROVE, Outcome.DENY)

SPACES = [" ", "  ", "\t", "\n", "\r", "\r\n", "\u2028", "\x0b", "\x85", "\u00a0"]
MARKS = [
    "`",
    "~",
    ">",
    "<!--",
    "-->",
    "[",
    "- ",
    "* ",
    "\ufeff",
    "\u200b",
    "\u202e",
    "please",
    "A",
    "é",
    "\x00",
    "\ud800",
]
_pieces = st.sampled_from([*(command.value for command in Command), T, *SPACES, *MARKS])
almost = st.lists(st.one_of(_pieces, st.text(max_size=3)), max_size=12).map("".join)


@given(st.one_of(almost, st.text()))
def test_no_text_raises_and_only_the_exact_line_acts(body: str) -> None:
    outcome = judge(parse(body), T).outcome
    line = body.split("\n", 1)[0].removesuffix("\r").rstrip(" ")
    assert (outcome is Outcome.APPROVE) <= (line == f"/approve-capture {T}")
    assert (outcome is Outcome.DENY) <= (line == f"/deny-capture {T}" or line.startswith(f"/deny-capture {T} "))
    assert (outcome is Outcome.STATUS) <= (line == "/capture-status")
    assert (outcome is Outcome.HELP) <= (line == "/capture-help")


@given(st.one_of(st.binary(), almost.map(lambda text: text.encode("utf-8", "surrogatepass"))))
def test_nothing_but_malformed_leaves_it_for_bytes(raw: bytes) -> None:
    try:
        parse(raw)
    except Malformed:
        with pytest.raises(UnicodeDecodeError):
            raw.decode("utf-8")


@given(st.text(), st.sampled_from(["\r\n", "\n"]))
def test_free_text_below_an_exact_line_never_changes_its_decision_to_another(text: str, end: str) -> None:
    outcome = judge(parse(f"/approve-capture {T}{end}{text}"), T).outcome
    assert outcome in (Outcome.APPROVE, Outcome.NEAR_MISS)


@given(almost)
def test_a_reason_can_be_stored_and_hashed(text: str) -> None:
    parsed = parse(f"/deny-capture {T} {text}")
    if isinstance(parsed, Deny | Approve):
        parsed.reason.encode("utf-8")
        assert "\x00" not in parsed.reason


@given(st.integers(0, 3), st.sampled_from(Command), st.data())
def test_up_to_two_edits_are_a_near_miss_and_never_act(edits: int, command: Command, data: st.DataObject) -> None:
    word = command.value
    for _ in range(edits):
        at = data.draw(st.integers(0, len(word)))
        word = (
            word[:at] + data.draw(st.sampled_from(["", "x", "é", "\u200b"])) + word[at + data.draw(st.integers(0, 1)) :]
        )
    outcome = judge(parse(f"{word} {exact_line(command, T).partition(' ')[2]}".rstrip(" ")), T).outcome
    if word == command.value:
        assert outcome.value in ("approve", "deny", "status", "help")
    elif edits <= 2:
        assert outcome is Outcome.NEAR_MISS
    else:
        assert outcome in (Outcome.NEAR_MISS, Outcome.SILENT)


@given(st.text())
def test_indented_or_quoted_the_same_text_is_silent(text: str) -> None:
    line = f"/approve-capture {T}"
    for body in (f"    {line}{text}", f"\t{line}{text}", f"> {line}{text}", f"`{line}{text}", f"```\n{line}\n{text}"):
        assert isinstance(parse(body), Silent)


@pytest.mark.parametrize(
    "unit",
    [
        "/",
        " ",
        "\t/",
        "- ",
        "/approve-capture ",
        "/approve-capture\n",
        "\n/capture-helper",
        "\r",
        "\u00a0",
        "a/",
        ";c=0",
        "ﬃ",
    ],
)
@pytest.mark.parametrize("head", ["", f"/deny-capture {T}\n", f"/deny-capture {T} ", "/approve-capture model="])
def test_the_work_is_linear_up_to_the_cap(unit: str, head: str) -> None:
    """Compares a quarter of the cap with the cap; anything quadratic would take seconds at the cap, not the slack."""

    def build(size: int) -> Callable[[], object]:
        body = head + unit * ((size - len(head)) // len(unit))
        return lambda: parse(body)

    assert_linear(build, MAX_BODY)
