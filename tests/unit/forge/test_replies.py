"""The bot's own comments say what happened and what to paste, and never run."""

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from gitops_bot.core.asks import AskId, AskState
from gitops_bot.core.captures import CaptureState, TraceId
from gitops_bot.core.errors import Reason, refuse
from gitops_bot.forge.grammar import Command, NearMiss, Silent, Why, judge, parse
from gitops_bot.forge.replies import (
    Card,
    ask_marker,
    help_text,
    in_review,
    late,
    near_miss,
    reply_marker,
    review_marker,
    status,
)

CASES = tomllib.loads((Path(__file__).parents[2] / "vectors" / "forge-comments.toml").read_text(encoding="utf-8"))
T = TraceId(CASES["T"])
CARD = Card(
    ask=AskId("01jf8zq0v6m3k2n4p5r6s7t8v9"),
    trace_id=T,
    state=AskState.OPEN,
    capture=CaptureState.REQUESTED,
    needed=2,
    approved_by=("alice",),
    may_vote=("alice", "bob"),
    expires_at=1_764_547_200_000,
)


def test_an_open_ask_shows_who_voted_who_may_and_the_lines() -> None:
    text = status(CARD)
    assert text.startswith(ask_marker(CARD.ask) + "\n\n")
    for said in ("1 of 2 (`alice`)", "`alice`, `bob`", "2025-12-01 00:00 UTC", f"\n    /approve-capture {T}\n"):
        assert said in text


def test_an_ended_ask_offers_nothing_to_paste() -> None:
    for state in AskState:
        if state is not AskState.OPEN:
            assert "/approve-capture" not in status(replace(CARD, state=state))


@pytest.mark.parametrize("capture", CaptureState)
def test_every_state_of_a_capture_has_its_own_headline(capture: CaptureState) -> None:
    others = {status(replace(CARD, state=AskState.APPROVED, capture=other)) for other in CaptureState}
    assert len(others) == len(CaptureState)
    assert capture.value in status(replace(CARD, state=AskState.APPROVED, capture=capture))


def test_an_expired_ask_says_that_nothing_was_approved() -> None:
    """I5"""
    assert "approves nothing" in status(replace(CARD, state=AskState.EXPIRED))
    assert "#7" in status(replace(CARD, state=AskState.SUPERSEDED, successor=7))


@pytest.mark.parametrize("why", [why for why in Why if why not in (Why.NO_COMMAND, Why.CODE_OR_QUOTE, Why.OVER_CAP)])
def test_a_near_miss_is_told_its_code_its_fault_and_the_exact_line(why: Why) -> None:
    bodies = {
        Why.ARGUMENT: "/approve-capture",
        Why.SPELLING: f"/aprove-capture {T}",
        Why.PLACE: f" /approve-capture {T}",
        Why.SECOND_COMMAND: f"/approve-capture {T}\n/capture-help",
        Why.OTHER_TRACE_ID: f"/approve-capture {T.replace('48', '64')}",
    }
    judgement = judge(parse(bodies[why]), T)
    assert judgement.why is why
    text = near_miss(judgement, 42)
    assert text.startswith(reply_marker(42))
    assert f"`{judgement.reason}`" in text
    assert f"\n    /approve-capture {T}\n" in text


def test_the_pasted_line_of_a_near_miss_acts_once_unindented() -> None:
    judgement = judge(parse("/approve-capture"), T)
    assert isinstance(parse("/approve-capture"), NearMiss)
    assert judgement.reply_line is not None
    assert judge(parse(judgement.reply_line), T).outcome.value == "approve"


def test_a_late_approve_is_told_who_won_and_when() -> None:
    refused = refuse(Reason.ALREADY_SETTLED, "It ended as DENIED.", by="bob", at=1_764_547_200_000)
    text = late(refused, 9)
    for said in ("`already_settled`", "DENIED", "`bob`", "2025-12-01 00:00 UTC"):
        assert said in text


@pytest.mark.parametrize("command", Command)
def test_a_command_in_a_review_is_told_where_it_counts(command: Command) -> None:
    text = in_review(command, T, 42)
    assert text.startswith(review_marker(42)) and review_marker(42) != reply_marker(42)
    for said in ("`near_miss`", "only as a comment in the conversation", f"\n    {command.value}"):
        assert said in text
    assert isinstance(parse(text), Silent), "what the bot writes is no command"


def test_help_names_all_four_commands() -> None:
    text = help_text(T, 3)
    for line in (f"/approve-capture {T}", f"/deny-capture {T} [reason…]", "/capture-status", "/capture-help"):
        assert f"\n    {line}\n" in text
