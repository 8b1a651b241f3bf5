"""For any text of an agent: nothing that the bot writes is a command of ours, on any of its lines."""

import re

from hypothesis import given
from hypothesis import strategies as st

from gitops_bot.core.asks import AskId, AskState
from gitops_bot.core.captures import CaptureState, Regime
from gitops_bot.core.errors import Reason, refuse
from gitops_bot.forge.drafts import Proposal, draft
from gitops_bot.forge.grammar import MAX_BODY, Command, NearMiss, Silent, Why, judge, parse
from gitops_bot.forge.quoting import MAX_FIELD, field
from gitops_bot.forge.replies import Card, help_text, late, near_miss, status

REGIME = Regime("Qwen/Qwen3-0.6B", 48, 8, 8, 0, "0.0000")
T = REGIME.trace_id
ASK = AskId("01jf8zq0v6m3k2n4p5r6s7t8v9")

_line = st.sampled_from(
    [f"{command.value} {T}" for command in Command] + ["@bob", "#1", "```", "-->", "<!--", "- ", "> "]
)
hostile = st.one_of(
    st.text(max_size=300),
    st.lists(st.one_of(_line, st.sampled_from(["\n", "\r", "\u2028", "\x0b", "\x85", " "])), max_size=30).map("".join),
)
who = st.lists(hostile, max_size=3).map(tuple)


def assert_nothing_runs(text: str) -> None:
    """No line, however a reader may split lines, is anything but silent for the grammar."""
    assert isinstance(parse(text), Silent)
    for line in re.split("[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]", text):
        assert isinstance(parse(line), Silent), line
    assert len(text) <= MAX_BODY


@given(hostile, who, who, hostile, st.sampled_from(AskState), st.sampled_from(CaptureState))
def test_a_status_comment_is_silent(
    note: str, people: tuple[str, ...], by: tuple[str, ...], one: str, state: AskState, capture: CaptureState
) -> None:
    assert_nothing_runs(status(Card(ASK, T, state, capture, 2, people, (*people, one), by, note, 0, 3)))


@given(hostile, hostile, hostile, who)
def test_a_draft_is_silent(why: str, requester: str, cost: str, may_vote: tuple[str, ...]) -> None:
    made = draft(Proposal(ASK, REGIME, why, requester, cost, may_vote, 1, 0))
    assert_nothing_runs(made.body)
    assert_nothing_runs(made.title)
    assert_nothing_runs(made.message)


@given(st.sampled_from(Command), st.sampled_from(Why), st.sampled_from(Reason), hostile, st.integers(0, 2**53))
def test_replies_are_silent(command: Command, why: Why, reason: Reason, by: str, comment_id: int) -> None:
    assert_nothing_runs(near_miss(judge(NearMiss(command, why), T), comment_id))
    assert_nothing_runs(near_miss(judge(parse(f"/deny-capture {T.replace('48', '64')}"), T), comment_id))
    assert_nothing_runs(help_text(T, comment_id))
    assert_nothing_runs(late(refuse(reason, by=by, at=1_764_547_200_000), comment_id))


@given(hostile)
def test_a_field_mentions_links_and_hides_nothing(text: str) -> None:
    shown = field(text).split("\n", 1)[1].rsplit("\n", 1)[0]
    assert not re.search(r"[@#/<][^\u200b]", shown)
    assert all(line.startswith("│ ") for line in shown.split("\n"))


@given(st.sampled_from(["\x00", "\n", "/", "\U000e0041", "\u202e"]))
def test_a_field_stays_small_whatever_fills_it(char: str) -> None:
    assert len(field(char * (MAX_FIELD * 10))) <= 12 * MAX_FIELD
