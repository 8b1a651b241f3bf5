"""Where the bot is a GitHub App, a check run mirrors its status comment; a comment that fails stops nothing."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitops_bot.authority.settling import Settled
from gitops_bot.core.asks import AskState
from gitops_bot.core.captures import CaptureState
from gitops_bot.core.ledger import EventKind
from gitops_bot.core.readings import Permission
from gitops_bot.sandbox.checks import Check, Wish
from gitops_bot.sandbox.http import Sandbox
from gitops_bot.store.captures import Capture
from gitops_bot.store.roles import Role
from tests.app_keys import APP, keys
from tests.capture_stage import REPOSITORY
from tests.decisions import rules_of
from tests.forge_stage import APPROVE, BOT_ID, DENY, PEOPLE, REPOSITORY_ID, WITH_WRITE, ForgeStage
from tests.store_fixtures import FreshDatabase

LOGIN = "gitops-bot[bot]"
CREATE = "POST /repos/{owner}/{repo}/check-runs"


@pytest.fixture
def stage(sqlite_database: FreshDatabase, tmp_path: Path) -> Iterator[ForgeStage]:
    """A broker that is the App of `app_keys`, with alice and bob who may write."""
    with Sandbox.start(tmp_path / "github") as github:
        for login, number in PEOPLE.items():
            github.add_account(login, number)
        github.add_app("gitops-bot", APP, BOT_ID, keys("ours")[1])
        github.add_repository(REPOSITORY, REPOSITORY_ID)
        for login in (LOGIN, "alice", "bob"):
            github.grant(REPOSITORY, login, "write")
        database = sqlite_database.open(Role.BROKER)
        made = ForgeStage(database, rules_of(WITH_WRITE), folder=tmp_path, github=github, token="", by_app=True)
        yield made
        made.adapter.disconnect()


def checks(stage: ForgeStage, capture: Capture) -> list[Check]:
    """The check runs on the commit that the pull request was opened with."""
    head = stage.capture(capture).head
    assert head is not None
    return list(stage.github.checks(REPOSITORY, head))


def test_a_check_run_follows_the_status_and_its_buttons_decide_nothing(stage: ForgeStage) -> None:
    capture = stage.opened()
    (waits,) = checks(stage, capture)
    assert (waits.name, waits.external_id, waits.status) == ("capture request", capture.ask, "in_progress")
    assert waits.output[1] == stage.status(1)
    assert [action["identifier"] for action in waits.actions] == ["refresh", "help"]
    stage.say(capture, "alice", APPROVE)
    stage.look()
    (ended,) = checks(stage, capture)
    assert (ended.id, ended.conclusion) == (waits.id, "success")
    assert ended.output[0] == "The trace is measured and the loop goes on under it."
    assert ended.output[1] == stage.status(1)


def test_a_denied_capture_is_no_success(stage: ForgeStage) -> None:
    capture = stage.opened()
    stage.say(capture, "alice", DENY)
    stage.look()
    assert [check.conclusion for check in checks(stage, capture)] == ["failure"]


def test_an_unclear_answer_makes_no_second_check_run(stage: ForgeStage) -> None:
    """It was made, and the answer was lost: the next attempt finds it."""
    stage.github.fail_next(CREATE, 502, after_effect=True)
    capture = stage.opened()
    assert len(checks(stage, capture)) == 1


def test_somebody_elses_check_run_with_the_same_names_is_not_taken(stage: ForgeStage) -> None:
    """Any workflow of the repository can make one that looks the same; it cannot keep the bot's own from showing."""
    capture = stage.requested()
    stage.github.fail_next(CREATE, 502)
    stage.settle()
    opened = stage.capture(capture)
    other = stage.github.add_app("actions", 15368, 41898282)
    with stage.github.world.lock:
        for check in checks(stage, opened):
            del stage.github.world.model.checks.runs[check.id]
        wish = Wish(name="capture request", external_id=opened.ask, conclusion="success")
        repository = stage.github.world.model.directory.repositories[REPOSITORY_ID]
        stage.github.world.model.checks.create(repository, other, opened.head or "", wish, int(time.time()))
    stage.say(opened, "alice", APPROVE)
    stage.look()
    own = [check for check in checks(stage, opened) if check.app.id == APP]
    assert [check.conclusion for check in own] == ["success"]


def test_39_on_a_locked_thread_the_status_goes_to_the_check_run(stage: ForgeStage) -> None:
    """The bot may not write there any more: the verdict stands, the loop is told, the check run shows the end."""
    capture = stage.opened()
    stage.github.delete_comment(REPOSITORY, stage.by_bot(1)[0].id, "alice")
    stage.github.lock_thread(REPOSITORY, 1)
    stage.github.grant(REPOSITORY, LOGIN, "triage")
    said = stage.answer(stage.get(capture.ask or ""), "alice", "approve", permission=Permission.WRITE)
    assert isinstance(said, Settled), said
    stage.settle()
    assert stage.get(capture.ask or "").state is AskState.APPROVED
    assert stage.capture(capture).state is CaptureState.RESCOPED
    assert stage.link.taken() == [f"loop-1:1 rescope:{capture.ask}"]
    assert stage.by_bot(1) == []
    assert [check.conclusion for check in checks(stage, capture)] == ["success"]
    failed = {entry["facts"]["kind"] for entry in stage.ledger() if entry["kind"] == EventKind.EFFECT_FAILED}
    assert failed == {"forge.status", "forge.record"}


def test_what_a_suspended_installation_keeps_from_being_written_is_written_after(
    stage: ForgeStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The verdict and the loop wait for nothing; status, record and check run come when a person gives it back."""
    monkeypatch.setattr("gitops_bot.forge.app.AGAIN", 0.2)
    capture = stage.opened()
    stage.github.suspend_installation(APP)
    said = stage.answer(stage.get(capture.ask or ""), "alice", "approve", permission=Permission.WRITE)
    assert isinstance(said, Settled), said
    back = threading.Timer(2.0, lambda: stage.github.suspend_installation(APP, suspended=False))
    back.start()
    stage.settle()
    back.join()
    assert stage.link.taken() == [f"loop-1:1 rescope:{capture.ask}"]
    assert "goes on under it" in stage.status(1)
    assert [check.conclusion for check in checks(stage, capture)] == ["success"]
    assert not stage.pull(1).pull.draft
    assert [entry for entry in stage.ledger() if entry["kind"] == EventKind.EFFECT_FAILED] == []


def test_without_a_check_run_the_comment_shows_it(stage: ForgeStage) -> None:
    """The other way round: the App lost its permission for checks."""
    stage.github.fail_next(CREATE, 410, times=50)
    capture = stage.opened()
    stage.say(capture, "alice", APPROVE)
    stage.look()
    assert checks(stage, capture) == []
    assert "goes on under it" in stage.status(1)
    assert stage.capture(capture).state is CaptureState.RESCOPED


def test_a_bot_with_a_token_makes_no_check_run(forge: ForgeStage) -> None:
    """The refusing twin of the first: nothing is even tried."""
    capture = forge.opened()
    assert checks(forge, capture) == []
    assert not [entry for entry in forge.ledger() if entry["facts"].get("kind") == "forge.check"]
