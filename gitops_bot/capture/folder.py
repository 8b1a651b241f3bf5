"""A job's folder: which file means what, and whether somebody keeps the job right now.

The lock is the one sign of life: whoever starts a job takes it and hands its descriptor to the keeper, so it is held
without a gap from the decision to start until the keeper is gone, however that comes about. A recorded pid is for
people only: pids are used again. A file that has its name is whole, since each is renamed to it.

    lock        held while the job is being started or kept
    job.json    what to run; then `began.json`, then `end.json`, by the keeper
    cancelled   no start and no result from here on
    out/        where the program runs and leaves trace.jsonl and knobs.json
"""

import errno
import fcntl
import hashlib
import json
import os
import stat
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gitops_bot.core.errors import Unavailable

MAX_ARTEFACT: Final = 256 * 1024 * 1024
MAX_ERRORS: Final = 8192
_TRIES: Final = 20
_PAUSE: Final = 0.01


@dataclass(frozen=True, slots=True)
class Folder:
    """The paths of one job."""

    path: Path

    @property
    def job(self) -> Path:
        """What to run."""
        return self.path / "job.json"

    @property
    def began(self) -> Path:
        """That the keeper took over."""
        return self.path / "began.json"

    @property
    def end(self) -> Path:
        """How the program ended."""
        return self.path / "end.json"

    @property
    def cancelled(self) -> Path:
        """That nobody wants it any more."""
        return self.path / "cancelled"

    @property
    def regime(self) -> Path:
        """The program's standard input."""
        return self.path / "regime.json"

    @property
    def errors(self) -> Path:
        """The program's error output, and the keeper's own."""
        return self.path / "stderr"

    @property
    def output(self) -> Path:
        """The program's standard output."""
        return self.path / "stdout"

    @property
    def out(self) -> Path:
        """Where the program runs."""
        return self.path / "out"

    def make(self) -> None:
        """Create the folder, for its owner alone."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.out.mkdir(mode=0o700, exist_ok=True)

    def lock(self) -> int | None:
        """Take the lock and give its descriptor, or None while somebody keeps the job.

        Tries for a moment: `kept` and a fork of another thread hold it for an instant.
        """
        descriptor = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        for _ in range(_TRIES):
            if _flock(descriptor, fcntl.LOCK_EX):
                return descriptor
            time.sleep(_PAUSE)
        os.close(descriptor)
        return None

    def kept(self) -> bool:
        """Say whether somebody keeps the job."""
        try:
            descriptor = os.open(self.path / "lock", os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            return not _flock(descriptor, fcntl.LOCK_SH)
        finally:
            os.close(descriptor)


def _flock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def place(path: Path, value: Mapping[str, object]) -> None:
    """Write a JSON file so that it is there whole, or not at all, after any crash."""
    partial = path.with_name(f"{path.name}.partial")
    with partial.open("w", encoding="utf-8") as file:
        file.write(json.dumps(value))
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def read(path: Path, cap: int) -> bytes | None:
    """Read at most `cap` + 1 bytes of a regular file that is no link; None when there is none.

    Raises:
        Unavailable: it is there and cannot be read.
    """
    descriptor = _open(path)
    if descriptor is None:
        return None
    with os.fdopen(descriptor, "rb") as file:
        return file.read(cap + 1)


def tail(path: Path) -> bytes:
    """Read the last bytes of a program's error output; none when there is no such file."""
    descriptor = _open(path)
    if descriptor is None:
        return b""
    with os.fdopen(descriptor, "rb") as file:
        file.seek(max(0, os.fstat(descriptor).st_size - MAX_ERRORS))
        return file.read(MAX_ERRORS)


def file_digest(path: Path) -> str | None:
    """Hash an artefact, as `sha256:` and hex; None when it is no regular file, a link, or beyond `MAX_ARTEFACT`.

    Raises:
        Unavailable: it is there and cannot be read.
    """
    descriptor = _open(path)
    if descriptor is None:
        return None
    with os.fdopen(descriptor, "rb") as file:
        if os.fstat(descriptor).st_size > MAX_ARTEFACT:
            return None
        return "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()


def _open(path: Path) -> int | None:
    # O_NONBLOCK: a pipe under the name must not make us wait for its writer.
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO):
            return None
        raise Unavailable(f"cannot read {path.name}: {error.strerror}") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return None
    return descriptor
