"""Commits of a real repository, each judged alone: what it is, what it adds, and the file, in bounded time."""

import hashlib
import itertools
import struct
import subprocess
import time
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pygit2
import pytest

from gitops_bot.core.asks import AskId
from gitops_bot.core.errors import Reason, Refused, Unavailable
from gitops_bot.core.principals import PrincipalName
from gitops_bot.signed.differences import Differences
from gitops_bot.signed.evidence import Change, Commit, ObjectId
from gitops_bot.signed.fetching import Fetcher, Seen
from gitops_bot.signed.grammar import MAX_BLOB
from gitops_bot.signed.objects import Objects
from gitops_bot.signed.repository import Remote, Repository
from gitops_bot.signed.streams import Flood, Slow, Stream
from tests.signed_stage import (
    ENVIRONMENT,
    EXECUTABLE,
    FILE,
    FOLDER,
    GITLINK,
    SYMLINK,
    SignedStage,
    vote_path,
)

ALICE, BOB = PrincipalName("alice"), PrincipalName("bob")


class Court:
    """The stage as shared repository, and the bot's own where commits are read."""

    def __init__(self, folder: Path) -> None:
        self.stage = SignedStage(folder / "shared.git")
        self.repository = Repository(folder / "bot.git", Remote(self.stage.url))
        self.repository.create()
        self.objects = Objects(self.repository)

    def fetch(self, person: str = "alice") -> ObjectId:
        seen = Fetcher(self.repository, ENVIRONMENT).fetch([PrincipalName(person)])[PrincipalName(person)]
        assert isinstance(seen, Seen), seen
        return seen.tip

    def plant(self, oid: str) -> None:
        """Copy everything that a commit reaches into the bot's repository, past the checks of a fetch."""
        listed = subprocess.run(
            ["git", f"--git-dir={self.stage.folder}", "rev-list", "--objects", oid], capture_output=True, check=True
        )
        own = pygit2.Repository(str(self.repository.folder))
        for line in listed.stdout.splitlines():
            kind, content = self.stage.repository.odb.read(pygit2.Oid(hex=line[:40].decode()))
            own.odb.write(kind, content)

    def judge(self, oid: str, person: PrincipalName = ALICE) -> Change | Refused:
        commit = self.objects.commit(ObjectId(oid))
        if isinstance(commit, Refused):
            return commit
        return self.objects.change(commit, person, lambda ask: ask == self.stage.request.ask)

    def blamed(self, oid: str, person: PrincipalName = ALICE) -> Reason:
        found = self.judge(oid, person)
        assert isinstance(found, Refused), found
        return found.reason


@pytest.fixture
def court(tmp_path: Path) -> Iterator[Court]:
    made = Court(tmp_path)
    yield made
    made.objects.close()


def test_a_vote_is_read_whole(court: Court) -> None:
    oid = court.stage.vote("alice")
    court.fetch()
    commit = court.objects.commit(ObjectId(oid))
    assert isinstance(commit, Commit)
    assert commit.raw == court.stage.read(oid)
    change = court.judge(oid)
    assert isinstance(change, Change)
    assert court.objects.blob(change) == court.stage.read(change.blob)


def test_pygit2_reads_the_same_bytes(court: Court) -> None:
    """An independent reader sees the same payload, signature, message and file as we do, for each key kind."""
    stage = court.stage
    for person in ("alice", "bob"):
        for decision in ("approve", "deny", "revoke"):
            oid = stage.vote(person, decision)
            court.fetch(person)
            commit = court.objects.commit(ObjectId(oid))
            assert isinstance(commit, Commit)
            change = court.judge(oid, PrincipalName(person))
            assert isinstance(change, Change)
            other = pygit2.Repository(str(court.repository.folder))
            theirs = other[oid]
            assert isinstance(theirs, pygit2.Commit)
            signature, payload = theirs.gpg_signature
            assert (signature, payload) == (commit.armor.rstrip(b"\n"), commit.payload)
            assert theirs.raw_message == commit.message
            assert str(theirs.tree_id) == commit.tree
            assert [str(parent) for parent in theirs.parent_ids] == [commit.parent]
            assert theirs.tree[change.path].read_raw() == court.objects.blob(change)  # type: ignore[union-attr] # it is a blob


def test_a_root_votes_for_nothing(court: Court) -> None:
    root = court.stage.root("alice")
    with_file = court.stage.commit(
        court.stage.root_recipe("alice", tree=court.stage.grown(court.stage.empty, b"x", court.stage.blob(b"x")))
    )
    court.fetch()
    court.plant(with_file)
    assert court.blamed(root) is Reason.ROOT_COMMIT
    assert court.blamed(with_file) is Reason.ROOT_COMMIT
    assert isinstance(court.objects.commit(ObjectId(root)), Commit)


def test_the_child_of_a_commit_that_added_the_file_adds_nothing(court: Court) -> None:
    """Whatever the signed child says in its message."""
    above = court.stage.vote("alice", signer=None)
    child = court.stage.vote("alice", tree=court.stage.tree_of(above))
    court.fetch()
    assert court.blamed(above) is Reason.UNSIGNED
    assert court.blamed(child) is Reason.UNEXPECTED_CHANGE


def test_a_file_that_somebody_put_there_before_takes_no_vote_away(court: Court) -> None:
    path = vote_path(court.stage.request.ask, "alice", "approve", "squatted")
    court.stage.vote("alice", signer=None, path=path)
    oid = court.stage.vote("alice")
    court.fetch()
    assert isinstance(court.judge(oid), Change)


@pytest.mark.parametrize("mode", [SYMLINK, EXECUTABLE, GITLINK])
def test_only_plain_files_are_added(court: Court, mode: bytes) -> None:
    above = court.stage.vote("alice")
    path = vote_path(court.stage.request.ask, "alice", "approve", "otherone")
    blob = above if mode == GITLINK else court.stage.blob(b"x")
    oid = court.stage.vote("alice", tree=court.stage.grown(court.stage.tree_of(above), path, blob, mode))
    court.fetch()
    assert isinstance(court.judge(above), Change)
    assert court.blamed(oid) is Reason.UNEXPECTED_CHANGE


def test_renames_modifications_deletions_and_second_files_are_refused(court: Court) -> None:
    stage = court.stage
    first = vote_path(stage.request.ask, "alice", "approve", "firstone")
    above = stage.vote("alice", path=first)
    tree = stage.tree_of(above)
    content = stage.blob(b"something else")
    shapes = {
        "modification": stage.grown(tree, first, content),
        "deletion": stage.empty,
        "rename": stage.grown(stage.empty, first.replace(b"first", b"other"), stage.blob(stage.read(above))),
        "second file": stage.grown(stage.grown(tree, b"policy.toml", content), first + b"x", content),
        "folder where a file was": stage.grown(stage.grown(stage.empty, b"approvals", content), b"approvals", content),
    }
    oids = {name: stage.commit(stage.recipe("alice", tree=shape, parent=above)) for name, shape in shapes.items()}
    twin = stage.vote("alice")
    court.fetch()
    for oid in oids.values():
        court.plant(oid)
        assert court.blamed(oid) is Reason.UNEXPECTED_CHANGE
    assert isinstance(court.judge(twin), Change)


def test_paths_that_are_none(court: Court) -> None:
    """A newline in a name, letters of another case or alphabet, no suffix."""
    good = vote_path(court.stage.request.ask, "alice", "approve", "suffixes")
    paths = [good + b"\n", good.replace(b"alice", b"Alice"), good.replace(b"alice", "alіce".encode()), good[:-9]]
    bad = [court.stage.vote("alice", path=path) for path in paths]
    twin = court.stage.vote("alice", path=good)
    court.fetch()
    assert [court.blamed(oid) for oid in bad] == [Reason.BAD_PATH] * 4
    assert isinstance(court.judge(twin), Change)


def test_a_vote_on_anothers_branch_is_on_the_wrong_one(court: Court) -> None:
    oid = court.stage.vote("alice")
    court.fetch()
    assert court.blamed(oid, BOB) is Reason.WRONG_BRANCH
    assert isinstance(court.judge(oid), Change)


def test_an_ask_of_elsewhere_is_not_found(court: Court) -> None:
    other = replace(court.stage.request, ask=AskId("01jdxm2r7q8v9w0a1b2c3d4e5g"))
    oid = court.stage.vote("alice", request=other)
    court.fetch()
    assert court.blamed(oid) is Reason.NOT_FOUND
    commit = court.objects.commit(ObjectId(oid))
    assert isinstance(commit, Commit)
    assert isinstance(court.objects.change(commit, ALICE, lambda _: True), Change)


def test_a_file_has_its_largest_size(court: Court) -> None:
    fits = court.stage.vote("alice", file=b"x" * MAX_BLOB)
    over = court.stage.vote("alice", file=b"x" * (MAX_BLOB + 1))
    court.fetch()
    change = court.judge(fits)
    assert isinstance(change, Change)
    assert court.objects.blob(change) == b"x" * MAX_BLOB
    assert court.blamed(over) is Reason.TOO_LARGE


def zeros(packs: Path, size: int) -> str:
    """Write a pack with one blob of zeros, as git's own programs would in much longer time (gitformat-pack)."""
    chunk, press = bytes(1024 * 1024), zlib.compressobj(1)
    oid, pressed = hashlib.sha1(b"blob %d\0" % size), bytearray()
    for _ in range(size // len(chunk)):
        oid.update(chunk)
        pressed += press.compress(chunk)
    head, rest = bytearray([3 << 4 | size & 15]), size >> 4
    while rest:
        head[-1] |= 0x80
        head.append(rest & 0x7F)
        rest >>= 7
    entry = bytes(head + pressed + press.flush())
    pack = b"PACK" + struct.pack(">II", 2, 1) + entry
    pack += hashlib.sha1(pack).digest()
    fan = struct.pack(">256I", *(int(first >= oid.digest()[0]) for first in range(256)))
    index = b"\xfftOc" + struct.pack(">I", 2) + fan + oid.digest() + struct.pack(">II", zlib.crc32(entry), 12)
    index += pack[-20:]
    (packs / f"pack-{pack[-20:].hex()}.pack").write_bytes(pack)
    (packs / f"pack-{pack[-20:].hex()}.idx").write_bytes(index + hashlib.sha1(index).digest())
    return oid.hexdigest()


def test_a_file_of_a_gigabyte_is_asked_for_its_size_only(court: Court) -> None:
    """It compresses to a megabyte, so that it passes the cap of a fetch; nothing ever holds it whole."""
    stage = court.stage
    blob = zeros(stage.folder / "objects" / "pack", 1024**3)
    path = vote_path(stage.request.ask, "alice", "approve", "gigabyte")
    oid = stage.vote("alice", tree=stage.grown(stage.empty, path, blob))
    twin = stage.vote("alice")
    court.fetch()
    assert court.blamed(oid) is Reason.TOO_LARGE
    assert isinstance(court.judge(twin), Change)
    used = sum(file.stat().st_size for file in court.repository.folder.rglob("*") if file.is_file())
    assert used < 16 * 1024**2


def test_a_large_commit_is_asked_for_its_size_only(court: Court) -> None:
    over = court.stage.vote("alice", message=b"x" * 70_000)
    twin = court.stage.vote("alice")
    court.fetch()
    assert court.blamed(over) is Reason.TOO_LARGE
    assert isinstance(court.judge(twin), Change)


def doubled(stage: SignedStage, above: str, place: int) -> str:
    """Build a tree in which one level of a vote's path has two entries of one name, the first as it was before."""
    path = vote_path(stage.request.ask, "alice", "approve", "doubled0")
    parts = path.split(b"/")
    chain = [stage.tree_of(above)]
    for part in parts[:-1]:
        chain.append(next(oid for _, name, oid in stage.entries(chain[-1]) if name == part))
    oid, mode = stage.blob(b"another content"), FILE
    for level in range(len(parts) - 1, -1, -1):
        entries = stage.entries(chain[level])
        if level == place:
            # What readers of the first entry see stays; readers of the last see the new one.
            known = next((entry for entry in entries if entry[1] == parts[level]), None)
            same = known or (FILE, parts[level], stage.blob(b"first content"))
            entries = [same, (mode, parts[level], oid)]
        else:
            entries = [entry for entry in entries if entry[1] != parts[level]] + [(mode, parts[level], oid)]
        oid, mode = stage.tree(sorted(entries, key=lambda entry: entry[1])), FOLDER
    return oid


@pytest.mark.parametrize("place", range(4))
def test_two_entries_of_one_name_are_refused_by_us_too(court: Court, place: int) -> None:
    """Git and GitPython read the first, pygit2 the last. Git's own check refuses such a tree when it is fetched; this
    one came into the repository by another way."""
    above = court.stage.vote("alice", path=vote_path(court.stage.request.ask, "alice", "approve", "firstone"))
    court.fetch()
    twin = court.stage.commit(court.stage.recipe("alice"))
    court.plant(twin)
    assert isinstance(court.judge(twin), Change)
    oid = court.stage.commit(court.stage.recipe("alice", tree=doubled(court.stage, above, place)))
    court.plant(oid)
    assert court.blamed(oid) in {Reason.FETCH_REFUSED, Reason.UNEXPECTED_CHANGE}


def test_one_name_twice_in_what_is_added_is_named_as_such(court: Court) -> None:
    above = court.stage.root("alice")
    court.fetch()
    oid = court.stage.commit(court.stage.recipe("alice", parent=above, tree=_twice(court.stage)))
    court.plant(oid)
    assert court.blamed(oid) is Reason.FETCH_REFUSED


def _twice(stage: SignedStage) -> str:
    path = vote_path(stage.request.ask, "alice", "approve", "twice000")
    folder, _, name = path.rpartition(b"/")
    tree = stage.tree([(FILE, name, stage.blob(b"a")), (FILE, name, stage.blob(b"b"))])
    for part in reversed(folder.split(b"/")):
        tree = stage.tree([(FOLDER, part, tree)])
    return tree


# Walking a branch


def test_new_commits_come_oldest_first_over_all_parents(court: Court) -> None:
    """A merge does not hide a deny."""
    stage = court.stage
    root = stage.root("alice")
    one = stage.vote("alice")
    side = stage.commit(stage.recipe("alice", "deny", parent=root))
    merge = stage.vote("alice", parents=(one, side))
    tip = court.fetch()
    listed = list(court.objects.new_commits(ObjectId(root), tip))
    assert set(listed) == {one, side, merge}
    assert listed[-1] == merge
    assert next(iter(court.objects.new_commits(None, tip))) == root
    assert list(court.objects.new_commits(tip, tip)) == []
    assert list(court.objects.new_commits(ObjectId(one), tip)) == [side, merge]


def test_ids_are_named_without_being_read(court: Court) -> None:
    """And a stored tip that was lost here hides nothing."""
    stage = court.stage
    root = ObjectId(stage.root("alice"))
    stage.vote("alice", message=b"x" * 70_000)
    tip = court.fetch()
    assert list(court.objects.new_ids(None, tip)) == [root, tip]
    assert list(court.objects.new_ids(root, tip)) == [tip]
    assert list(court.objects.new_ids(ObjectId("1" * 40), tip)) == [root, tip]
    assert list(court.objects.read_ahead([tip, root])) == [tip, root]
    assert list(court.objects.read_ahead([])) == []


def test_a_walk_gives_so_many_and_the_next_the_rest(court: Court) -> None:
    for _ in range(7):
        court.stage.vote("alice")
    tip = court.fetch()
    whole = list(court.objects.new_commits(None, tip))
    assert len(whole) == 8
    seen: list[ObjectId] = []
    for _ in range(4):
        seen += court.objects.new_commits(None, tip, known=set(seen).__contains__, most=3)
    assert seen == whole


def test_reading_along_a_walk_and_beside_it(court: Court) -> None:
    """What is read ahead is what would be read alone, whatever is asked between."""
    stage = court.stage
    faults = itertools.cycle(
        [
            {},
            {"signer": None},
            {"message": b"y" * 70_000},
            {"path": b"elsewhere"},
            {"file": b"z" * 9_000},
            {"tree": stage.empty},
        ]
    )
    for fault in itertools.islice(faults, 300):
        stage.vote("alice", **fault)
    tip = court.fetch()
    with Objects(court.repository) as alone:
        for oid in court.objects.new_commits(None, tip):
            ahead, beside = court.objects.commit(oid), alone.commit(oid)
            assert ahead == beside
            assert isinstance(court.objects.commit(tip), Commit | Refused)
            if isinstance(ahead, Refused):
                continue
            ours, theirs = (reader.change(ahead, ALICE, lambda _: True) for reader in (court.objects, alone))
            assert ours == theirs
            if isinstance(ours, Change):
                assert court.objects.blob(ours) == alone.blob(ours) == stage.read(ours.blob)


def test_a_walk_that_is_left_ends_its_processes(court: Court) -> None:
    for _ in range(5):
        court.stage.vote("alice")
    tip = court.fetch()
    before = children()
    walk = court.objects.new_commits(None, tip)
    next(walk)
    assert children() > before
    walk.close()
    assert children() == before
    court.objects.close()


def children() -> int:
    """Count this process's children."""
    return len(Path(f"/proc/self/task/{threading_id()}/children").read_text().split())


def threading_id() -> int:
    import threading

    return threading.get_native_id()


# What must not take for ever


def bomb(stage: SignedStage, width: int = 10, depth: int = 12) -> str:
    """Build folders of the same folders, nested and empty: ten to the twelfth to walk, and not one file to tell of."""
    tree = stage.empty
    for _ in range(depth):
        tree = stage.tree([(FOLDER, f"{number:02}".encode(), tree) for number in range(width)])
    return tree


def test_trees_that_take_for_ever_to_compare_refuse_themselves(court: Court, monkeypatch: pytest.MonkeyPatch) -> None:
    """And so few of them that those behind are read in time; the votes between them count."""
    monkeypatch.setattr("gitops_bot.signed.differences.PATIENCE", 0.5)
    stage = court.stage
    stage.root("alice")
    trap = bomb(stage)
    good = []
    for number in range(6):
        before = stage.tip("alice")
        assert before is not None
        stage.vote("alice", tree=stage.grown(stage.tree_of(before), f"bomb{number}".encode(), trap, FOLDER))
        good.append(stage.vote("alice"))
    tip = court.fetch()
    begin = time.monotonic()
    with Objects(court.repository) as objects:
        found = {}
        for oid in objects.new_commits(None, tip):
            commit = objects.commit(oid)
            assert isinstance(commit, Commit)
            found[oid] = objects.change(commit, ALICE, lambda _: True)
    assert time.monotonic() - begin < 60
    assert [isinstance(found[ObjectId(oid)], Change) for oid in good] == [True] * 6
    others = [change for oid, change in found.items() if oid not in good]
    assert all(isinstance(change, Refused) for change in others)


def test_a_bomb_of_files_floods_nobody(court: Court) -> None:
    stage = court.stage
    stage.root("alice")
    tree = stage.tree([(FILE, b"x", stage.blob(b"x"))])
    for _ in range(8):
        tree = stage.tree([(FOLDER, f"{number:02}".encode(), tree) for number in range(10)])
    oid = stage.vote("alice", tree=stage.grown(stage.empty, b"approvals", tree, FOLDER))
    twin = stage.vote(
        "alice", tree=stage.grown(stage.grown(stage.empty, b"approvals", tree, FOLDER), b"y", stage.blob(b"y"))
    )
    court.fetch()
    assert court.blamed(oid) is Reason.UNEXPECTED_CHANGE
    assert court.blamed(twin) is Reason.BAD_PATH


def test_level_by_level_reads_the_same(court: Court) -> None:
    """The careful way agrees with the quick one on sound and unsound commits."""
    stage = court.stage
    above = stage.vote("alice")
    stage.vote("alice", tree=stage.tree_of(above))
    stage.vote("alice", path=b"elsewhere\nx")
    stage.vote("alice", tree=stage.empty)
    stage.vote("alice", "deny")
    tip = court.fetch()
    oids = list(court.objects.new_commits(None, tip))[1:]
    commits = [commit for oid in oids if isinstance(commit := court.objects.commit(oid), Commit)]
    assert len(commits) == 5
    careful, quick = Differences(court.repository), Differences(court.repository)
    careful._slow = 99
    for differences in (careful, quick):
        differences.ask(commits)
    slowly, quickly = careful.answers(commits), quick.answers(commits)
    careful.close()
    quick.close()
    for commit in commits:
        if quickly[commit.id] != slowly[commit.id]:
            # A deleted folder is one entry there and each of its files here; neither is one added file.
            assert all(entry.status == "D" for entry in (*quickly[commit.id], *slowly[commit.id]))  # type: ignore[misc] # both are entries here


def test_a_stream_gives_up_what_is_slow_or_too_much(court: Court) -> None:
    with Stream(court.repository, "cat-file", "--batch-check", patience=0.2) as stream:
        stream.ask(b"")
        with pytest.raises(Slow):
            stream.line(100)
        stream.ask(b"0" * 40 + b"\n")
        with pytest.raises(Flood):
            stream.line(5)
        stream.ask(b"0" * 40 + b"\n")
        assert stream.line(100) == b"0" * 40 + b" missing"


def test_a_process_that_ends_is_unavailable_and_starts_again(court: Court) -> None:
    oid = court.stage.vote("alice")
    court.fetch()
    stream = court.objects._reader._files
    assert isinstance(court.objects.commit(ObjectId(oid)), Commit)
    child = stream._child
    assert child is not None
    child.kill()
    child.wait()
    other = ObjectId(court.stage.vote("alice"))
    court.fetch()
    with pytest.raises(Unavailable):
        court.objects.commit(other)
    assert isinstance(court.objects.commit(other), Commit)


def test_an_object_that_is_not_there_is_unavailable(court: Court) -> None:
    """Nothing is refused for what is ours to have (I14)."""
    oid = court.stage.vote("alice")
    court.fetch()
    with pytest.raises(Unavailable):
        court.objects.commit(ObjectId("1" * 40))
    with pytest.raises(Unavailable):
        list(court.objects.new_commits(None, ObjectId("1" * 40)))
    assert isinstance(court.objects.commit(ObjectId(oid)), Commit)


def test_a_blob_is_no_commit(court: Court) -> None:
    court.stage.vote("alice")
    court.fetch()
    commit = court.objects.commit(ObjectId(court.stage.tip("alice") or ""))
    assert isinstance(commit, Commit)
    change = court.judge(commit.id)
    assert isinstance(change, Change)
    assert court.blamed(change.blob) is Reason.MALFORMED_COMMIT
