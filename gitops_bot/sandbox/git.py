"""One bare repository on disk, written and read by git's plumbing: no checkout, no index that stays, no hooks.

After a call the objects are in the repository and refs have moved by compare-and-swap only. Nothing that a client sent
stands in argv: paths, messages and contents go through standard input; ids are checked to be full ids, refs to be full
and well-formed. Who may write is the model's question; how git is started is `git_program`'s.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from gitops_bot.core.errors import Unavailable
from gitops_bot.sandbox import loose
from gitops_bot.sandbox.git_program import GitFolder
from gitops_bot.sandbox.refusals import Rejected

FULL_ID: Final = re.compile(r"[0-9a-f]{40}")
ZERO_ID: Final = "0" * 40
BLOB_LIMIT: Final = 4 * 1024 * 1024
MOST_KEPT: Final = 4_096
T = TypeVar("T")
"""Bytes of one stored file; under the output cap of `process.run`, so that what goes in comes out whole."""
# git check-ref-format, narrowed to one alphabet.
_BRANCH: Final = re.compile(r"(?!.*(?:\.\.|//|/\.|\.lock(?:/|$)))[A-Za-z0-9_][A-Za-z0-9._/-]{0,199}(?<![/.])")
_PATH: Final = re.compile(r"[^\x00-\x1f\x7f]{1,1000}")
_MODES: Final = frozenset({"100644", "100755", "040000", "160000", "120000"})


@dataclass(frozen=True, slots=True)
class GitObject:
    """An object as stored: its id, type and bytes."""

    id: str
    type: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a tree; `id` None removes the path when a tree is written; `size` of blobs when listed."""

    path: str
    mode: str
    type: str
    id: str | None
    size: int | None = None


@dataclass(frozen=True, slots=True)
class Signature:
    """Author or committer of a commit, at a time in seconds; always written as UTC."""

    name: str
    email: str
    at: int


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit, read."""

    id: str
    tree: str
    parents: tuple[str, ...]
    author: Signature
    committer: Signature
    message: str


def branch_ref(branch: str) -> str:
    """Give the full ref name of a branch.

    Raises:
        Rejected: 422, the name is not well-formed.
    """
    if not _BRANCH.fullmatch(branch):
        raise Rejected(422, f"refs/heads/{branch} is not a valid ref name.")
    return f"refs/heads/{branch}"


def checked_path(path: str) -> str:
    """Give a path that stays inside a tree.

    Raises:
        Rejected: 422, an empty, absolute, climbing or `.git` path, or a control character in it.
    """
    parts = path.split("/")
    if not _PATH.fullmatch(path) or any(part in {"", ".", ".."} or part.lower() == ".git" for part in parts):
        raise Rejected(422, "path contains a malformed path component")
    return path


def _full_id(oid: str) -> str:
    if not FULL_ID.fullmatch(oid):
        raise Rejected(422, "The sha parameter must be exactly 40 characters and contain only [0-9a-f].")
    return oid


def _keep(known: dict[tuple[str, str], T], pair: tuple[str, str], found: T) -> None:
    if len(known) >= MOST_KEPT:
        known.clear()
    known[pair] = found


class BareRepository(GitFolder):
    """A bare repository in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        # What lies between two commits never changes, and each look at a pull request shows it: by both full ids.
        self._counts: dict[tuple[str, str], int] = {}
        self._changes: dict[tuple[str, str], tuple[int, int, int]] = {}

    @classmethod
    def create(cls, folder: Path, default_branch: str) -> "BareRepository":
        """Create an empty bare repository in a folder that may exist; an existing one is kept as it is."""
        branch_ref(default_branch)
        folder.mkdir(parents=True, exist_ok=True)
        repository = cls(folder)
        repository.output("init", "--quiet", "--bare", "--template=", f"--initial-branch={default_branch}")
        return repository

    def clear(self) -> None:
        """Take away the index of a tree that was being written when the process died."""
        for name in ("sandbox.index", "sandbox.index.lock"):
            (self.folder / name).unlink(missing_ok=True)

    # Reading

    def branches(self) -> dict[str, str]:
        """Read every branch and its tip, in one look."""
        if (found := loose.branches(self.folder)) is not None:
            return found
        lines = self.output("for-each-ref", "--format=%(objectname) %(refname:lstrip=2)", "refs/heads/").decode()
        pairs = (line.split(" ", 1) for line in lines.splitlines())
        return {name: oid for oid, name in pairs}

    def read(self, oid: str) -> GitObject | None:
        """Read an object by its full id."""
        found = loose.read(self.folder, _full_id(oid))
        return self._read_spec(oid) if found is None else GitObject(oid, *found)

    def read_path(self, tree_ish: str, path: str) -> GitObject | None:
        """Read what a path of a commit or tree names; None when it names nothing."""
        return self._read_spec(f"{_full_id(tree_ish)}:{checked_path(path)}")

    def _read_spec(self, spec: str) -> GitObject | None:
        out = self.output("cat-file", "--batch", stdin=spec.encode("utf-8") + b"\n")
        head, _, rest = out.partition(b"\n")
        fields = head.split(b" ")
        if len(fields) != 3 or not FULL_ID.fullmatch(fields[0].decode("ascii", "replace")):
            return None
        return GitObject(fields[0].decode("ascii"), fields[1].decode("ascii"), rest[: int(fields[2])])

    def read_commit(self, oid: str) -> Commit | None:
        """Read a commit; None when there is none of this id."""
        found = self.read(oid)
        if found is None or found.type != "commit":
            return None
        head, _, message = found.content.partition(b"\n\n")
        fields: dict[bytes, list[bytes]] = {}
        for line in head.split(b"\n"):
            name, _, value = line.partition(b" ")
            fields.setdefault(name, []).append(value)
        return Commit(
            found.id,
            fields[b"tree"][0].decode("ascii"),
            tuple(parent.decode("ascii") for parent in fields.get(b"parent", [])),
            _signature(fields[b"author"][0]),
            _signature(fields[b"committer"][0]),
            message.decode("utf-8", "replace"),
        )

    def list_tree(self, tree_ish: str, *, recursive: bool = False) -> tuple[Entry, ...] | None:
        """List a tree (or a commit's) with sizes; None when there is none. `recursive` lists subtrees too."""
        found = self.read(tree_ish)
        if found is None or found.type not in {"tree", "commit"}:
            return None
        flags = ("-r", "-t") if recursive else ()
        out = self.output("ls-tree", "-z", "-l", *flags, found.id)
        entries = []
        for line in out.split(b"\x00")[:-1]:
            meta, _, path = line.partition(b"\t")
            mode, kind, oid, size = meta.decode("ascii").split()
            entries.append(Entry(path.decode("utf-8", "replace"), mode, kind, oid, None if size == "-" else int(size)))
        return tuple(entries)

    def contains(self, ancestor: str, descendant: str) -> bool:
        """Tell whether one commit is reachable from another."""
        done = self.run("merge-base", "--is-ancestor", _full_id(ancestor), _full_id(descendant))
        if done.returncode not in {0, 1}:
            raise Unavailable(f"git merge-base ended with {done.returncode}")
        return done.returncode == 0

    def merge_trees(self, ours: str, theirs: str) -> str | None:
        """Merge two commits over their merge base; the id of the tree, or None where they conflict."""
        done = self.run("merge-tree", "--write-tree", _full_id(ours), _full_id(theirs))
        if done.returncode not in {0, 1}:
            raise Unavailable(f"git merge-tree ended with {done.returncode}")
        return done.stdout.decode("ascii").strip() if done.returncode == 0 else None

    def count_between(self, base: str, head: str) -> int:
        """Count the commits that head has and base lacks."""
        known = self._counts.get((base, head))
        if known is None:
            known = int(self.output("rev-list", "--count", f"{_full_id(base)}..{_full_id(head)}"))
            _keep(self._counts, (base, head), known)
        return known

    def list_between(self, base: str, head: str) -> tuple[str, ...]:
        """List the commits that head has and base lacks, oldest first; at most 1,000."""
        out = self.output("rev-list", "--max-count=1000", "--reverse", f"{_full_id(base)}..{_full_id(head)}")
        return tuple(out.decode("ascii").split())

    def merge_base(self, one: str, other: str) -> str | None:
        """Find where two commits part; None where they have no common history."""
        done = self.run("merge-base", _full_id(one), _full_id(other))
        return done.stdout.decode("ascii").split()[0] if done.returncode == 0 else None

    def changes_between(self, base: str, head: str) -> tuple[int, int, int]:
        """Count added lines, deleted lines and changed files from the merge base (where there is one) to head."""
        known = self._changes.get((base, head))
        if known is not None:
            return known
        names = (self.merge_base(base, head) or base, head)
        out = self.output("diff", "--numstat", "-z", "--no-renames", "--no-ext-diff", "--no-textconv", *names)
        rows = [line.split(b"\t")[:2] for line in out.split(b"\x00")[:-1]]
        added, deleted = (sum(int(row[i]) for row in rows if row[i] != b"-") for i in (0, 1))
        _keep(self._changes, (base, head), (added, deleted, len(rows)))
        return added, deleted, len(rows)

    # Writing

    def write_blob(self, content: bytes) -> str:
        """Store bytes; their id.

        Raises:
            Rejected: more than `BLOB_LIMIT` bytes.
        """
        if len(content) > BLOB_LIMIT:
            raise Rejected(422, "Sorry, your input was too large to process.")
        return self.output("hash-object", "-w", "--no-filters", "--stdin", stdin=content).decode("ascii").strip()

    def write_tree(self, base: str | None, entries: Sequence[Entry]) -> str:
        """Store the tree that has `base` (a full tree or commit id) with entries put over it; its id.

        Raises:
            Rejected: a path, mode or object does not fit.
        """
        lines = []
        for entry in entries:
            path = checked_path(entry.path)
            if entry.mode not in _MODES - {"040000"}:
                raise Rejected(422, f"tree.mode {entry.mode!r} is not supported")
            mode, oid = ("0", ZERO_ID) if entry.id is None else (entry.mode, _full_id(entry.id))
            lines.append(f"{mode} {oid}\t{path}".encode())
        index = self.folder / "sandbox.index"
        index.unlink(missing_ok=True)
        try:
            if base is not None:
                self.output("read-tree", _full_id(base), index=index)
            done = self.run(
                "update-index", "-z", "--index-info", stdin=b"".join(line + b"\x00" for line in lines), index=index
            )
            if done.returncode != 0:
                raise Rejected(422, "tree contains a malformed path component")
            written = self.run("write-tree", index=index)
        finally:
            index.unlink(missing_ok=True)
        if written.returncode != 0:
            raise Rejected(422, "tree.sha does not name an object of this repository")
        return written.stdout.decode("ascii").strip()

    def write_commit(
        self, tree: str, parents: Sequence[str], message: str, author: Signature, committer: Signature
    ) -> str:
        """Store a commit; its id. Whether tree and parents exist is checked.

        Raises:
            Rejected: they do not, or a text holds what a commit cannot.
        """
        for oid, kind in ((tree, "tree"), *((parent, "commit") for parent in parents)):
            found = self.read(oid)
            if found is None or found.type != kind:
                raise Rejected(422, f"{kind.capitalize()} SHA does not exist or is not a {kind} object")
        if "\x00" in message or not message:
            raise Rejected(422, "Invalid commit message")
        head = [f"tree {tree}", *(f"parent {parent}" for parent in parents)]
        head += [f"author {_signature_line(author)}", f"committer {_signature_line(committer)}"]
        raw = ("\n".join(head) + "\n\n" + message).encode("utf-8", "replace")
        return self.output("hash-object", "-t", "commit", "-w", "--stdin", stdin=raw).decode("ascii").strip()

    def move_branch(self, branch: str, new: str, old: str | None) -> bool:
        """Point a branch at a commit if it is at `old` now (None: if there is no such branch); whether it did."""
        ref = branch_ref(branch)
        parts = (f"update {ref}", _full_id(new), ZERO_ID if old is None else _full_id(old))
        done = self.run("update-ref", "--stdin", "-z", stdin="\x00".join(parts).encode() + b"\x00")
        return done.returncode == 0

    def delete_branch(self, branch: str, old: str) -> bool:
        """Remove a branch if it is at `old` now; whether it did."""
        parts = (f"delete {branch_ref(branch)}", _full_id(old))
        done = self.run("update-ref", "--stdin", "-z", stdin="\x00".join(parts).encode() + b"\x00")
        return done.returncode == 0


def _signature_line(signature: Signature) -> str:
    fits = re.fullmatch(r"[^<>\x00-\x1f]{1,200}", signature.name)
    if not fits or not re.fullmatch(r"[^<>\s\x00]{1,200}", signature.email) or signature.at < 0:
        raise Rejected(422, "Invalid author or committer")
    return f"{signature.name} <{signature.email}> {signature.at} +0000"


def _signature(raw: bytes) -> Signature:
    match = re.fullmatch(r"(.*) <(.*)> (\d+) [+-]\d{4}", raw.decode("utf-8", "replace"))
    return Signature(match[1], match[2], int(match[3])) if match else Signature("", "", 0)
