"""A branch only grows from its own root; what does not is told apart, with the push that repairs it."""

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gitops_bot.core.errors import Reason, Refused
from gitops_bot.core.principals import PrincipalName
from gitops_bot.signed.evidence import Commit, ObjectId
from gitops_bot.signed.fetching import Absent, Fetcher, Seen, Tip, Unreadable
from gitops_bot.signed.history import (
    Advanced,
    Deleted,
    History,
    NeverMade,
    Rewritten,
    Unchanged,
    Unread,
    judge,
    roots_of,
)
from gitops_bot.signed.objects import Objects
from gitops_bot.signed.repository import Remote, Repository
from tests.signed_stage import ENVIRONMENT, REPOSITORY, SignedStage, root_message

ALICE = PrincipalName("alice")


class Branch:
    """Alice's branch in the shared repository, and the bot that looks at it."""

    def __init__(self, folder: Path) -> None:
        self.stage = SignedStage(folder / "shared.git")
        self.repository = Repository(folder / "bot.git", Remote(self.stage.url))
        self.repository.create()
        self.fetcher = Fetcher(self.repository, ENVIRONMENT)
        self.objects = Objects(self.repository)
        self.stage.root("alice")

    @property
    def tip(self) -> ObjectId:
        return ObjectId(self.stage.tip("alice") or "")

    def look(self) -> Tip:
        return self.fetcher.fetch([ALICE])[ALICE]

    def judge(self, stored: ObjectId | None) -> History:
        return judge(self.repository, ENVIRONMENT, ALICE, stored, self.look())

    def roots(self) -> tuple[Commit, ...] | Refused:
        self.look()
        return roots_of(self.objects, self.tip, repository=REPOSITORY, environment=ENVIRONMENT, person="alice")

    def push(self, command: str) -> None:
        """Run a repair as it was printed, from the bot's repository, which keeps what it names."""
        words = command.split()
        assert words[:2] == ["git", "push"]
        subprocess.run(["git", f"--git-dir={self.repository.folder}", *words[1:]], check=True, capture_output=True)


@pytest.fixture
def branch(tmp_path: Path) -> Iterator[Branch]:
    made = Branch(tmp_path)
    yield made
    made.objects.close()


def test_a_branch_begins_stands_and_grows(branch: Branch) -> None:
    first = branch.tip
    assert branch.judge(None) == Advanced(None, first)
    assert branch.judge(first) == Unchanged(first)
    branch.stage.vote("alice")
    branch.stage.vote("alice", "deny")
    assert branch.judge(first) == Advanced(first, branch.tip)


def test_a_merge_of_something_else_still_grows(branch: Branch) -> None:
    stored = branch.tip
    side = branch.stage.commit(branch.stage.root_recipe("bob"))
    branch.stage.vote("alice", parents=(side, stored))
    assert branch.judge(stored) == Advanced(stored, branch.tip)


def test_a_branch_that_was_never_made_is_no_history(branch: Branch) -> None:
    branch.stage.delete("alice")
    assert branch.judge(None) == NeverMade()


def test_an_unreadable_branch_says_nothing_of_its_history(branch: Branch) -> None:
    stored = branch.tip
    branch.stage.push("alice", branch.stage.blob(b"x"))
    found = branch.judge(stored)
    assert isinstance(found, Unread)
    assert found.stored == stored
    assert found.refused.reason is Reason.FETCH_REFUSED


def test_a_rewritten_branch_thaws_by_the_push_that_is_printed(branch: Branch) -> None:
    """And by a commit on top of it."""
    stored = ObjectId(branch.stage.vote("alice"))
    branch.look()
    branch.repository.keep(ENVIRONMENT, ALICE, stored)
    branch.stage.root("alice", at=branch.stage.now)
    found = branch.judge(stored)
    assert isinstance(found, Rewritten)
    assert found.refused.reason is Reason.HISTORY_REWRITTEN
    assert found.repair in found.refused.detail
    assert f"{stored}:refs/heads/gated/{ENVIRONMENT}/approvals/alice" in found.repair
    branch.push(found.repair)
    assert branch.judge(stored) == Unchanged(stored)
    branch.stage.vote("alice", "deny")
    assert branch.judge(stored) == Advanced(stored, branch.tip)


def test_a_branch_set_back_is_rewritten(branch: Branch) -> None:
    root = branch.tip
    stored = ObjectId(branch.stage.vote("alice"))
    branch.look()
    branch.stage.push("alice", root)
    assert isinstance(branch.judge(stored), Rewritten)


def test_the_repair_does_not_push_over_what_came_in_between(branch: Branch) -> None:
    stored = ObjectId(branch.stage.vote("alice"))
    branch.look()
    branch.stage.root("alice", at=branch.stage.now)
    found = branch.judge(stored)
    assert isinstance(found, Rewritten)
    branch.stage.vote("alice")
    with pytest.raises(subprocess.CalledProcessError):
        branch.push(found.repair)


def test_a_deleted_branch_comes_back_by_the_push_that_is_printed(branch: Branch) -> None:
    stored = branch.tip
    branch.look()
    branch.stage.delete("alice")
    found = branch.judge(stored)
    assert isinstance(found, Deleted)
    assert found.refused.reason is Reason.HISTORY_REWRITTEN
    url = branch.repository.address.url
    assert found.repair == f"git push {url} {stored}:refs/heads/gated/{ENVIRONMENT}/approvals/alice"
    branch.push(found.repair)
    assert branch.judge(stored) == Unchanged(stored)


def test_a_branch_made_anew_is_rewritten(branch: Branch) -> None:
    stored = branch.tip
    branch.look()
    branch.stage.delete("alice")
    assert isinstance(branch.judge(stored), Deleted)
    branch.stage.root("alice", at=branch.stage.now)
    assert isinstance(branch.judge(stored), Rewritten)


def test_a_stored_tip_that_we_never_had_is_no_ancestor(branch: Branch) -> None:
    """As after the loss of the bot's repository: what is reached was fetched, so what is not here is not reached."""
    assert isinstance(branch.judge(ObjectId("1" * 40)), Rewritten)


def test_a_lost_repository_goes_on_where_the_branch_only_grew(branch: Branch, tmp_path: Path) -> None:
    stored = branch.tip
    branch.look()
    branch.stage.vote("alice")
    other = Repository(tmp_path / "other.git", branch.repository._remote)
    other.create()
    seen = Fetcher(other, ENVIRONMENT).fetch([ALICE])[ALICE]
    assert judge(other, ENVIRONMENT, ALICE, stored, seen) == Advanced(stored, branch.tip)


def test_what_was_seen_decides_alone(branch: Branch) -> None:
    tip = branch.tip
    branch.look()
    assert judge(branch.repository, ENVIRONMENT, ALICE, tip, Seen(tip)) == Unchanged(tip)
    assert isinstance(judge(branch.repository, ENVIRONMENT, ALICE, tip, Absent()), Deleted)
    unreadable = Unreadable(Refused(Reason.FETCH_REFUSED))
    assert judge(branch.repository, ENVIRONMENT, ALICE, None, unreadable) == Unread(None, unreadable.refused)


# The root


def test_the_root_of_its_own_is_found_from_any_tip(branch: Branch) -> None:
    root = branch.tip
    for _ in range(3):
        roots = branch.roots()
        assert not isinstance(roots, Refused)
        assert [commit.id for commit in roots] == [root]
        branch.stage.vote("alice")


@pytest.mark.parametrize(
    "message",
    [
        root_message("bob"),
        root_message("alice", environment="staging"),
        root_message("alice", repository="github.com/acme/other"),
        root_message("alice") + b"\nmore\n",
        b"first commit\n",
    ],
)
def test_a_root_of_something_else_is_none(branch: Branch, message: bytes) -> None:
    branch.stage.root("alice", message=message)
    branch.stage.vote("alice")
    roots = branch.roots()
    assert isinstance(roots, Refused)
    assert roots.reason is Reason.ROOT_COMMIT


def test_a_root_with_a_file_is_none(branch: Branch) -> None:
    branch.stage.root("alice", tree=branch.stage.grown(branch.stage.empty, b"x", branch.stage.blob(b"x")))
    assert isinstance(branch.roots(), Refused)


def test_an_unsigned_root_is_none(branch: Branch) -> None:
    branch.stage.root("alice", signer=None)
    assert isinstance(branch.roots(), Refused)


def test_a_branch_cut_from_main_has_no_root_of_its_own(branch: Branch) -> None:
    """Until it is merged with one that has: then the root is reached, and each commit is judged alone."""
    own = branch.tip
    main = branch.stage.commit(branch.stage.root_recipe("bob", message=b"first\n", signer=None))
    branch.stage.vote("alice", parent=main)
    assert isinstance(branch.roots(), Refused)
    branch.stage.vote("alice", parents=(branch.tip, own))
    roots = branch.roots()
    assert not isinstance(roots, Refused)
    assert [commit.id for commit in roots] == [own]


@pytest.mark.parametrize("hiding", [b"tree ", b"note "])
def test_a_commit_that_hides_its_parents_from_git_is_malformed(branch: Branch, hiding: bytes) -> None:
    """Git takes a commit with a line before its parents for a root; without that line the root is found."""
    recipe = branch.stage.recipe("alice")
    line = b"\n" + hiding + branch.stage.empty.encode() + b"\nparent "
    branch.stage.push("alice", branch.stage.commit(replace(recipe, raw=lambda raw: raw.replace(b"\nparent ", line))))
    roots = branch.roots()
    assert isinstance(roots, Refused)
    assert roots.reason is Reason.MALFORMED_COMMIT
    branch.stage.push("alice", branch.stage.commit(recipe))
    assert not isinstance(branch.roots(), Refused)


def test_a_second_root_hides_nothing(branch: Branch) -> None:
    """Whoever merges a root of the same words in, signed by another key, leaves the person's own to be found."""
    own = branch.tip
    other = branch.stage.commit(branch.stage.root_recipe("alice", signer=branch.stage.signers["outsider"]))
    branch.stage.vote("alice", parents=(own, other))
    roots = branch.roots()
    assert not isinstance(roots, Refused)
    assert {commit.id for commit in roots} == {own, other}


def test_a_flood_of_roots_is_refused(branch: Branch, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as the limit are looked at."""
    monkeypatch.setattr("gitops_bot.signed.history.MAX_ROOTS", 6)
    own = branch.tip
    others = [branch.stage.commit(branch.stage.root_recipe("alice", at=at, signer=None)) for at in range(1, 7)]
    branch.stage.vote("alice", parents=(own, *others[:5]))
    assert not isinstance(branch.roots(), Refused)
    branch.stage.vote("alice", parents=(branch.tip, others[5]))
    assert isinstance(branch.roots(), Refused)
