"""Step 1 of the signed channel: what the persons' branches hold now, each fetched on its own.

After `fetch` every person has a tip: seen (all its objects are here, hashed and checked by git's fsck), absent, or
unreadable with the reason. Nobody's branch stops another's: each is fetched with its own limits into a quarantine, and
its objects move into the repository only when they are whole. What fails leaves nothing behind. History is *not*
judged here.

Git's fsck judges trees; what it says of commits is left to step 3, where a bad commit refuses only itself.
"""

import fcntl
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gitops_bot.core.errors import Malformed, Reason, Refused, Unavailable, refuse
from gitops_bot.core.principals import PrincipalName
from gitops_bot.process import Completed, Limits
from gitops_bot.signed.evidence import ObjectId
from gitops_bot.signed.grammar import MAX_LISTING, read_listing
from gitops_bot.signed.repository import Repository, branch, seen_ref, words

_COMMIT_FAULTS: Final = (
    "badDate",
    "badDateOverflow",
    "badEmail",
    "badName",
    "badTimezone",
    "missingAuthor",
    "missingCommitter",
    "missingEmail",
    "missingNameBeforeEmail",
    "missingSpaceBeforeDate",
    "missingSpaceBeforeEmail",
    "multipleAuthors",
    "zeroPaddedDate",
)
FETCHING: Final = (
    "fetch.fsckObjects=true",
    "fetch.unpackLimit=1",
    "fetch.writeCommitGraph=false",
    "fetch.showForcedUpdates=false",
    "fetch.recurseSubmodules=false",
    "protocol.version=2",
    *(f"fetch.fsck.{name}=ignore" for name in _COMMIT_FAULTS),
)
"""Settings of git under which people's objects are fetched: its fsck judges trees and leaves commits to step 3."""
# These two cannot be made less than an error by their name, only for a commit that is named (git, fsck.skipList).
_FATAL: Final = re.compile(r"^error: object ([0-9a-f]{40}|[0-9a-f]{64}): (?:nulInHeader|unterminatedHeader):", re.M)
_SKIPS: Final = 8
_PACKS: Final = 50
_FIRST_PAUSE: Final = 5.0
_LONGEST_PAUSE: Final = 600.0


@dataclass(frozen=True, slots=True)
class Seen:
    """A branch that was read: its tip and everything that belongs to it is in our repository."""

    tip: ObjectId


@dataclass(frozen=True, slots=True)
class Absent:
    """The shared repository has no such branch."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A branch is there and cannot be read now; why."""

    refused: Refused


Tip = Seen | Absent | Unreadable


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """What one person's fetch may cost: seconds by the wall and of processor, bytes of memory and of the pack."""

    seconds: float = 120.0
    cpu_seconds: int = 60
    memory_bytes: int = 1024**3
    pack_bytes: int = 64 * 1024**2


@dataclass(frozen=True, slots=True)
class _Failure:
    tip: ObjectId
    result: Unreadable
    pause: float
    until: float


@dataclass(slots=True)
class Fetcher:
    """Fetches the persons' branches of one environment. A tip that failed is not tried again before a growing pause is
    over (seconds by `monotonic`), unless it moves; those that failed come after those that did not."""

    repository: Repository
    environment: str
    limits: FetchLimits = FetchLimits()
    monotonic: Callable[[], float] = time.monotonic
    _failures: dict[PrincipalName, _Failure] = field(default_factory=dict)

    def fetch(self, people: Iterable[PrincipalName]) -> Mapping[PrincipalName, Tip]:
        """Look at each person's branch (step 1).

        Raises:
            Unavailable: the shared repository cannot be listed, or our own cannot be written; nobody was looked at.
        """
        wanted = sorted(set(people))
        with self._alone():
            unsound = self.repository.check()
            if unsound is not None:
                return dict.fromkeys(wanted, Unreadable(unsound))
            listed = self._list(wanted)
            refs = self.repository.refs()
            tips: dict[PrincipalName, Tip] = {}
            for person in sorted(wanted, key=lambda name: name in self._failures):
                tips[person] = self._look(person, listed, refs)
            self._compact()
        return tips

    def _list(self, people: Iterable[PrincipalName]) -> Mapping[str, ObjectId | None]:
        """1a. Ask which branches there are, in one request whose answer is bounded."""
        names = [branch(self.environment, person) for person in people]
        if not names:
            return {}
        url = self.repository.address.url
        limits = Limits(self.limits.cpu_seconds, self.limits.memory_bytes, MAX_LISTING)
        done = self.repository.run(
            "ls-remote",
            "--refs",
            "--quiet",
            "--end-of-options",
            url,
            *names,
            network=True,
            limits=limits,
            timeout=self.limits.seconds,
        )
        if done.returncode != 0:
            raise Unavailable(f"cannot list the branches of {url}: {words(done) or done.returncode}")
        try:
            return read_listing(done.stdout, names)
        except Malformed as error:
            raise Unavailable(f"cannot list the branches of {url}: {error}") from error

    def _look(self, person: PrincipalName, listed: Mapping[str, ObjectId | None], refs: Mapping[str, ObjectId]) -> Tip:
        name = branch(self.environment, person)
        if name not in listed:
            self._failures.pop(person, None)
            return Absent()
        tip = listed[name]
        if tip is None:
            return _unreadable("The shared repository lists the branch twice.")
        if len(tip) != self.repository.digits:
            return _unreadable(f"The shared repository does not use {self.repository.algorithm}, as ours does.")
        if refs.get(seen_ref(self.environment, person)) == tip:
            self._failures.pop(person, None)
            return Seen(tip)
        failure = self._failures.get(person)
        if failure is not None and failure.tip == tip and self.monotonic() < failure.until:
            return failure.result
        refused = self._bring(person, tip)
        if refused is None:
            self._failures.pop(person, None)
            return Seen(tip)
        last = failure.pause if failure is not None and failure.tip == tip else 0.0
        pause = min(2 * last or _FIRST_PAUSE, _LONGEST_PAUSE)
        result = Unreadable(refused)
        self._failures[person] = _Failure(tip, result, pause, self.monotonic() + pause)
        return result

    def _bring(self, person: PrincipalName, tip: ObjectId) -> Refused | None:
        """1b. Fetch one branch into a quarantine, check it there, and take its objects over; None when it is here."""
        with _quarantine(self.repository.folder) as room:
            try:
                refused = self._fetched(person, room) or self._whole(tip, room)
                if refused is not None:
                    return refused
                _take_over(room, self.repository.folder / "objects")
                self.repository.set_ref(seen_ref(self.environment, person), tip)
            except Unavailable as error:
                return refuse(Reason.FETCH_REFUSED, f"The branch cannot be read: {error}.")
            except OSError as error:
                raise Unavailable(f"cannot write the repository of approvals: {error.strerror}") from error
        return None

    def _fetched(self, person: PrincipalName, room: Path) -> Refused | None:
        skipped: list[str] = []
        while True:
            done = self._attempt(person, room, skipped)
            if (self.repository.folder / "shallow").exists():
                (self.repository.folder / "shallow").unlink()
                return refuse(Reason.FETCH_REFUSED, "The shared repository is a shallow clone.")
            if done.returncode == 0:
                return None
            fatal = _FATAL.search(done.stderr.decode("utf-8", "replace"))
            if fatal is None or fatal[1] in skipped or len(skipped) >= _SKIPS:
                return self._failed(done, room)
            skipped.append(fatal[1])
            for rest in (room / "pack").iterdir():
                rest.unlink()

    def _attempt(self, person: PrincipalName, room: Path, skipped: Iterable[str]) -> Completed:
        (room / "skip").write_text("".join(f"{oid}\n" for oid in skipped), encoding="ascii")
        limits = self.limits
        return self.repository.run(
            "fetch",
            "--quiet",
            "--no-tags",
            "--no-write-fetch-head",
            "--no-auto-maintenance",
            "--no-recurse-submodules",
            "--no-update-shallow",
            "--end-of-options",
            self.repository.address.url,
            branch(self.environment, person),
            network=True,
            environment=self._in(room),
            settings=(*FETCHING, f"fetch.fsck.skipList=quarantine/{room.name}/skip"),
            limits=Limits(limits.cpu_seconds, limits.memory_bytes, limits.pack_bytes),
            timeout=limits.seconds,
        )

    def _failed(self, done: Completed, room: Path) -> Refused:
        limit = self.limits.pack_bytes
        if any(path.stat().st_size >= limit for path in (room / "pack").iterdir()):
            return refuse(Reason.TOO_LARGE, f"What was pushed has more than {limit} bytes, compressed.")
        return refuse(Reason.FETCH_REFUSED, f"Git says: {words(done) or done.returncode}.")

    def _whole(self, tip: ObjectId, room: Path) -> Refused | None:
        """1c. Check that the listed tip is a commit with everything it reaches: a server may list one thing and send
        another, and a branch may move in between."""
        limits = Limits(self.limits.cpu_seconds, self.limits.memory_bytes)
        found = self.repository.run(
            "cat-file", "--batch-check=%(objecttype)", stdin=tip.encode() + b"\n", environment=self._in(room)
        )
        if found.returncode != 0 or found.stdout != b"commit\n":
            return refuse(Reason.FETCH_REFUSED, "The branch moved while it was read, or does not name a commit.")
        walked = self.repository.run(
            "rev-list",
            "--objects",
            "--quiet",
            tip,
            "--not",
            "--all",
            environment=self._in(room),
            limits=limits,
            timeout=self.limits.seconds,
        )
        if walked.returncode != 0:
            return refuse(Reason.FETCH_REFUSED, f"Objects of the branch are missing: {words(walked)}.")
        return None

    def _in(self, room: Path) -> Mapping[str, str]:
        objects = self.repository.folder / "objects"
        return {"GIT_OBJECT_DIRECTORY": str(room), "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(objects)}

    def _compact(self) -> None:
        """Join packs when there are many: each fetch adds one."""
        packs = sum(1 for path in (self.repository.folder / "objects" / "pack").iterdir() if path.suffix == ".pack")
        if packs >= _PACKS:
            # What was seen does not depend on it; it is tried again at the next look.
            with suppress(Unavailable):
                self.repository.run("repack", "-a", "-d", "-q", timeout=600.0)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other processes from fetching into this repository, and clear what a killed one left behind."""
        try:
            lock = os.open(self.repository.folder / "fetch.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise Unavailable(f"cannot lock the repository of approvals: {error.strerror}") from error
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Unavailable("another process is fetching approvals") from None
            for left in (self.repository.folder / "quarantine").iterdir():
                shutil.rmtree(left, ignore_errors=True)
            yield
        finally:
            os.close(lock)


@contextmanager
def _quarantine(folder: Path) -> Iterator[Path]:
    try:
        room = Path(tempfile.mkdtemp(dir=folder / "quarantine"))
        (room / "pack").mkdir()
    except OSError as error:
        raise Unavailable(f"cannot write the repository of approvals: {error.strerror}") from error
    try:
        yield room
    finally:
        shutil.rmtree(room, ignore_errors=True)


def _take_over(room: Path, objects: Path) -> None:
    """Move the packs of a quarantine into the repository; the index last, which makes git look at the pack."""
    order = {".idx": 1}
    for path in sorted((room / "pack").iterdir(), key=lambda path: order.get(path.suffix, 0)):
        if path.suffix in {".pack", ".rev", ".idx"}:
            path.replace(objects / "pack" / path.name)
    handle = os.open(objects / "pack", os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _unreadable(detail: str) -> Unreadable:
    return Unreadable(refuse(Reason.FETCH_REFUSED, detail))
