"""Between two turns the workspace is the best tree that was measured: kept by copy, restored by copy, `state/` aside.

Links are copied as links, pipes and devices are left out, set-user-id bits are lost, and a tree beyond the limits is
refused rather than copied. The agent may still be at work in the tree, and the loop may be root: every step is taken
from an open folder and follows no link, so that no file outside is read or written.
"""

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from gitops_bot.core.errors import Unavailable

STATE: Final = "state"
MAX_FILES: Final = 20_000
MAX_BYTES: Final = 512 * 1024 * 1024
MAX_DEPTH: Final = 64
PIECE: Final = 1024 * 1024

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Snapshots:
    """Copies of a workspace in `folder`, by name. What is restored belongs to `owner`, (user, group), where one is
    given."""

    def __init__(self, workspace: Path, folder: Path, owner: tuple[int, int] | None = None) -> None:
        self._workspace = workspace
        self._folder = folder
        self._owner = owner

    def keep(self, name: str) -> None:
        """Copy the workspace under a name.

        Raises:
            Unavailable: the tree is too large, or a file cannot be read or written.
        """
        target, unfinished = self._folder / name, self._folder / f"{name}.unfinished"
        try:
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir(mode=0o700, parents=True)
            with _opened(self._workspace) as source, _opened(unfinished) as copied:
                _Copy(None).tree(source, copied)
            shutil.rmtree(target, ignore_errors=True)
            unfinished.rename(target)
        except (OSError, shutil.Error) as error:
            raise Unavailable(f"snapshot of the workspace: {error}") from error

    def restore(self, name: str) -> None:
        """Make the workspace what it was under a name.

        Raises:
            Unavailable: there is no such snapshot, or a file cannot be written.
        """
        source = self._folder / name
        if not source.is_dir():
            raise Unavailable(f"no snapshot {name}")
        try:
            with _opened(source) as kept, _opened(self._workspace) as target:
                for entry in os.listdir(target):  # noqa: PTH208 # from an open folder
                    if entry != STATE:
                        _remove(target, entry)
                _Copy(self._owner).tree(kept, target)
        except (OSError, shutil.Error, RecursionError) as error:  # rmtree recurses once a level
            raise Unavailable(f"restoring the workspace: {error}") from error

    def prune(self, name: str) -> None:
        """Delete every snapshot but one."""
        for entry in self._folder.iterdir():
            if entry.name != name:
                shutil.rmtree(entry, ignore_errors=True)


class _Copy:
    """One copy of a tree, within the limits."""

    def __init__(self, owner: tuple[int, int] | None) -> None:
        self._owner = owner
        self._files = 0
        self._size = 0

    def tree(self, source: int, target: int, depth: int = 0) -> None:
        """Copy what is in one open folder into another."""
        if depth > MAX_DEPTH:
            raise Unavailable(f"the workspace is nested deeper than {MAX_DEPTH} folders")
        for name in os.listdir(source):  # from an open folder
            if depth == 0 and name == STATE:
                continue
            facts = os.stat(name, dir_fd=source, follow_symlinks=False)
            self._count(files=1)
            if stat.S_ISDIR(facts.st_mode):
                os.mkdir(name, 0o700, dir_fd=target)
                with _opened(name, source) as below, _opened(name, target) as copied:
                    self.tree(below, copied, depth + 1)
                    self._finish(copied, facts)
            elif stat.S_ISLNK(facts.st_mode):
                os.symlink(os.readlink(name, dir_fd=source), name, dir_fd=target)
                if self._owner is not None:
                    os.chown(name, *self._owner, dir_fd=target, follow_symlinks=False)
            elif stat.S_ISREG(facts.st_mode):
                self._file(name, source, target)

    def _file(self, name: str, source: int, target: int) -> None:
        # O_NONBLOCK: it may have become a pipe since.
        given = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=source)
        try:
            facts = os.fstat(given)
            if not stat.S_ISREG(facts.st_mode):
                return
            self._count(size=facts.st_size)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            taken = os.open(name, flags, 0o600, dir_fd=target)
            try:
                copied = 0
                while piece := os.read(given, PIECE):
                    copied += len(piece)
                    if copied > facts.st_size:
                        self._count(size=len(piece))  # it grows while it is read
                    _whole(taken, piece)
                self._finish(taken, facts)
            finally:
                os.close(taken)
        finally:
            os.close(given)

    def _finish(self, target: int, facts: os.stat_result) -> None:
        if self._owner is not None:
            os.fchown(target, *self._owner)
        os.fchmod(target, stat.S_IMODE(facts.st_mode) & 0o777)
        os.utime(target, ns=(facts.st_atime_ns, facts.st_mtime_ns))

    def _count(self, *, files: int = 0, size: int = 0) -> None:
        self._files += files
        self._size += size
        if self._files > MAX_FILES or self._size > MAX_BYTES:
            raise Unavailable(f"the workspace holds more than {MAX_FILES} files or {MAX_BYTES} bytes")


def _whole(target: int, piece: bytes) -> None:
    while piece:
        piece = piece[os.write(target, piece) :]


@contextmanager
def _opened(folder: Path | str, within: int | None = None) -> Iterator[int]:
    opened = os.open(folder, _FOLDER, dir_fd=within)
    try:
        yield opened
    finally:
        os.close(opened)


def _remove(folder: int, name: str) -> None:
    if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        shutil.rmtree(name, dir_fd=folder)
    else:
        os.unlink(name, dir_fd=folder)
