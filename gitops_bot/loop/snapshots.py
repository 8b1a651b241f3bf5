"""Between two turns the workspace is the best tree that was measured: kept by copy, restored by copy, `state/` aside.

Links are copied as links, pipes and devices are left out, and a tree beyond the limits is refused rather than copied.
"""

import os
import shutil
import stat
from pathlib import Path
from typing import Final

from gitops_bot.core.errors import Unavailable

STATE: Final = "state"
MAX_FILES: Final = 20_000
MAX_BYTES: Final = 512 * 1024 * 1024
MAX_DEPTH: Final = 64


class Snapshots:
    """Copies of a workspace in `folder`, by name."""

    def __init__(self, workspace: Path, folder: Path) -> None:
        self._workspace = workspace
        self._folder = folder

    def keep(self, name: str) -> None:
        """Copy the workspace under a name.

        Raises:
            Unavailable: the tree is too large, or a file cannot be read or written.
        """
        target, unfinished = self._folder / name, self._folder / f"{name}.unfinished"
        try:
            shutil.rmtree(unfinished, ignore_errors=True)
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _copy(self._workspace, unfinished, _Limit())
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
            for entry in _entries(self._workspace):
                if entry.name != STATE:
                    _remove(Path(entry.path))
            _copy(source, self._workspace, _Limit())
        except (OSError, shutil.Error, RecursionError) as error:  # rmtree recurses once a level
            raise Unavailable(f"restoring the workspace: {error}") from error

    def prune(self, name: str) -> None:
        """Delete every snapshot but one."""
        for entry in _entries(self._folder):
            if entry.name != name:
                shutil.rmtree(entry.path, ignore_errors=True)


class _Limit:
    def __init__(self) -> None:
        self.files = 0
        self.size = 0

    def count(self, size: int) -> None:
        self.files += 1
        self.size += size
        if self.files > MAX_FILES or self.size > MAX_BYTES:
            raise Unavailable(f"the workspace holds more than {MAX_FILES} files or {MAX_BYTES} bytes")


def _entries(folder: Path) -> list["os.DirEntry[str]"]:
    with os.scandir(folder) as entries:
        return list(entries)


def _copy(source: Path, target: Path, limit: _Limit, depth: int = 0) -> None:
    if depth > MAX_DEPTH:
        raise Unavailable(f"the workspace is nested deeper than {MAX_DEPTH} folders")
    target.mkdir(mode=0o700, exist_ok=True)
    for entry in _entries(source):
        if depth == 0 and entry.name == STATE:
            continue
        facts = entry.stat(follow_symlinks=False)
        limit.count(facts.st_size)
        copied = target / entry.name
        if stat.S_ISDIR(facts.st_mode):
            _copy(Path(entry.path), copied, limit, depth + 1)
        elif stat.S_ISLNK(facts.st_mode) or stat.S_ISREG(facts.st_mode):
            shutil.copy2(entry.path, copied, follow_symlinks=False)
    if depth:
        shutil.copystat(source, target)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
