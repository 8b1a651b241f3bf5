"""One contract, two forges: the adapter over HTTP against the sandbox, the fake straight over the sandbox's world."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gitops_bot.core.errors import Unavailable
from gitops_bot.core.readings import Permission, PullRequest, Reaction
from gitops_bot.forge.client import GitHubForge
from gitops_bot.ports import Forge
from gitops_bot.sandbox.control import Control
from gitops_bot.sandbox.http import Sandbox
from gitops_bot.sandbox.records import App
from tests.app_keys import APP, forge_as_app, keys
from tests.contract.fake_forge import FakeForge

REPO = "acme/rig"
BRANCH = "capture/model-0123456789abcdef"
FILES = {"captures/model-0123456789abcdef/request.json": b'{"v":1}\n'}
START = 1_767_225_600


class Hand:
    """A clock moved by hand, in seconds since the epoch."""

    now = float(START)

    def __call__(self) -> float:
        return self.now


@dataclass(frozen=True, slots=True)
class Stage:
    """A forge under test, the people around it, and its clock."""

    forge: Forge
    people: Control
    clock: Hand
    bot: str = "gitops-bot"

    def draft(self, branch: str = BRANCH) -> PullRequest:
        """Publish a branch and open its draft."""
        self.forge.publish_branch(REPO, branch, FILES, "Ask")
        return self.forge.open_draft(REPO, branch, "Ask", "Text")


def populate(people: Control) -> str:
    token = people.add_account("gitops-bot", 900)
    for login, number in (("alice", 1001), ("bob", 1002), ("mallory", 1666)):
        people.add_account(login, number)
    people.add_repository(REPO, 5)
    people.grant(REPO, "gitops-bot", "write")
    people.grant(REPO, "alice", "maintain")
    people.grant(REPO, "bob", "triage")
    return token


def populate_app(people: Control) -> App:
    """As `populate`, with a bot that is a GitHub App and makes its own tokens."""
    app = people.add_app("gitops-bot", APP, 900, keys("ours")[1])
    for login, number in (("alice", 1001), ("bob", 1002), ("mallory", 1666)):
        people.add_account(login, number)
    people.add_repository(REPO, 5)
    for login, role in (("gitops-bot[bot]", "write"), ("alice", "maintain"), ("bob", "triage")):
        people.grant(REPO, login, role)
    return app


@pytest.fixture(params=["adapter", "app", "fake"])
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    clock = Hand()
    if request.param == "fake":
        control = Control(tmp_path, clock)
        populate(control)
        yield Stage(FakeForge(control, "gitops-bot"), control, clock)
        return
    with Sandbox.start(tmp_path, clock=clock) as sandbox:
        if request.param == "app":
            populate_app(sandbox)
            forge = forge_as_app(sandbox, clock, REPO)
        else:
            forge = GitHubForge(sandbox.url, populate(sandbox))
        yield Stage(forge, sandbox, clock, "gitops-bot[bot]" if request.param == "app" else "gitops-bot")
        forge.disconnect()


def test_the_bot_and_the_repository_are_known_by_number(stage: Stage) -> None:
    assert stage.forge.self_id() == 900
    found = stage.forge.repository(REPO)
    assert (found.id, found.full_name, found.default_branch) == (5, REPO, "main")
    assert found.at == START * 1000, "the forge's own time, not ours"
    with pytest.raises(Unavailable):
        stage.forge.repository("acme/absent")


# Branches and pull requests


def test_a_branch_is_published_once(stage: Stage) -> None:
    head = stage.forge.publish_branch(REPO, BRANCH, FILES, "Ask")
    assert stage.people.branches(REPO)[BRANCH] == head
    assert stage.people.read_file(REPO, BRANCH, next(iter(FILES))) == b'{"v":1}\n'
    assert stage.people.read_file(REPO, BRANCH, "README.md") is not None
    assert stage.forge.publish_branch(REPO, BRANCH, FILES, "Ask") == head


def test_a_branch_with_another_content_is_not_taken_for_the_bots(stage: Stage) -> None:
    """Who may write could put more than the request onto the branch before the bot comes."""
    stage.people.push(REPO, BRANCH, {**FILES, "evil.py": b"x"}, "alice")
    with pytest.raises(Unavailable):
        stage.forge.publish_branch(REPO, BRANCH, FILES, "Ask")
    stage.people.push(REPO, "capture/two", {"evil.py": b"x"}, "alice")
    stage.people.push(REPO, "capture/two", FILES, "alice")
    with pytest.raises(Unavailable):
        stage.forge.publish_branch(REPO, "capture/two", FILES, "Ask")


def test_a_draft_is_opened_once_and_again_after_it_closed(stage: Stage) -> None:
    first = stage.draft()
    assert (first.state, first.draft, first.merged, first.author_id) == ("open", True, False, 900)
    assert (first.head_ref, first.head_sha) == (BRANCH, stage.people.branches(REPO)[BRANCH])
    assert (first.base_ref, first.base_sha) == ("main", stage.people.branches(REPO)["main"])
    assert stage.draft() == first
    assert stage.forge.find_pull_request(REPO, BRANCH) == first
    stage.forge.close(REPO, first.number)
    closed = stage.forge.find_pull_request(REPO, BRANCH)
    assert closed is not None
    assert (closed.number, closed.state) == (first.number, "closed")
    second = stage.draft()
    assert second.number != first.number
    assert stage.forge.find_pull_request(REPO, BRANCH) == second


def test_what_is_no_pull_request_is_none(stage: Stage) -> None:
    issue = stage.people.issue(REPO, "alice", "An issue")
    assert stage.forge.pull_request(REPO, issue) is None
    assert stage.forge.pull_request(REPO, 999) is None
    assert stage.forge.find_pull_request(REPO, "capture/none") is None
    assert stage.forge.pull_request(REPO, stage.draft().number) is not None


def test_a_moved_head_and_a_moved_base_are_seen(stage: Stage) -> None:
    opened = stage.draft()
    moved = stage.people.push(REPO, BRANCH, {"more": b"x"}, "alice")
    base = stage.people.push(REPO, "main", {"other": b"x"}, "alice")
    read = stage.forge.pull_request(REPO, opened.number)
    assert read is not None
    assert (read.head_sha, read.base_sha) == (moved, base)
    assert moved != opened.head_sha


def test_ready_and_closed_are_reached_twice_as_once(stage: Stage) -> None:
    number = stage.draft().number
    for _ in range(2):
        stage.forge.mark_ready(REPO, number)
    read = stage.forge.pull_request(REPO, number)
    assert read is not None
    assert (read.draft, read.state) == (False, "open")
    for _ in range(2):
        stage.forge.close(REPO, number)
    read = stage.forge.pull_request(REPO, number)
    assert read is not None
    assert (read.state, read.merged) == ("closed", False)
    with pytest.raises(Unavailable):
        stage.forge.mark_ready(REPO, 999)


def test_a_file_is_committed_once(stage: Stage) -> None:
    asked = stage.draft().head_sha
    head = stage.forge.commit_file(REPO, BRANCH, "captures/x/calibration.json", b"{}", "Measured")
    assert head != asked
    assert stage.people.read_file(REPO, BRANCH, "captures/x/calibration.json") == b"{}"
    assert stage.forge.commit_file(REPO, BRANCH, "captures/x/calibration.json", b"{}", "Measured") == head
    assert stage.people.branches(REPO)[BRANCH] == head
    with pytest.raises(Unavailable):
        stage.forge.commit_file(REPO, "capture/none", "x", b"", "Measured")


# Reading comments


def test_a_comment_is_read_with_its_author_and_marks(stage: Stage) -> None:
    number = stage.draft().number
    read = stage.forge.comment(REPO, stage.people.comment(REPO, number, "alice", "/capture-help\r\nthanks"))
    assert read is not None
    assert (read.repository_id, read.pull_request, read.author_id, read.author_type) == (5, number, 1001, "User")
    assert (read.body, read.created_at) == ("/capture-help\r\nthanks", START * 1000)
    assert not (read.edited or read.minimised or read.via_app or read.via_email)
    assert b"/capture-help" in read.raw


def test_each_mark_is_seen(stage: Stage) -> None:
    number = stage.draft().number
    edited, minimised = (stage.people.comment(REPO, number, "bob", "text") for _ in range(2))
    stage.people.edit_comment(REPO, edited, "alice", "/capture-help")
    stage.people.minimise(REPO, minimised, "alice")
    mailed = stage.people.comment(REPO, number, "bob", "text", via_email=True)
    by_app = stage.people.comment(REPO, number, "bob", "text", app=App(3, "tracker"))
    marks = {}
    for comment_id in (edited, minimised, mailed, by_app):
        read = stage.forge.comment(REPO, comment_id)
        assert read is not None
        marks[comment_id] = (read.edited, read.minimised, read.via_email, read.via_app)
    assert marks == {
        edited: (True, False, False, False),
        minimised: (False, True, False, False),
        mailed: (False, False, True, False),
        by_app: (False, False, False, True),
    }


def test_a_comment_that_is_gone_or_elsewhere_is_none(stage: Stage) -> None:
    comment_id = stage.people.comment(REPO, stage.draft().number, "alice", "text")
    stage.people.add_repository("acme/other", 6)
    assert stage.forge.comment("acme/other", comment_id) is None
    assert stage.forge.comment(REPO, comment_id) is not None
    stage.people.delete_comment(REPO, comment_id, "alice")
    assert stage.forge.comment(REPO, comment_id) is None


# Listing comments


def test_a_review_is_read_with_its_author(stage: Stage) -> None:
    number = stage.draft().number
    made = stage.people.review(REPO, number, "bob", "/capture-help\nmore", "APPROVE")
    found = stage.forge.review(REPO, number, made)
    assert found is not None
    assert (found.id, found.pull_request, found.body) == (made, number, "/capture-help\nmore")
    assert (found.author_id, found.author_login, found.author_type) == (1002, "bob", "User")
    assert str(made).encode() in found.raw
    stage.people.edit_review(REPO, number, made, "bob", "later")
    again = stage.forge.review(REPO, number, made)
    assert again is not None and again.body == "later"


def test_a_review_that_is_gone_or_of_another_pull_request_is_none(stage: Stage) -> None:
    number = stage.draft().number
    made = stage.people.review(REPO, number, "bob", "text")
    other = stage.draft("capture/other").number
    assert stage.forge.review(REPO, other, made) is None
    assert stage.forge.review(REPO, 99, made) is None
    stage.people.delete_review(REPO, number, made)
    assert stage.forge.review(REPO, number, made) is None


def test_comments_since_a_second_are_listed_oldest_first_edits_too(stage: Stage) -> None:
    number = stage.draft().number
    first = stage.people.comment(REPO, number, "alice", "one")
    stage.clock.now += 10
    second = stage.people.comment(REPO, number, "bob", "two")
    third = stage.people.comment(REPO, number, "bob", "three")
    issue = stage.people.issue(REPO, "alice", "An issue")
    stage.people.comment(REPO, issue, "alice", "elsewhere")
    page = stage.forge.comments_since(REPO, START * 1000, None)
    assert [hint.comment_id for hint in page.hints] == [first, second, third]
    assert (page.hints[0].repository_id, page.hints[0].pull_request, page.hints[0].body) == (5, number, "one")
    assert page.newest == (START + 10) * 1000
    inclusive = stage.forge.comments_since(REPO, (START + 10) * 1000 + 999, None)
    assert [hint.comment_id for hint in inclusive.hints] == [second, third]
    stage.clock.now += 10
    stage.people.edit_comment(REPO, first, "alice", "changed")
    later = stage.forge.comments_since(REPO, (START + 11) * 1000, None)
    assert [(hint.comment_id, hint.body) for hint in later.hints] == [(first, "changed")]
    assert stage.forge.comments_since(REPO, (START + 99) * 1000, None).newest is None


def test_every_page_is_listed(stage: Stage) -> None:
    """Case 40: a comment on a later page of the listing is seen, within one second and across seconds."""
    number = stage.draft().number
    written = []
    for index in range(230):
        if index in (60, 215):
            stage.clock.now += 1
        written.append(stage.people.comment(REPO, number, "alice", f"text {index}"))
    page = stage.forge.comments_since(REPO, START * 1000, None)
    assert [hint.comment_id for hint in page.hints] == written
    assert page.etag is None


def test_an_unchanged_listing_is_said_to_be_unchanged(stage: Stage) -> None:
    number = stage.draft().number
    stage.people.comment(REPO, number, "alice", "one")
    first = stage.forge.comments_since(REPO, START * 1000, None)
    assert first.etag is not None
    again = stage.forge.comments_since(REPO, START * 1000, first.etag)
    assert again.unchanged
    assert again.hints == ()
    assert again.etag == first.etag
    stage.people.comment(REPO, number, "alice", "two")
    changed = stage.forge.comments_since(REPO, START * 1000, first.etag)
    assert not changed.unchanged
    assert len(changed.hints) == 2


# Listing pull requests


def test_pull_requests_are_listed_newest_change_first(stage: Stage) -> None:
    first = stage.draft()
    stage.clock.now += 10
    second = stage.draft("capture/two")
    stage.clock.now += 10
    stage.people.set_state(REPO, first.number, "alice", "closed")
    page = stage.forge.pulls_since(REPO, None, None)
    assert [(pull.number, pull.state) for pull in page.pulls] == [(first.number, "closed"), (second.number, "open")]
    assert page.newest == (START + 20) * 1000
    later = stage.forge.pulls_since(REPO, (START + 11) * 1000, None)
    assert [pull.number for pull in later.pulls] == [first.number]


def test_every_change_of_a_pull_request_ends_the_304(stage: Stage) -> None:
    opened = stage.draft()
    seen = stage.forge.pulls_since(REPO, None, None)
    assert stage.forge.pulls_since(REPO, seen.newest, seen.etag).unchanged
    changes = (
        lambda: stage.people.push(REPO, BRANCH, {"more": b"x"}, "alice"),
        lambda: stage.people.set_draft(REPO, opened.number, "alice", False),
        lambda: stage.people.set_state(REPO, opened.number, "alice", "closed"),
    )
    for change in changes:
        stage.clock.now += 10
        change()
        seen = stage.forge.pulls_since(REPO, seen.newest, seen.etag)
        assert not seen.unchanged
        assert [pull.number for pull in seen.pulls] == [opened.number]
        assert stage.forge.pulls_since(REPO, seen.newest, seen.etag).unchanged


@pytest.mark.slow
def test_more_than_a_page_of_pull_requests_is_read_back_to_the_time(stage: Stage) -> None:
    for index in range(105):
        stage.people.push(REPO, f"b{index}", {"f": b"x"}, "alice")
        stage.forge.open_draft(REPO, f"b{index}", "Ask", "Text")
    page = stage.forge.pulls_since(REPO, START * 1000, None)
    assert len(page.pulls) == 105
    assert len(stage.forge.pulls_since(REPO, None, None).pulls) == 100


def test_who_closed_is_told_by_number(stage: Stage) -> None:
    opened = stage.draft()
    assert stage.forge.closing(REPO, opened.number) is None
    assert stage.forge.closing(REPO, 999) is None
    stage.people.set_state(REPO, opened.number, "bob", "closed")
    closing = stage.forge.closing(REPO, opened.number)
    assert closing is not None
    assert (closing.account_id, closing.login, closing.account_type) == (1002, "bob", "User")
    assert b"1002" in closing.raw


def test_a_comment_brings_its_pull_request_as_it_is_then(stage: Stage) -> None:
    opened = stage.draft()
    said = stage.people.comment(REPO, opened.number, "alice", "text")
    read = stage.forge.comment(REPO, said)
    assert read is not None
    assert read.pull == stage.forge.pull_request(REPO, opened.number)
    stage.people.push(REPO, BRANCH, {"more": b"x"}, "alice")
    stage.people.set_draft(REPO, opened.number, "alice", False)
    stage.people.set_state(REPO, opened.number, "alice", "closed")
    read = stage.forge.comment(REPO, said)
    assert read is not None
    assert read.pull == stage.forge.pull_request(REPO, opened.number)
    assert read.pull is not None
    assert (read.pull.state, read.pull.draft) == ("closed", False)
    issue = stage.people.issue(REPO, "alice", "An issue")
    elsewhere = stage.forge.comment(REPO, stage.people.comment(REPO, issue, "alice", "text"))
    assert elsewhere is not None
    assert elsewhere.pull is None


# Permission


def test_permission_is_the_exact_role(stage: Stage) -> None:
    assert stage.forge.permission(REPO, "alice", 1001) is Permission.MAINTAIN
    assert stage.forge.permission(REPO, "bob", 1002) is Permission.TRIAGE
    assert stage.forge.permission(REPO, "mallory", 1666) is Permission.READ
    assert stage.forge.permission(REPO, "nobody", 7) is Permission.NONE


def test_a_login_that_was_taken_over_has_no_permission(stage: Stage) -> None:
    stage.people.rename("alice", "alice-old")
    stage.people.rename("mallory", "alice")
    stage.people.grant(REPO, "alice", "admin")
    assert stage.forge.permission(REPO, "alice", 1001) is Permission.NONE
    assert stage.forge.permission(REPO, "alice", 1666) is Permission.ADMIN


def test_a_bot_that_may_not_look_does_not_know(stage: Stage) -> None:
    """I14: the forge's 403 is not the account's no."""
    stage.people.grant(REPO, stage.bot, "read")
    with pytest.raises(Unavailable):
        stage.forge.permission(REPO, "alice", 1001)


# Writing


def test_the_status_comment_is_found_again_by_its_marker_and_edited_in_place(stage: Stage) -> None:
    number, marker = stage.draft().number, "<!-- gitops-bot:ask=01 -->"
    stage.people.comment(REPO, number, "mallory", marker)
    assert stage.forge.find_comment(REPO, number, marker) is None
    written = stage.forge.create_comment(REPO, number, f"{marker}\n\nopen")
    assert stage.forge.find_comment(REPO, number, marker) == written
    stage.forge.edit_comment(REPO, written, f"{marker}\n\nended")
    assert [comment.body for comment in stage.people.comments(REPO, number)] == [marker, f"{marker}\n\nended"]


def test_a_reaction_left_twice_is_there_once(stage: Stage) -> None:
    comment_id = stage.people.comment(REPO, stage.draft().number, "alice", "text")
    for reaction in (Reaction.EYES, Reaction.EYES, Reaction.ROCKET):
        stage.forge.react(REPO, comment_id, reaction)
    assert [left.content for left in stage.people.reactions(comment_id)] == ["eyes", "rocket"]


def test_what_the_forge_refuses_is_unavailable_and_changes_nothing(stage: Stage) -> None:
    number = stage.draft().number
    with pytest.raises(Unavailable):
        stage.forge.create_comment(REPO, number, "x" * 65_537)
    with pytest.raises(Unavailable):
        stage.forge.create_comment(REPO, 999, "text")
    with pytest.raises(Unavailable):
        stage.forge.edit_comment(REPO, 999, "text")
    stage.people.lock_thread(REPO, number)
    stage.people.grant(REPO, stage.bot, "read")
    with pytest.raises(Unavailable):
        stage.forge.create_comment(REPO, number, "text")
    assert stage.people.comments(REPO, number) == ()
    stage.people.grant(REPO, stage.bot, "write")
    assert stage.forge.create_comment(REPO, number, "text") > 0


def test_an_unclear_answer_leaves_one_comment_that_can_be_found(tmp_path: Path) -> None:
    """Case 36: the forge answers 502 after it created the comment; the adapter does not write a second one."""
    with Sandbox.start(tmp_path) as sandbox:
        forge = GitHubForge(sandbox.url, populate(sandbox))
        forge.publish_branch(REPO, BRANCH, FILES, "Ask")
        number = forge.open_draft(REPO, BRANCH, "Ask", "Text").number
        sandbox.fail_next("POST */issues/*/comments", 502, after_effect=True)
        with pytest.raises(Unavailable):
            forge.create_comment(REPO, number, "<!-- mark -->")
        assert len(sandbox.comments(REPO, number)) == 1
        assert forge.find_comment(REPO, number, "<!-- mark -->") == sandbox.comments(REPO, number)[0].id
        forge.disconnect()


def test_the_fake_fails_where_it_is_told(tmp_path: Path) -> None:
    control = Control(tmp_path, Hand())
    populate(control)
    forge = FakeForge(control, "gitops-bot")
    number = Stage(forge, control, Hand()).draft().number
    forge.fail_next("create_comment", retry_after=3)
    forge.fail_next("create_comment", after_effect=True)
    for expected, wait in ((0, 3), (1, None)):
        with pytest.raises(Unavailable) as caught:
            forge.create_comment(REPO, number, "text")
        assert caught.value.retry_after == wait
        assert len(control.comments(REPO, number)) == expected
    assert forge.create_comment(REPO, number, "text") > 0
