"""The requests branch as this machine has it: fetched whole, never behind what was seen, read by exact path.

After `look` the branch's tip is here with all that it reaches, hashed and checked by git's fsck, and it continues from
the tip that was accepted before, or stands beside it for whoever called to judge. Who signed it is *not* checked;
`accept` remembers a tip that was.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from gitops_bot.core.errors import Malformed, Reason, Refused, Unavailable, refuse
from gitops_bot.policy.grammar import MAX_FILES
from gitops_bot.policy.tables import MAX_FILE
from gitops_bot.process import OUTPUT_CAP, Limits
from gitops_bot.signed.evidence import ObjectId
from gitops_bot.signed.fetching import FETCHING
from gitops_bot.signed.grammar import MAX_LISTING, hash_object, read_id, read_listing
from gitops_bot.signed.history import descends
from gitops_bot.signed.repository import Repository, words

SECONDS: Final = 300.0
_LISTING: Final = Limits(memory_bytes=2 << 30, file_bytes=2 * MAX_LISTING)
_FETCH: Final = Limits(memory_bytes=2 << 30, file_bytes=1 << 30)


@dataclass(frozen=True, slots=True)
class Look:
    """The branch's tip; `before` is the tip that was accepted last, where this one does not continue from it."""

    tip: ObjectId
    before: ObjectId | None = None


class Clone:
    """This machine's copy of one environment's requests branch. Nothing but `accept` moves what is believed."""

    def __init__(self, repository: Repository, environment: str) -> None:
        """Remember where; nothing is touched."""
        self.repository = repository
        self.branch = f"refs/heads/gated/{environment}/requests"
        self._fetched = f"refs/approver/{environment}/fetched"
        self._accepted = f"refs/approver/{environment}/accepted"

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other `sign`s of this person out of this copy.

        Raises:
            Unavailable: another one is at work.
        """
        lock = os.open(self.repository.folder / "approver.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Unavailable("another `approval sign` is at work with the same repository") from None
            yield
        finally:
            os.close(lock)

    def look(self) -> Look | Refused:
        """Fetch the branch. One that was taken back to an older commit is refused (`history_rewritten`).

        Raises:
            Unavailable: the remote cannot be read, or sends what git refuses.
        """
        refs = self.repository.refs()
        accepted = refs.get(self._accepted)
        tip = self._listed()
        if tip is None:
            if accepted is not None:
                detail = "The requests branch was deleted; the broker publishes it again by itself."
                return refuse(Reason.HISTORY_REWRITTEN, detail, accepted=accepted)
            return refuse(Reason.NOT_FOUND, "The repository has no requests branch of this environment.")
        if refs.get(self._fetched) != tip:
            self._fetch()
            tip = self.repository.refs()[self._fetched]  # newer than what was listed, perhaps
        if self.repository.kind(tip) != "commit":
            raise Unavailable("the requests branch does not name a commit")
        if accepted is None or accepted == tip or descends(self.repository, tip, accepted):
            return Look(tip)
        if descends(self.repository, accepted, tip):
            detail = (
                "The requests branch was taken back to an older commit than this machine has seen. The broker publishes"
                " it again by itself; try again in a minute, and tell who runs the broker."
            )
            return refuse(Reason.HISTORY_REWRITTEN, detail, accepted=accepted, seen=tip)
        return Look(tip, accepted)

    def accept(self, tip: ObjectId) -> None:
        """Remember a tip whose signature was verified: no older one is taken from now on.

        Raises:
            Unavailable: git refuses.
        """
        self.repository.set_ref(self._accepted, tip)

    def names(self, tip: ObjectId, folder: str) -> tuple[str, ...]:
        """List what lies directly in a folder of the branch; nothing where there is none.

        Raises:
            Unavailable: git failed.
        """
        return self._list(tip, folder, "--name-only")

    def every(self, tip: ObjectId, folder: str) -> tuple[str, ...]:
        """List the paths of all files below a folder, from the branch's root.

        Raises:
            Unavailable: git failed.
        """
        return tuple(f"{folder}/{name}" for name in self._list(tip, folder, "--name-only", "-r"))

    def read(self, tip: ObjectId, paths: Iterable[str], most: int) -> Mapping[str, bytes]:
        """Read the files that are there, each of at most `most` bytes, hashed anew.

        Raises:
            Malformed: one is no file, or larger.
            Unavailable: git failed, or all of them are too much at once.
        """
        wanted = list(paths)
        found = self._found(tip, wanted)
        total = 0
        for path, (kind, size) in found.items():
            if kind != "blob" or size > most:
                raise Malformed(f"a {kind} of {size} bytes, where a file has at most {most}", where=path)
            total += size + 128
        if total >= OUTPUT_CAP:
            raise Unavailable("the requests branch holds more than can be read at once")
        raw = self.repository.output("cat-file", "--batch", stdin="".join(f"{tip}:{path}\n" for path in found).encode())
        return dict(_contents(raw, list(found)))

    def one(self, tip: ObjectId, path: str, most: int) -> bytes | None:
        """Read one file; None where there is none.

        Raises:
            Malformed: it is no file, or larger than `most` bytes.
            Unavailable: git failed.
        """
        return self.read(tip, [path], most).get(path)

    def bundle(self, tip: ObjectId, name: str) -> Mapping[str, bytes]:
        """Read the files of a bundle by the hex of its digest, which is *not* compared here.

        Raises:
            Malformed: too many files, or one too large.
            Unavailable: git failed.
        """
        folder = f"bundles/{name}"
        paths = self.every(tip, folder)
        if len(paths) > MAX_FILES:
            raise Malformed(f"more than {MAX_FILES} files", where=folder)
        return {path.removeprefix(f"{folder}/"): raw for path, raw in self.read(tip, paths, MAX_FILE).items()}

    def _list(self, tip: ObjectId, folder: str, *options: str) -> tuple[str, ...]:
        if self._found(tip, [folder]).get(folder, ("", 0))[0] != "tree":
            return ()
        raw = self.repository.output("ls-tree", "-z", *options, f"{tip}:{folder}")
        # What is not text is no path of the branch; a name that is not found later refuses.
        return tuple(name for name in raw.decode("utf-8", "replace").split("\0") if name)

    def _found(self, tip: ObjectId, paths: list[str]) -> dict[str, tuple[str, int]]:
        if any("\n" in path for path in paths):
            raise Malformed("a line end in a path", where="requests branch")
        if not paths:
            return {}
        asked = "".join(f"{tip}:{path}\n" for path in paths).encode()
        raw = self.repository.output("cat-file", "--batch-check=%(objecttype) %(objectsize)", stdin=asked)
        lines = raw.decode("utf-8", "replace").split("\n")[:-1]
        if len(lines) != len(paths):
            raise Unavailable("git cat-file answered strangely")
        found: dict[str, tuple[str, int]] = {}
        for path, line in zip(paths, lines, strict=True):
            kind, _, size = line.partition(" ")
            if kind in ("blob", "tree", "commit", "tag") and size.isdecimal():
                found[path] = (kind, int(size))
        return found

    def _listed(self) -> ObjectId | None:
        url = self.repository.address.url
        done = self.repository.run(
            *("ls-remote", "--refs", "--quiet", "--end-of-options", url, self.branch),
            network=True,
            limits=_LISTING,
            timeout=SECONDS,
        )
        if done.returncode != 0:
            raise Unavailable(f"cannot read {url}: {words(done) or done.returncode}")
        try:
            listed = read_listing(done.stdout, (self.branch,))
        except Malformed as error:
            raise Unavailable(f"cannot read {url}: {error}") from error
        if self.branch in listed and listed[self.branch] is None:
            raise Unavailable("the repository lists the requests branch twice")
        return listed.get(self.branch)

    def _fetch(self) -> None:
        done = self.repository.run(
            *("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance"),
            *("--no-recurse-submodules", "--no-update-shallow", "--end-of-options"),
            *(self.repository.address.url, f"+{self.branch}:{self._fetched}"),
            network=True,
            settings=FETCHING,
            limits=_FETCH,
            timeout=SECONDS,
        )
        if done.returncode != 0:
            raise Unavailable(f"the requests branch cannot be fetched: {words(done) or done.returncode}")


def _contents(raw: bytes, paths: list[str]) -> Iterator[tuple[str, bytes]]:
    """Cut what `cat-file --batch` wrote, and hold each file against its id."""
    at = 0
    for path in paths:
        end = raw.find(b"\n", at)
        head = raw[at:end].decode("ascii", "replace").split(" ")
        if end < 0 or len(head) != 3 or head[1] != "blob":
            raise Unavailable("git cat-file answered strangely")
        oid, size = read_id(head[0]), int(head[2])
        content = raw[end + 1 : end + 1 + size]
        if hash_object("blob", content, oid) != oid:
            raise Unavailable(f"{path} is damaged in this machine's copy")
        at = end + 2 + size
        yield path, content
