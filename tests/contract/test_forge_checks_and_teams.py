"""The same contract, adapter and fake: who is in a team, and check runs of a bot that is a GitHub App."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gitops_bot.core.errors import Unavailable
from gitops_bot.core.readings import Check, CheckButton, Conclusion, Reaction
from gitops_bot.forge.client import GitHubForge
from gitops_bot.sandbox.control import Control
from gitops_bot.sandbox.http import Sandbox
from gitops_bot.sandbox.records import App
from tests.contract.fake_forge import FakeForge
from tests.contract.test_forge import REPO, Hand, Stage, populate

TEAM = 4711
CHECK = Check(
    "capture request",
    "01J0000000000000000000000A",
    None,
    "Waits for a person",
    "One approval is missing.",
    (CheckButton("Refresh", "Read everything again", "refresh"),),
)


def _with_team(people: Control) -> str:
    token = populate(people)
    people.add_team("acme", "Judge Keepers", TEAM)
    people.set_membership(TEAM, "alice", "active")
    people.set_membership(TEAM, "bob", "pending")
    return token


def _with_app(people: Control) -> App:
    _with_team(people)
    app = people.add_app("gitops-app", 77, 901)
    people.grant(REPO, "gitops-app[bot]", "write")
    return app


@pytest.fixture(params=["adapter", "fake"])
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    """A bot with a token of its own, and a team."""
    clock = Hand()
    if request.param == "fake":
        control = Control(tmp_path, clock)
        _with_team(control)
        yield Stage(FakeForge(control, "gitops-bot"), control, clock)
        return
    with Sandbox.start(tmp_path, clock=clock) as sandbox:
        forge = GitHubForge(sandbox.url, _with_team(sandbox))
        yield Stage(forge, sandbox, clock)
        forge.disconnect()


@pytest.fixture(params=["adapter", "fake"])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    """A bot that is a GitHub App."""
    clock = Hand()
    if request.param == "fake":
        control = Control(tmp_path, clock)
        made = _with_app(control)
        yield Stage(FakeForge(control, "gitops-app[bot]", made), control, clock)
        return
    with Sandbox.start(tmp_path, clock=clock) as sandbox:
        token = sandbox.installation_token(_with_app(sandbox))
        assert len(token) > 255, "no column, pattern or redaction may assume a length"
        forge = GitHubForge(sandbox.url, token, account_id=901)
        yield Stage(forge, sandbox, clock)
        forge.disconnect()


def test_only_an_active_member_is_one(stage: Stage) -> None:
    assert stage.forge.team_member(REPO, TEAM, "alice", 1001) is True
    assert stage.forge.team_member(REPO, TEAM, "bob", 1002) is False, "invited is not yet in"
    assert stage.forge.team_member(REPO, TEAM, "mallory", 1666) is False
    assert stage.forge.team_member(REPO, 4712, "alice", 1001) is False
    assert stage.forge.team_member(REPO, TEAM, "nobody", 7) is False
    stage.people.set_membership(TEAM, "alice", None)
    assert stage.forge.team_member(REPO, TEAM, "alice", 1001) is False


def test_a_team_of_another_organisation_is_none_of_this_repositorys(stage: Stage) -> None:
    stage.people.add_account("other", 3000, "Organization")
    stage.people.add_team("other", "Judge Keepers", 5000)
    stage.people.set_membership(5000, "alice", "active")
    assert stage.forge.team_member(REPO, 5000, "alice", 1001) is False
    assert stage.forge.team_member(REPO, TEAM, "alice", 1001) is True


def test_a_login_that_was_taken_over_is_in_no_team(stage: Stage) -> None:
    """Even where its new holder is in the team: the question was about another account."""
    stage.people.rename("alice", "alice-old")
    stage.people.rename("mallory", "alice")
    stage.people.set_membership(TEAM, "alice", "active")
    assert stage.forge.team_member(REPO, TEAM, "alice", 1001) is False
    assert stage.forge.team_member(REPO, TEAM, "alice", 1666) is True
    assert stage.forge.team_member(REPO, TEAM, "alice-old", 1001) is True


def test_who_may_not_look_does_not_know(stage: Stage) -> None:
    """I14: 403 is unknown, and neither a member nor none."""
    stage.people.hide_teams("acme", "gitops-bot")
    for login, account in (("alice", 1001), ("mallory", 1666)):
        with pytest.raises(Unavailable):
            stage.forge.team_member(REPO, TEAM, login, account)
    stage.people.hide_teams("acme", "gitops-bot", hidden=False)
    assert stage.forge.team_member(REPO, TEAM, "alice", 1001) is True


def test_a_check_run_is_shown_found_and_changed(app: Stage) -> None:
    head = app.draft().head_sha
    assert app.forge.find_check(REPO, head, CHECK) is None
    made = app.forge.create_check(REPO, head, CHECK)
    assert app.forge.find_check(REPO, head, CHECK) == made
    assert app.forge.find_check(REPO, head, replace(CHECK, external_id="another")) is None
    app.forge.update_check(REPO, made, replace(CHECK, conclusion=Conclusion.SUCCESS, title="Approved", buttons=()))
    (shown,) = app.people.checks(REPO, head)
    assert (shown.status, shown.conclusion, shown.external_id) == ("completed", "success", CHECK.external_id)
    assert shown.output == ("Approved", CHECK.summary, None)
    assert shown.actions == ()


def test_a_check_run_of_an_older_head_stays_there(app: Stage) -> None:
    head = app.draft().head_sha
    app.forge.create_check(REPO, head, CHECK)
    moved = app.people.push(REPO, app.draft().head_ref, {"more": b"x"}, "alice")
    assert app.forge.find_check(REPO, moved, CHECK) is None


def test_a_check_run_on_nothing_or_of_nobody_is_refused(app: Stage) -> None:
    with pytest.raises(Unavailable):
        app.forge.create_check(REPO, "f" * 40, CHECK)
    with pytest.raises(Unavailable):
        app.forge.update_check(REPO, 999, CHECK)


def test_a_bot_that_is_no_app_shows_no_check_run(stage: Stage) -> None:
    head = stage.draft().head_sha
    with pytest.raises(Unavailable) as caught:
        stage.forge.create_check(REPO, head, CHECK)
    assert caught.value.refused
    assert stage.people.checks(REPO, head) == ()


def test_a_bot_that_is_an_app_does_all_the_rest_too(app: Stage) -> None:
    """Its own id is told to it: `GET /user` is not for an installation's token."""
    assert app.forge.self_id() == 901
    opened = app.draft()
    assert app.forge.find_pull_request(REPO, opened.head_ref) == opened
    assert app.forge.team_member(REPO, TEAM, "alice", 1001) is True
    written = app.forge.create_comment(REPO, opened.number, "<!-- mark -->")
    assert app.forge.find_comment(REPO, opened.number, "<!-- mark -->") == written
    app.forge.react(REPO, written, Reaction.EYES)
    app.forge.mark_ready(REPO, opened.number)
    read = app.forge.comment(REPO, written)
    assert read is not None
    assert read.author_type == "Bot"
    assert read.pull is not None
    assert not read.pull.draft


def test_an_installations_token_ends(tmp_path: Path) -> None:
    """After its hour the old token is 401, the next one works; a 304 of the old one is 200 under the new one."""
    clock = Hand()
    with Sandbox.start(tmp_path, clock=clock) as sandbox:
        app = _with_app(sandbox)
        old = GitHubForge(sandbox.url, sandbox.installation_token(app), account_id=901)
        number = Stage(old, sandbox, clock).draft().number
        sandbox.comment(REPO, number, "alice", "text")
        etag = old.comments_since(REPO, 0, None).etag
        assert old.comments_since(REPO, 0, etag).unchanged
        clock.now += 3600
        with pytest.raises(Unavailable):
            old.comments_since(REPO, 0, etag)
        new = GitHubForge(sandbox.url, sandbox.installation_token(app), account_id=901)
        fresh = new.comments_since(REPO, 0, etag)
        assert not fresh.unchanged
        assert new.comments_since(REPO, 0, fresh.etag).unchanged
        old.disconnect()
        new.disconnect()
