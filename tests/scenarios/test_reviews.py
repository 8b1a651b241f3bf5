"""A command in a review of a pull request never acts; whoever may vote is told once where commands count."""

import pytest

from gitops_bot.authority import hearing
from gitops_bot.core.asks import AskState
from gitops_bot.core.captures import CaptureState
from gitops_bot.core.ledger import EventKind
from gitops_bot.core.verdicts import Channel
from gitops_bot.forge.hooks.grammar import ReviewHint
from gitops_bot.store import claims
from gitops_bot.store.captures import Capture
from gitops_bot.store.claims import Claim
from tests.capture_stage import REGIME, REPOSITORY
from tests.forge_stage import APPROVE, BOT, DENY, REPOSITORY_ID, ForgeStage

READ = "GET /repos/{owner}/{repo}/pulls/{pull_number}/reviews/{review_id}"


def hear(
    stage: ForgeStage, review: int, *, number: int = 1, body: str = APPROVE, repository: int = REPOSITORY_ID
) -> bool:
    """Hear of a review as a webhook tells it."""
    with stage.database.write() as tx:
        return hearing.delivered(tx, ReviewHint(repository, review, number, body), 0)


def reviewed(stage: ForgeStage, login: str, body: str, event: str = "COMMENT") -> Claim | None:
    """Let somebody review, hear of it, do what follows; give its claim."""
    made = stage.github.review(REPOSITORY, 1, login, body, event)
    hear(stage, made, body=body)
    stage.settle()
    return claim_of(stage, made)


def claim_of(stage: ForgeStage, review: int) -> Claim | None:
    return stage.read(lambda tx: claims.by_source(tx, Channel.FORGE, f"{REPOSITORY_ID}:review:{review}"))


def untouched(stage: ForgeStage, capture: Capture) -> None:
    assert stage.capture(capture).state is CaptureState.REQUESTED
    assert stage.get(stage.capture(capture).ask or "").state is AskState.OPEN
    assert not [entry for entry in stage.ledger() if entry["kind"] == EventKind.VOTE_COUNTED]


@pytest.mark.parametrize("event", ["COMMENT", "APPROVE", "REQUEST_CHANGES"])
@pytest.mark.parametrize("body", [APPROVE, f"{DENY} too dear", "/capture-status", "/capture-help", "/approve-capture"])
def test_a_command_in_a_review_is_told_where_it_counts_and_does_nothing(
    forge: ForgeStage, body: str, event: str
) -> None:
    """Approving the pull request itself included."""
    capture = forge.opened()
    claim = reviewed(forge, "alice", body, event)
    assert claim is not None and (claim.state.value, claim.reason) == ("refused", "near_miss")
    (reply,) = forge.replies(1)
    command = body.split()[0]
    line = command if command.startswith("/capture") else f"{command} {REGIME.trace_id}"
    assert "never in a review" in reply and f"\n    {line}\n" in reply and "`near_miss`" in reply
    untouched(forge, capture)
    refused = [entry for entry in forge.ledger() if entry["kind"] == EventKind.VOTE_REFUSED]
    assert [entry["facts"]["review"] for entry in refused] == [claim.facts["review_id"]]


def test_the_same_line_as_a_comment_counts(forge: ForgeStage) -> None:
    """The accepting twin, and what the bot wrote is no command of its own."""
    capture = forge.opened()
    reviewed(forge, "alice", APPROVE)
    forge.look()
    untouched(forge, capture)
    forge.say(capture, "alice", APPROVE)
    forge.look()
    assert forge.capture(capture).state is CaptureState.RESCOPED
    assert len(forge.replies(1)) == 1


@pytest.mark.parametrize(
    "body", ["looks good", f"> {APPROVE}", f"`{APPROVE}`", f"I would say\n{APPROVE}", "LGTM /approve"]
)
def test_a_review_without_a_command_gets_nothing(forge: ForgeStage, body: str) -> None:
    capture = forge.opened()
    assert reviewed(forge, "alice", body, "APPROVE") is None
    assert forge.replies(1) == []
    untouched(forge, capture)


@pytest.mark.parametrize("login", ["carol", "mallory", BOT])
def test_who_may_not_vote_is_not_answered(forge: ForgeStage, login: str) -> None:
    capture = forge.opened()
    claim = reviewed(forge, login, APPROVE)
    assert claim is not None and claim.state.value in ("refused", "ignored")
    assert forge.replies(1) == []
    untouched(forge, capture)
    reviewed(forge, "bob", APPROVE)
    assert len(forge.replies(1)) == 1


def test_only_the_fresh_reading_counts(forge: ForgeStage) -> None:
    """What the delivery said is a filter; a review that says something else by now, is gone, or stands elsewhere gets
    no answer, and no repository that is not configured is read."""
    capture = forge.opened()
    harmless = forge.github.review(REPOSITORY, 1, "alice", "never mind")
    gone = forge.github.review(REPOSITORY, 1, "alice", APPROVE)
    forge.github.delete_review(REPOSITORY, 1, gone)
    forge.github.push(REPOSITORY, "side", {"x": b"y"}, "alice")
    with forge.github.world.lock:
        from gitops_bot.sandbox.records import Pull

        there = forge.github.world.model.directory.repositories[REPOSITORY_ID]
        tips = forge.github.world.tips(there)
        pull = Pull(0, "side", "main", tips["side"], tips["main"], draft=False)
        other = forge.github.world.model.threads.open_pull(there, 1001, "t", "", pull, forge.github.world.now()).number
    elsewhere = forge.github.review(REPOSITORY, other, "bob", APPROVE)
    assert not hear(forge, elsewhere, number=other), "not a pull request of ours"
    assert not hear(forge, harmless, repository=1)
    for review in (harmless, gone, elsewhere):
        assert hear(forge, review)
    forge.settle()
    for review in (harmless, gone, elsewhere):
        claim = claim_of(forge, review)
        assert claim is not None and claim.state.value == "ignored"
    assert forge.replies(1) == []
    untouched(forge, capture)


def test_one_hint_however_often_it_is_heard_of_and_changed(forge: ForgeStage) -> None:
    forge.opened()
    made = forge.github.review(REPOSITORY, 1, "alice", APPROVE)
    assert [hear(forge, made) for _ in range(3)] == [True, False, False]
    forge.settle()
    for body in ("/capture-help", DENY):
        forge.github.edit_review(REPOSITORY, 1, made, "alice", body)
        assert not hear(forge, made, body=body)
        forge.settle()
    assert len(forge.replies(1)) == 1
    late = forge.github.review(REPOSITORY, 1, "bob", "text")
    assert not hear(forge, late, body="text")
    forge.github.edit_review(REPOSITORY, 1, late, "bob", APPROVE)
    assert hear(forge, late), "one that became a command is told once too"
    forge.settle()
    assert len(forge.replies(1)) == 2


def test_hints_share_the_budgets_of_an_hour_with_replies_to_comments(forge: ForgeStage) -> None:
    capture = forge.opened()
    forge.say(capture, "alice", "/approve-capture")
    forge.look()
    for _ in range(5):
        reviewed(forge, "alice", APPROVE)
    assert len(forge.replies(1)) == 3
    refused = [entry for entry in forge.ledger() if entry["kind"] == EventKind.VOTE_REFUSED]
    assert len(refused) == 1, "counted in one row a person, pull request and hour"
    reviewed(forge, "bob", APPROVE)
    assert len(forge.replies(1)) == 4


def test_a_look_up_that_fails_is_held_and_tried_again(forge: ForgeStage) -> None:
    forge.opened()
    forge.github.fail_next(READ, 502, times=2)
    claim = reviewed(forge, "alice", APPROVE)
    assert claim is not None and claim.state.value == "refused"
    assert len(forge.replies(1)) == 1
    assert [entry for entry in forge.ledger() if entry["kind"] == EventKind.CLAIM_HELD]


def test_an_unclear_answer_to_the_hint_leaves_one(forge: ForgeStage) -> None:
    forge.opened()
    forge.github.fail_next("POST /repos/{owner}/{repo}/issues/{issue_number}/comments", 502, after_effect=True)
    reviewed(forge, "alice", APPROVE)
    assert len(forge.replies(1)) == 1
