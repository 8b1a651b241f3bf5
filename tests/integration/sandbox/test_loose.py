"""Branch tips and objects read from their files are what git says they are, packed or not, damaged or not."""

import subprocess
from pathlib import Path

import pytest

from gitops_bot.sandbox import loose
from gitops_bot.sandbox.git import BareRepository, Entry, Signature

ALICE = Signature("alice", "alice@example.invalid", 1_700_000_000)


@pytest.fixture
def repository(tmp_path: Path) -> BareRepository:
    """Two branches, one in a folder, over one commit."""
    made = BareRepository.create(tmp_path / "r.git", "main")
    tree = made.write_tree(None, [Entry("a", "100644", "blob", made.write_blob(b"x" * 100_000))])
    head = made.write_commit(tree, [], "first\n", ALICE, ALICE)
    for branch in ("main", "a/b.c", "z"):
        assert made.move_branch(branch, head, None)
    return made


def git(repository: BareRepository, *words: str) -> str:
    command = ["git", f"--git-dir={repository.folder}", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def said_by_git(repository: BareRepository) -> dict[str, str]:
    lines = git(repository, "for-each-ref", "--format=%(refname:lstrip=2) %(objectname)", "refs/heads/").splitlines()
    return dict(line.split(" ") for line in lines)


def test_branches_are_git_s_loose_packed_and_both(repository: BareRepository) -> None:
    """In git's order too; a loose one hides the packed one of its name, and a lock is no branch."""
    wanted = said_by_git(repository)
    assert list(wanted) == ["a/b.c", "main", "z"]
    assert list((loose.branches(repository.folder) or {}).items()) == list(wanted.items())
    git(repository, "pack-refs", "--all")
    assert not (repository.folder / "refs/heads/main").exists()
    assert loose.branches(repository.folder) == wanted
    tree = repository.read_commit(wanted["main"])
    assert tree is not None
    moved = repository.write_commit(tree.tree, [wanted["main"]], "second\n", ALICE, ALICE)
    assert repository.move_branch("main", moved, wanted["main"])
    (repository.folder / "refs/heads/x.lock").write_text("half")
    assert repository.branches() == said_by_git(repository) == {**wanted, "main": moved}
    assert repository.delete_branch("z", wanted["z"])
    assert repository.branches() == said_by_git(repository)


@pytest.mark.parametrize("content", ["ref: refs/heads/main\n", "", "0" * 39, "nonsense\n"])
def test_a_ref_that_is_no_plain_one_is_left_to_git(repository: BareRepository, content: str) -> None:
    (repository.folder / "refs/heads/odd").write_text(content)
    assert loose.branches(repository.folder) is None


def test_where_git_keeps_refs_otherwise_it_is_asked(repository: BareRepository) -> None:
    (repository.folder / "reftable").mkdir()
    assert loose.branches(repository.folder) is None


def test_objects_are_git_s_loose_and_packed(repository: BareRepository) -> None:
    """Each type; what is packed is not here and is read all the same."""
    ids = git(repository, "rev-parse", "main", "main^{tree}", "main:a").split()
    for oid, kind in zip(ids, ("commit", "tree", "blob"), strict=True):
        found = loose.read(repository.folder, oid)
        assert found is not None
        assert found[0] == kind == git(repository, "cat-file", "-t", oid).strip()
        assert len(found[1]) == int(git(repository, "cat-file", "-s", oid))
    before = [repository.read(oid) for oid in ids]
    git(repository, "repack", "-a", "-d", "-q")
    assert [loose.read(repository.folder, oid) for oid in ids] == [None] * 3
    assert [repository.read(oid) for oid in ids] == before
    assert repository.read("0" * 40) is None


def test_a_damaged_or_endless_object_is_left_to_git(
    repository: BareRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    oid = repository.write_blob(b"y" * 5000)
    path = repository.folder / "objects" / oid[:2] / oid[2:]
    path.chmod(0o600)
    whole = path.read_bytes()
    assert loose.read(repository.folder, oid) == ("blob", b"y" * 5000)
    for damaged in (whole[:-3], b"", b"nonsense"):
        path.write_bytes(damaged)
        assert loose.read(repository.folder, oid) is None
    path.write_bytes(whole)
    monkeypatch.setattr(loose, "LARGEST", 4000)
    assert loose.read(repository.folder, oid) is None
