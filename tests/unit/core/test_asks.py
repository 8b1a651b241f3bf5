"""What an ask offers, when a text says nothing, and what somebody who comes late or answers something else is told."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitops_bot.core.asks import (
    APPROVAL_OPTIONS,
    Ask,
    AskId,
    AskKind,
    AskState,
    Binding,
    drift,
    is_blank,
    late,
    number_options,
)
from gitops_bot.core.canonical import Digest
from gitops_bot.core.errors import SENTENCES, Reason
from gitops_bot.core.principals import PrincipalName
from gitops_bot.core.texts import is_storable, storable
from gitops_bot.core.verdicts import Answer, Choice, Decision, choose

BOUND = Binding(Digest("sha256:" + "a" * 64), Digest("sha256:" + "b" * 64), 1)
ASK = Ask(
    id=AskId("01jdxm2r7q8v9w0a1b2c3d4e5f"),
    kind=AskKind.APPROVAL,
    state=AskState.OPEN,
    verb="capture.approve",
    text="Measure it?",
    why="",
    action=b"{}",
    binding=BOUND,
    options=APPROVAL_OPTIONS,
    candidates=(),
    agent="agent",
    run="run",
    requester=PrincipalName("demo-agent"),
    owner=PrincipalName("alice"),
    opened_at=1,
    expires_at=2,
)
QUESTION = replace(ASK, kind=AskKind.QUESTION, verb=None, action=None, options=number_options(["left", "right"]))


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \t\r\n\x0b\x0c",
        "\u00a0\u1680\u2000\u2003\u2028\u2029\u202f\u205f\u3000",
        "\u200b\u200c\u200d\u2060\ufeff\u00ad\u180e",
        "\u202a\u202e\u2066\u2069\U000e0001\U000e0041",
        "\u115f\u1160\u3164\uffa0\u2800\U0001d159",
        "\u034f\ufe0f\u180b\u0301",
        "\x00\x1b\x7f\x85",
        "\ue000\U0010ffff",
    ],
    ids=ascii,
)
def test_a_text_that_shows_nothing_is_blank(text: str) -> None:
    assert is_blank(text)


@pytest.mark.parametrize(
    "text", ["x", " . ", "\u3000字\u3000", "e\u0301", "\U0001f44d\ufe0f", "٠", "\u200bno\u200b"], ids=ascii
)
def test_a_text_that_shows_something_is_not(text: str) -> None:
    assert not is_blank(text)


@given(st.text())
def test_white_space_alone_is_always_blank(text: str) -> None:
    if not text.strip():
        assert is_blank(text)


@given(st.text() | st.text(st.sampled_from("\x00\ud800\udfffaé")))
def test_what_cannot_be_stored_is_told_and_replaced(text: str) -> None:
    kept = storable(text)
    kept.encode()
    assert is_storable(kept) and "\x00" not in kept
    assert is_storable(text) == (kept == text)


def test_a_questions_options_are_numbered_in_the_order_offered() -> None:
    assert [(option.id, option.label) for option in QUESTION.options] == [("o1", "left"), ("o2", "right")]


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (AskState.APPROVED, Reason.ALREADY_SETTLED),
        (AskState.DENIED, Reason.ALREADY_SETTLED),
        (AskState.ANSWERED, Reason.ALREADY_SETTLED),
        (AskState.WITHDRAWN, Reason.WITHDRAWN),
        (AskState.EXPIRED, Reason.EXPIRED),
        (AskState.SUPERSEDED, Reason.STALE_ACTION),
    ],
)
def test_who_comes_late_is_told_who_when_and_what(state: AskState, reason: Reason) -> None:
    refused = late(replace(ASK, state=state, ended_by="bob", ended_at=77))
    assert refused.reason is reason
    assert (refused.facts["state"], refused.facts["by"], refused.facts["at"]) == (state.value, "bob", 77)


@pytest.mark.parametrize("moved", ["stale_action", "stale_policy", "stale_run", "stale_head"])
def test_who_answers_a_superseded_ask_is_told_what_moved_and_where_it_went(moved: str) -> None:
    refused = late(replace(ASK, state=AskState.SUPERSEDED, end_reason=moved, superseded_by=AskId("next")))
    assert refused.reason.value == moved
    assert refused.facts["successor"] == "next"


def test_an_unknown_reason_of_a_superseded_ask_is_no_crash() -> None:
    assert late(replace(ASK, state=AskState.SUPERSEDED, end_reason="moved house")).reason is Reason.STALE_ACTION


def test_drift_names_the_first_part_that_differs() -> None:
    """I4: action, policy and run version are all compared."""
    other = Digest("sha256:" + "c" * 64)
    assert drift(BOUND, BOUND) is None
    for echoed, reason in (
        (Binding(other, other, 9), Reason.STALE_ACTION),
        (replace(BOUND, policy=other, run_version=9), Reason.STALE_POLICY),
        (replace(BOUND, run_version=2), Reason.STALE_RUN),
    ):
        refused = drift(BOUND, echoed)
        assert refused is not None and refused.reason is reason


@pytest.mark.parametrize(
    ("ask", "answer", "reason"),
    [
        (ASK, Answer("o1", None, BOUND), Reason.UNKNOWN_OPTION),
        (ASK, Answer("Approve", None, BOUND), Reason.UNKNOWN_OPTION),
        (ASK, Answer("", None, BOUND), Reason.UNKNOWN_OPTION),
        (ASK, Answer(None, "yes, do it", BOUND), Reason.EMPTY),
        (QUESTION, Answer("o3", None, BOUND), Reason.UNKNOWN_OPTION),
        (QUESTION, Answer("approve", None, BOUND), Reason.UNKNOWN_OPTION),
        (QUESTION, Answer(None, None, BOUND), Reason.EMPTY),
        (QUESTION, Answer(None, "\u3000\u200b", BOUND), Reason.EMPTY),
        (replace(ASK, kind=AskKind.GATED), Answer("approve", None, BOUND), Reason.GATED),
    ],
)
def test_an_answer_that_says_nothing_or_something_else_is_refused(ask: Ask, answer: Answer, reason: Reason) -> None:
    refused = choose(ask, answer)
    assert not isinstance(refused, Choice)
    assert refused.reason is reason


@pytest.mark.parametrize(
    ("ask", "answer", "choice"),
    [
        (ASK, Answer("approve", None, BOUND), Choice(Decision.APPROVE, "approve", None)),
        (ASK, Answer("deny", "too dear", BOUND), Choice(Decision.DENY, "deny", "too dear")),
        (QUESTION, Answer("o2", None, BOUND), Choice(Decision.ANSWER, "o2", None)),
        (QUESTION, Answer(None, "neither", BOUND), Choice(Decision.ANSWER, None, "neither")),
    ],
)
def test_an_answer_that_fits_is_read(ask: Ask, answer: Answer, choice: Choice) -> None:
    assert choose(ask, answer) == choice


def test_every_reason_has_its_sentence() -> None:
    assert set(SENTENCES) == set(Reason)
