"""The forge's rules without HTTP and git: who may do what, and what is remembered."""

import pytest

from gitops_bot.sandbox.model import Model
from gitops_bot.sandbox.records import AccountType, App, Pull, Repository, Role, Thread
from gitops_bot.sandbox.refusals import Rejected

ALICE, BOB, CAROL, BOT = 1001, 1002, 1003, 2001
BASE, HEAD, NEXT = "a" * 40, "b" * 40, "c" * 40


class Scene:
    """A public and a private repository; alice writes, bob triages, carol has nothing."""

    def __init__(self) -> None:
        self.model = Model()
        directory = self.model.directory
        for login, account in (("alice", ALICE), ("bob", BOB), ("carol", CAROL)):
            directory.add_account(login, account, AccountType.USER, 0)
        directory.add_account("gitops-bot[bot]", BOT, AccountType.BOT, 0)
        self.public = directory.add_repository("acme/judge", 501, "main", False, self.model.ids.take(), 0)
        self.private = directory.add_repository("acme/vault", 502, "main", True, self.model.ids.take(), 0)
        for repository in (self.public, self.private):
            directory.grant(repository.id, ALICE, Role.WRITE)
            directory.grant(repository.id, BOB, Role.TRIAGE)
            directory.grant(repository.id, BOT, Role.MAINTAIN)

    def pull(self, branch: str = "capture/x-1", *, repository: Repository | None = None, now: int = 10) -> Thread:
        """Open a draft by the bot."""
        drafted = Pull(0, branch, "main", HEAD, BASE, draft=True)
        return self.model.threads.open_pull(repository or self.public, BOT, "A capture", None, drafted, now)


@pytest.fixture
def scene() -> Scene:
    """A fresh forge."""
    return Scene()


@pytest.mark.parametrize(
    ("role", "permission"),
    [
        ("none", "none"),
        ("read", "read"),
        ("triage", "read"),
        ("write", "write"),
        ("maintain", "write"),
        ("admin", "admin"),
    ],
)
def test_role_names_read_as_the_older_permission(role: str, permission: str) -> None:
    """Maintain reads as write and triage as read, so a policy must look at role_name."""
    assert Role(role).permission == permission


def test_roles_are_ordered_and_none_reaches_nothing_but_itself() -> None:
    """A larger role includes the smaller ones; none includes no other (I13)."""
    assert Role.MAINTAIN.reaches(Role.WRITE)
    assert not Role.TRIAGE.reaches(Role.WRITE)
    assert not Role.NONE.reaches(Role.READ)


def test_a_stranger_reads_a_public_repository_and_not_a_private_one(scene: Scene) -> None:
    """Without a grant a public repository gives read, a private one nothing, and denies that it exists."""
    directory = scene.model.directory
    assert directory.role(scene.public, CAROL) is Role.READ
    assert directory.role(scene.private, CAROL) is Role.NONE
    with pytest.raises(Rejected) as refused:
        directory.require(scene.private, CAROL, Role.READ)
    assert refused.value.status == 404
    directory.require(scene.private, BOB, Role.READ)


def test_who_reads_and_may_not_write_is_told_403(scene: Scene) -> None:
    """The refusing twin of a write is 403, not 404, for who may read."""
    with pytest.raises(Rejected) as refused:
        scene.model.directory.require(scene.public, CAROL, Role.WRITE)
    assert refused.value.status == 403
    scene.model.directory.require(scene.public, ALICE, Role.WRITE)


def test_an_id_survives_a_rename_and_the_login_can_be_taken_over(scene: Scene) -> None:
    """Logins are reused at GitHub; roles stay with the id."""
    directory = scene.model.directory
    directory.rename_account(ALICE, "alice-2")
    newcomer = directory.add_account("alice", 4001, AccountType.USER, 5)
    assert directory.account_named("ALICE") == newcomer
    assert directory.role(scene.private, newcomer.id) is Role.NONE
    assert directory.role(scene.private, ALICE) is Role.WRITE


@pytest.mark.parametrize(("login", "account"), [("alice", 9), ("Alice", 9), ("dave", ALICE), ("no login", 9), ("", 9)])
def test_a_taken_or_impossible_account_is_not_made(scene: Scene, login: str, account: int) -> None:
    """Each login and id stands for one account; the accepting twin has both free."""
    with pytest.raises(ValueError, match=r"taken|not a login"):
        scene.model.directory.add_account(login, account, AccountType.USER, 0)
    scene.model.directory.add_account("dave", 9, AccountType.USER, 0)


def test_a_comment_remembers_its_edits_and_its_time_moves(scene: Scene) -> None:
    """Anyone with write access edits anyone's comment; the editor, the time and the old text stay known."""
    thread = scene.pull()
    comment = scene.model.comments.add_comment(thread, CAROL, "/approve-capture", 20)
    assert (comment.created_at, comment.updated_at, comment.edits) == (20, 20, ())
    edited = scene.model.comments.edit_comment(comment, ALICE, "something else", 30)
    assert edited.updated_at == 30
    assert edited.created_at == 20
    assert [(e.editor_id, e.at, e.before) for e in edited.edits] == [(ALICE, 30, "/approve-capture")]


def test_a_triager_edits_no_comment_of_somebody_else(scene: Scene) -> None:
    """Refused without write access; the author's own edit is the accepting twin."""
    comment = scene.model.comments.add_comment(scene.pull(), CAROL, "text", 20)
    with pytest.raises(Rejected) as refused:
        scene.model.comments.edit_comment(comment, BOB, "text of bob", 21)
    assert refused.value.status == 403
    assert scene.model.comments.edit_comment(comment, CAROL, "other", 21).body == "other"


def test_minimising_hides_without_moving_the_time(scene: Scene) -> None:
    """A poll by `since` does not see that a comment was minimised; a fresh read does."""
    comment = scene.model.comments.add_comment(scene.pull(), CAROL, "text", 20)
    with pytest.raises(Rejected):
        scene.model.comments.minimise_comment(comment, CAROL)
    hidden = scene.model.comments.minimise_comment(comment, ALICE)
    assert (hidden.minimised, hidden.updated_at) == (True, 20)


def test_a_body_of_the_limit_is_kept_and_one_more_is_422(scene: Scene) -> None:
    """65,536 characters, counted in characters and not bytes."""
    thread = scene.pull()
    assert len(scene.model.comments.add_comment(thread, CAROL, "é" * 65_536, 20).body) == 65_536
    with pytest.raises(Rejected) as refused:
        scene.model.comments.add_comment(thread, CAROL, "é" * 65_537, 20)
    assert refused.value.status == 422
    assert refused.value.errors[0]["message"] == "Body is too long (maximum is 65536 characters)"


@pytest.mark.parametrize("body", ["", "  \n", "a\x00b"])
def test_an_empty_or_broken_body_is_422(scene: Scene, body: str) -> None:
    """Nothing is stored that GitHub would not store."""
    with pytest.raises(Rejected) as refused:
        scene.model.comments.add_comment(scene.pull(), CAROL, body, 20)
    assert refused.value.status == 422


def test_a_locked_conversation_takes_writers_only(scene: Scene) -> None:
    """403 to everybody else, as GitHub answers."""
    thread = scene.model.threads.set_locked(scene.pull(), ALICE, True)
    with pytest.raises(Rejected) as refused:
        scene.model.comments.add_comment(thread, CAROL, "text", 20)
    assert refused.value.status == 403
    assert scene.model.comments.add_comment(thread, ALICE, "text", 20).author_id == ALICE


def test_a_reaction_is_left_once(scene: Scene) -> None:
    """The second time is told as not new and changes nothing; another content or person is another reaction."""
    comment = scene.model.comments.add_comment(scene.pull(), CAROL, "text", 20)
    first, new = scene.model.comments.react(comment, BOT, "eyes", 21)
    again, second = scene.model.comments.react(comment, BOT, "eyes", 22)
    assert (new, second, again) == (True, False, first)
    scene.model.comments.react(comment, BOT, "rocket", 23)
    scene.model.comments.react(comment, ALICE, "eyes", 24)
    assert len(scene.model.comments.reactions_to(comment.id)) == 3
    with pytest.raises(Rejected):
        scene.model.comments.react(comment, BOT, "thumbsup", 25)


def test_a_deleted_comment_is_gone_with_its_reactions(scene: Scene) -> None:
    """404 afterwards, and its id is never given again."""
    comment = scene.model.comments.add_comment(scene.pull(), CAROL, "text", 20)
    scene.model.comments.react(comment, BOT, "eyes", 21)
    with pytest.raises(Rejected):
        scene.model.comments.delete_comment(comment, BOB)
    scene.model.comments.delete_comment(comment, CAROL)
    with pytest.raises(Rejected) as refused:
        scene.model.comments.comment(scene.public, comment.id)
    assert refused.value.status == 404
    assert scene.model.comments.reactions_to(comment.id) == ()
    thread = scene.model.threads.thread(scene.public, 1)
    assert scene.model.comments.add_comment(thread, CAROL, "again", 22).id > comment.id


def test_a_comment_is_found_in_its_own_repository_only(scene: Scene) -> None:
    """(repository, comment) is the pair of a hint; a right id in the wrong repository finds nothing."""
    comment = scene.model.comments.add_comment(scene.pull(), CAROL, "text", 20)
    assert scene.model.comments.comment(scene.public, comment.id) == comment
    with pytest.raises(Rejected):
        scene.model.comments.comment(scene.private, comment.id)


def test_the_head_follows_its_branch_until_the_pull_request_closes(scene: Scene) -> None:
    """A push moves an open head and its time; a closed one keeps what it had; a moved base moves no time."""
    scene.pull()
    threads = scene.model.threads
    threads.see_tips(scene.public, {"capture/x-1": NEXT, "main": BASE}, 40)
    moved = threads.pull(scene.public, 1)
    assert moved.pull is not None
    assert (moved.pull.head_sha, moved.updated_at) == (NEXT, 40)
    threads.see_tips(scene.public, {"capture/x-1": NEXT, "main": HEAD}, 50)
    moved = threads.pull(scene.public, 1)
    assert moved.pull is not None
    assert (moved.pull.base_sha, moved.updated_at) == (HEAD, 40)
    threads.edit_thread(moved, BOT, 60, state="closed")
    threads.see_tips(scene.public, {"capture/x-1": HEAD, "main": NEXT}, 70)
    closed = threads.pull(scene.public, 1)
    assert closed.pull is not None
    assert (closed.pull.head_sha, closed.pull.base_sha, closed.closed_by) == (NEXT, HEAD, BOT)


def test_a_deleted_branch_closes_and_leaves_the_last_head(scene: Scene) -> None:
    """GitHub closes in the name of who deleted it, and keeps showing the head that a pull request had."""
    scene.pull()
    scene.model.threads.see_tips(scene.public, {"main": BASE}, 40, ALICE)
    found = scene.model.threads.pull(scene.public, 1)
    assert found.pull is not None
    assert (found.pull.head_sha, found.open, found.closed_by) == (HEAD, False, ALICE)


def test_one_open_pull_request_a_branch(scene: Scene) -> None:
    """A second one for the same branches is 422 while the first is open, and welcome after."""
    first = scene.pull()
    with pytest.raises(Rejected) as refused:
        scene.pull()
    assert refused.value.errors[0]["message"] == "A pull request already exists for acme:capture/x-1."
    scene.model.threads.edit_thread(first, BOT, 60, state="closed")
    assert scene.pull().number == 2


def test_draft_is_changed_by_author_or_writer_and_twice_is_once(scene: Scene) -> None:
    """A reader may not; marking ready again moves nothing."""
    thread = scene.pull()
    with pytest.raises(Rejected):
        scene.model.threads.set_draft(thread, CAROL, False, 20)
    ready = scene.model.threads.set_draft(thread, ALICE, False, 21)
    assert ready.pull is not None
    assert not ready.pull.draft
    assert scene.model.threads.set_draft(ready, BOT, False, 99).updated_at == 21


def test_a_plain_issue_is_no_pull_request_and_shares_the_numbers(scene: Scene) -> None:
    """The poll sees comments of both; only the number's own kind tells them apart."""
    issue = scene.model.threads.open_thread(scene.public, CAROL, "A question", "body", 5)
    assert (issue.number, scene.pull().number) == (1, 2)
    with pytest.raises(Rejected):
        scene.model.threads.pull(scene.public, 1)
    assert scene.model.threads.thread(scene.public, 1) == issue


def test_a_comment_says_by_which_way_it_came(scene: Scene) -> None:
    """Through an app or by e-mail are facts of the comment, not of the account."""
    thread = scene.pull()
    app = App(7, "some-app")
    made = scene.model.comments.add_comment(thread, ALICE, "text", 20, app=app, via_email=True)
    assert (made.app, made.via_email) == (app, True)
    plain = scene.model.comments.add_comment(thread, ALICE, "text", 20)
    assert (plain.app, plain.via_email) == (None, False)


def test_the_same_calls_give_the_same_ids() -> None:
    """Ids come from one counter, so a replay is exact."""
    ids = [Scene().model.ids.take() for _ in range(2)]
    assert ids[0] == ids[1]
