"""The poll through bad days: limits, restarts, clocks that differ, pages, tokens that change. Nothing is lost."""

import json
import time

import pytest

from gitops_bot.broker import polling
from gitops_bot.core.captures import CaptureState
from gitops_bot.forge.client import GitHubForge
from gitops_bot.store import due, outbox
from tests.capture_stage import REPOSITORY
from tests.forge_stage import APPROVE, BOT, ForgeStage

COMMENTS = "/repos/{owner}/{repo}/issues/comments"


def poll_due(forge: ForgeStage) -> int:
    """Milliseconds until the poll is due."""
    return forge.read(lambda tx: (due.next_due(tx, polling.DUTY) or 0) - tx.now)


def poll_once(forge: ForgeStage) -> None:
    with forge.database.write() as tx:
        due.set_due(tx, polling.DUTY, REPOSITORY, tx.now)
    next(duty for duty in forge.duties() if duty.name == polling.DUTY).step()


def test_a_limit_is_obeyed_by_coming_later_not_by_sleeping(forge: ForgeStage, monkeypatch: pytest.MonkeyPatch) -> None:
    capture = forge.opened()
    forge.say(capture, "alice", APPROVE)
    forge.github.secondary_limit(f"GET {COMMENTS}", retry_after=45)
    forge.github.reset_counters()
    with monkeypatch.context() as patch:
        patch.setattr(time, "sleep", lambda seconds: pytest.fail(f"slept {seconds} s"))
        poll_once(forge)
        assert 40_000 < poll_due(forge) <= 45_000
        poll_once(forge)  # somebody wants to know all the same: nothing is sent before its time
    assert forge.github.requests.total() == 1
    forge.restart()
    forge.look()
    assert forge.capture(capture).state is CaptureState.RESCOPED


def test_a_write_that_a_limit_turned_away_is_no_failed_attempt(forge: ForgeStage) -> None:
    capture = forge.opened()
    forge.say(capture, "alice", "/capture-help")
    forge.github.secondary_limit("POST */issues/*/comments", retry_after=1, times=15)
    for _ in range(15):
        forge.restart()  # a new process, which does not know that it must be quiet
        forge.look()
        with forge.database.write() as tx:
            due.set_due(tx, outbox.DUTY, f"capture:{capture.id}", tx.now)
    forge.settle()
    assert len(forge.replies(1)) == 1, "15 are more than an effect may fail"


@pytest.mark.parametrize("ahead", [-2 * 86_400, -3_600, 3_600, 30 * 86_400])
def test_a_forge_whose_clock_differs_is_polled_by_its_own_clock(forge: ForgeStage, ahead: int) -> None:
    forge.github.set_now(lambda: time.time() + ahead)
    capture = forge.requested()
    forge.settle()
    forge.look()
    cursor = json.loads(forge.cursor() or "{}")
    assert abs(cursor["since"] / 1000 - time.time() - ahead) < 60
    forge.say(capture, "alice", APPROVE)
    forge.look()
    assert forge.capture(capture).state is CaptureState.RESCOPED


def test_what_was_written_while_the_broker_was_away_is_found(forge: ForgeStage) -> None:
    capture = forge.opened()
    forge.restart()
    forge.say(capture, "alice", "/capture-help")
    forge.look()
    forge.restart()
    said = forge.say(capture, "alice", APPROVE)
    forge.look()
    assert len(forge.replies(1)) == 1 and forge.reactions(said) == ["eyes", "rocket"]


def test_a_death_between_the_listing_and_the_commit_loses_nothing(
    forge: ForgeStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    capture = forge.opened()
    forge.say(capture, "alice", APPROVE)
    with monkeypatch.context() as patch:
        patch.setattr(polling.settings, "set_cursor", lambda *_: (_ for _ in ()).throw(SystemExit("killed")))
        with pytest.raises(SystemExit):
            poll_once(forge)
    assert forge.count("claims") == 0
    forge.look()
    assert forge.capture(capture).state is CaptureState.RESCOPED


def test_a_new_token_turns_a_304_into_a_200_once(forge: ForgeStage) -> None:
    forge.opened()
    forge.look()
    forge.github.reset_counters()
    poll_once(forge)
    assert forge.github.answers == {("GET", COMMENTS, 304): 1}
    forge.adapter.disconnect()
    forge.adapter = GitHubForge(forge.github.url, forge.github.add_token(BOT))
    forge.adapter.repository(REPOSITORY)
    for expected in ({("GET", COMMENTS, 200): 1}, {("GET", COMMENTS, 304): 1}):
        forge.github.reset_counters()
        poll_once(forge)
        assert forge.github.answers == expected
    forge.adapter.disconnect()


def test_a_listing_of_many_pages_is_read_in_parts_and_lost_nowhere(forge: ForgeStage) -> None:
    """1,150 comments over ten minutes, more than one listing reads, with commands at both ends."""
    now = [time.time()]
    forge.github.set_now(lambda: now[0])
    capture = forge.opened()
    for index in range(1_150):
        now[0] += 0.5
        forge.say(capture, "mallory", f"chatter {index}")
    forge.say(capture, "alice", APPROVE)
    forge.look()
    assert forge.capture(capture).state is CaptureState.RESCOPED


def test_one_claim_however_often_a_comment_is_listed(forge: ForgeStage) -> None:
    capture = forge.opened()
    forge.say(capture, "alice", APPROVE)
    for _ in range(3):
        forge.look()
    assert forge.count("claims") == 1
