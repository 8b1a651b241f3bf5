"""The bot's own side of the requests branch: what was written, in the bot's repository, by git's plumbing alone.

No working tree, no index, no hooks: `git fast-import` writes blobs and the trees on their paths, one process for any
number of files and nothing but those trees; `git commit-tree -S` signs the commit. What belongs on the branch, and the
remote, are left to `publishing`.

Refs, under `refs/publication/<environment>/`: `own` the newest commit of ours, `seen` the remote's tip at the last
look, `acknowledged` the tip as last published, `foreign/<finding>/<commit>` what is not reported yet, `draft` scratch.
"""

import contextlib
import fcntl
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from gitops_bot.core.errors import Malformed, Unavailable
from gitops_bot.signed.bot_key import BotKey
from gitops_bot.signed.evidence import ObjectId
from gitops_bot.signed.publication import check_path
from gitops_bot.signed.repository import Repository, words

WRITING_TIMEOUT: Final = 300.0
MAX_MARKER: Final = 8 * 1024
TIDY_EVERY: Final = 200
"""Commits after which loose objects are packed: one commit leaves some twenty."""
NAME: Final = "gitops-bot"
_ENTRY: Final = re.compile(
    rb"([0-7]{6}) (?:blob|tree|commit) ([0-9a-f]{40}|[0-9a-f]{64}) +([0-9]+|-)\t([^\x00]+)\x00", re.ASCII
)
_ROOT: Final = re.compile(rb"040000 tree ([0-9a-f]{40}|[0-9a-f]{64})\t\n")
_FILE: Final = "100644"


@dataclass(frozen=True, slots=True)
class Entry:
    """One name in a tree; `size` in bytes, 0 for what is no blob."""

    mode: str
    oid: ObjectId
    size: int
    path: str

    @property
    def readable(self) -> bool:
        """Tell whether it is a plain file of a size that a marker may have."""
        return self.mode == _FILE and self.size <= MAX_MARKER


class RequestsStore:
    """Commits, trees and refs of one environment's publication."""

    def __init__(self, repository: Repository, key: BotKey, environment: str) -> None:
        """Remember where; nothing is touched."""
        self._repository = repository
        self._key = key
        self.refs = f"refs/publication/{environment}/"
        self._message = f"gitops-bot/requests/v1 {environment}\n".encode("ascii")
        self._commits = 0
        self._known: tuple[ObjectId, ObjectId] | None = None  # the newest commit and its tree: one process less

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other publishers out, and remove what a killed one left: under our lock no lock file is live.

        Raises:
            Unavailable: another one is at work.
        """
        folder = self._repository.folder
        try:
            lock = os.open(folder / "publication.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise Unavailable(f"cannot lock the requests branch: {error.strerror}") from error
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise Unavailable("another publisher is at work") from None
            for left in (folder / self.refs).rglob("*.lock"):
                left.unlink(missing_ok=True)
            yield
        finally:
            os.close(lock)

    def read(self) -> dict[str, ObjectId]:
        """Give our refs by their short names.

        Raises:
            Unavailable: one of them is damaged.
        """
        found = self._repository.refs().items()
        return {name.removeprefix(self.refs): oid for name, oid in found if name.startswith(self.refs)}

    def move(self, refs: Mapping[str, ObjectId | None]) -> None:
        """Move refs, or with None remove them, all or none.

        Raises:
            Unavailable: git refuses.
        """
        lines = [
            f"delete {self.refs}{name}\n" if oid is None else f"update {self.refs}{name} {oid}\n"
            for name, oid in refs.items()
        ]
        self._repository.output("update-ref", "--no-deref", "--stdin", stdin="".join(lines).encode("ascii"))

    def descends(self, commit: ObjectId, ancestor: ObjectId) -> bool:
        """Tell whether a commit is another or comes after it.

        Raises:
            Unavailable: one of them is not there.
        """
        if commit == ancestor:
            return True
        done = self._repository.run("merge-base", "--is-ancestor", "--end-of-options", ancestor, commit)
        if done.returncode not in (0, 1):
            raise Unavailable(f"the history of the requests branch cannot be read: {words(done)}")
        return done.returncode == 0

    def raw(self, commit: ObjectId) -> bytes:
        """Give a commit's bytes.

        Raises:
            Unavailable: it is not there.
        """
        return self._repository.output("cat-file", "commit", commit)

    def blob(self, oid: ObjectId) -> bytes:
        """Give a file's bytes; its size is *not* checked.

        Raises:
            Unavailable: it is not there.
        """
        return self._repository.output("cat-file", "blob", oid)

    def tree_of(self, commit: ObjectId) -> ObjectId:
        """Name a commit's tree.

        Raises:
            Unavailable: it is not there.
        """
        if self._known is None or self._known[0] != commit:
            found = self._repository.output("rev-parse", "--verify", f"{commit}^{{tree}}")
            self._known = commit, ObjectId(found.decode("ascii").strip())
        return self._known[1]

    def entries(self, commit: ObjectId, path: str) -> Iterator[Entry]:
        """List what a commit has at a path, or with a slash at its end below it. Nothing there: nothing listed.

        Raises:
            Unavailable: the tree is damaged, which is no absence.
        """
        raw = self._repository.output("ls-tree", "-z", "--long", "--full-tree", commit, "--", path)
        at = 0
        while at < len(raw):
            found = _ENTRY.match(raw, at)
            if found is None:
                raise Unavailable("the requests tree cannot be read")
            mode, oid, size, name = found.groups()
            yield Entry(
                mode.decode("ascii"),
                ObjectId(oid.decode("ascii")),
                0 if size == b"-" else int(size),
                name.decode("ascii", "replace"),
            )
            at = found.end()

    def marker(self, commit: ObjectId, path: str) -> Entry | None:
        """Find one `spent` marker.

        Raises:
            Unavailable: the tree is damaged.
        """
        return next(self.entries(commit, path), None)

    def markers(self, commit: ObjectId, beside: ObjectId | None) -> dict[str, ObjectId]:
        """Find the `spent` markers of a commit, but for folders that are the same `beside`; what is none is left out.

        Raises:
            Unavailable: a tree is damaged.
        """
        same = {entry.oid for entry in self.entries(beside, "spent/")} if beside is not None else set()
        found: dict[str, ObjectId] = {}
        for folder in self.entries(commit, "spent/"):
            # A folder's name has two characters in the only form that `check_path` lets pass.
            if folder.oid in same or len(folder.path) != len("spent/00"):
                continue
            for entry in self.entries(commit, f"{folder.path}/"):
                with contextlib.suppress(Malformed):
                    check_path(entry.path)
                    if entry.readable:
                        found[entry.path] = entry.oid
        return found

    def tree(self, base: ObjectId | None, there: Mapping[str, ObjectId], files: Mapping[str, bytes]) -> ObjectId:
        """Write the tree of a base commit with files put in, some of which are there as objects.

        Raises:
            Unavailable: git failed.
        """
        stream = [f"commit {self.refs}draft\ncommitter {NAME} <> 0 +0000\ndata 0\n".encode("ascii")]
        if "draft" in self.read():
            # Each draft is kept by the next, so that it is packed with the rest and not left over.
            stream.append(f"from {self.refs}draft^0\n".encode("ascii"))
        stream.append(b"deleteall\n")
        if base is not None:
            stream.append(f'M 040000 {self.tree_of(base)} ""\n'.encode("ascii"))
        stream += [f"M {_FILE} {oid} {path}\n".encode("ascii") for path, oid in there.items()]
        for path, content in files.items():
            stream += [f"M {_FILE} inline {path}\ndata {len(content)}\n".encode("ascii"), content, b"\n"]
        stream.append(b'ls ""\ndone\n')
        done = self._repository.run(
            "fast-import", "--quiet", "--force", "--done", stdin=b"".join(stream), timeout=WRITING_TIMEOUT
        )
        found = _ROOT.fullmatch(done.stdout)
        if done.returncode != 0 or found is None:
            raise Unavailable(f"the requests tree cannot be written: {words(done)}")
        return ObjectId(found[1].decode("ascii"))

    def commit(self, tree: ObjectId, parent: ObjectId | None, at: int) -> ObjectId:
        """Sign a commit with the bot's key, dated `at` (ms).

        Raises:
            Unavailable: git, or the program that signs, failed.
        """
        who = {"NAME": NAME, "EMAIL": f"{NAME}@localhost", "DATE": f"@{at // 1000} +0000"}
        environment = {f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER") for what, value in who.items()}
        done = self._repository.run(
            *("commit-tree", "-S", *(("-p", parent) if parent is not None else ()), "-F", "-", tree),
            stdin=self._message,
            settings=self._key.settings,
            environment=environment | dict(self._key.environment),
        )
        commit = done.stdout.decode("ascii", "replace").strip()
        if done.returncode != 0 or len(commit) != self._repository.digits:
            raise Unavailable(f"the requests commit cannot be signed: {words(done)}")
        self._commits += 1
        self._known = ObjectId(commit), tree
        return ObjectId(commit)

    def tidy(self) -> None:
        """Pack loose objects at the first commit and each `TIDY_EVERY` after it; that it worked is *not* checked.

        Raises:
            Unavailable: git took too long.
        """
        if self._commits % TIDY_EVERY == 1:
            self._repository.run("repack", "-d", "-l", "-q", timeout=WRITING_TIMEOUT)
