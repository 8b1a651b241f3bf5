"""Who has nothing but git takes the file and the message from the branch, signs, and has made the same bytes."""

from pathlib import Path

import pytest

from gitops_bot.core.principals import PrincipalName
from gitops_bot.core.verdicts import Decision
from gitops_bot.signed.evidence import Commit, ObjectId
from gitops_bot.signed.grammar import read_commit
from gitops_bot.signed.publication import request_files
from gitops_bot.signed.rendering import DECISIONS, render_file, render_message
from tests import signed_keys as keys
from tests.publication_stage import AT, Stage, git, key_file, opened_key
from tests.signed_stage import ASK, transfer

ALICE = PrincipalName("alice")
REQUEST = transfer()
BLANKS = transfer(summary="# Transfer  1,250.00 EUR ")
BRANCH = "gated/production/approvals/alice"
PUBLISHED = f"refs/remotes/origin/gated/production/requests:asks/5f/{ASK}/alice"
PATH = f"approvals/5f/{ASK}/alice.approve.abcd1234"


@pytest.fixture(params=[REQUEST, BLANKS], ids=["plain", "blanks"])
def clone(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A person's own clone, set up to sign with SSH, on a branch with a root of its own."""
    stage = Stage(tmp_path)
    with opened_key("ssh") as key:
        stage.publisher(key).publish(request_files(request.param, {ALICE: DECISIONS}), AT)
    mine = tmp_path / "mine"
    git(tmp_path, "clone", "--quiet", "--no-checkout", str(stage.far), str(mine))
    key_file(tmp_path, keys.ssh_path("alice").read_bytes(), "alice")
    for name, value in {
        "gpg.format": "ssh",
        "user.signingKey": str(tmp_path / "alice"),
        "user.name": "Alice",
        "user.email": "alice@example.org",
    }.items():
        git(mine, "config", name, value)
    git(mine, "checkout", "--quiet", "--orphan", BRANCH)
    root = (
        "commit",
        "--quiet",
        "-S",
        "--allow-empty",
        "-m",
        "gitops-bot/approvals/v1 github.com/acme/ops production alice",
    )
    git(mine, *root)
    return mine


def commit_of(clone: Path, oid: str) -> tuple[Commit, bytes]:
    """Read a commit as the bot does, and the file that it adds."""
    commit = read_commit(ObjectId(oid), git(clone, "cat-file", "commit", oid))
    assert isinstance(commit, Commit)
    return commit, git(clone, "cat-file", "blob", f"{oid}:{PATH}")


def rendered(clone: Path) -> tuple[bytes, bytes]:
    """Give the file and message that the bot compares with."""
    request = BLANKS if b"EUR \n" in git(clone, "show", f"{PUBLISHED}.approve.msg") else REQUEST
    return render_file(request, ALICE, Decision.APPROVE), render_message(request, ALICE, Decision.APPROVE)


def test_git_commit_makes_the_same_bytes(clone: Path) -> None:
    """`--cleanup=verbatim` matters for a summary with a blank at its end, which git would cut."""
    (clone / PATH).parent.mkdir(parents=True)
    (clone / PATH).write_bytes(git(clone, "show", f"{PUBLISHED}.approve"))
    (clone / "message").write_bytes(git(clone, "show", f"{PUBLISHED}.approve.msg"))
    git(clone, "add", "--", PATH)
    git(clone, "commit", "--quiet", "-S", "--cleanup=verbatim", "-F", "message")
    commit, file = commit_of(clone, git(clone, "rev-parse", "HEAD").decode().strip())
    assert (file, commit.message) == rendered(clone)


def test_plain_git_commit_is_enough_for_a_plain_summary(clone: Path) -> None:
    file, message = rendered(clone)
    (clone / PATH).parent.mkdir(parents=True)
    (clone / PATH).write_bytes(git(clone, "show", f"{PUBLISHED}.approve"))
    (clone / "message").write_bytes(git(clone, "show", f"{PUBLISHED}.approve.msg"))
    git(clone, "add", "--", PATH)
    git(clone, "commit", "--quiet", "-S", "-F", "message")
    commit, added = commit_of(clone, git(clone, "rev-parse", "HEAD").decode().strip())
    assert added == file
    assert (commit.message == message) == (b"EUR \n" not in message)


def test_plumbing_makes_the_same_bytes_without_a_checkout(clone: Path) -> None:
    """The branch's own blob is taken by its id: no editor, filter or line end ever touches it."""
    blob = git(clone, "rev-parse", f"{PUBLISHED}.approve").decode().strip()
    index = {"GIT_INDEX_FILE": str(clone / "index")}
    git(clone, "read-tree", "HEAD", env=index)
    git(clone, "update-index", "--add", "--cacheinfo", f"100644,{blob},{PATH}", env=index)
    tree = git(clone, "write-tree", env=index).decode().strip()
    message = git(clone, "cat-file", "blob", f"{PUBLISHED}.approve.msg")
    made = git(clone, "commit-tree", "-S", "-p", "HEAD", "-F", "-", tree, stdin=message).decode().strip()
    commit, file = commit_of(clone, made)
    assert (file, commit.message) == rendered(clone)
