"""Who holds dispatches: each broker process has a fresh name, and a locked file by it for as long as it lives.

A process of this host that is gone is known at once by its free lock (flock(2): released with its last descriptor, by
whatever death). Of a name without a file here nothing is known: another host's, whose lease has to run out.
"""

import fcntl
import os
import re
import secrets
from collections.abc import Collection
from pathlib import Path
from typing import Final

_NAME: Final = re.compile(r"[0-9a-f]{32}")


class Holders:
    """The holders of one folder. `name` is this process's own; nobody else ever has it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = folder
        self.name = secrets.token_hex(16)
        # Programs that this process starts do not inherit it (PEP 446), so that none of them keeps the lock.
        self._file = os.open(folder / self.name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def is_gone(self, holder: str) -> bool:
        """Tell whether a holder is a process of this host that has ended; what is not known to be gone is not gone."""
        if holder == self.name or not _NAME.fullmatch(holder):
            return False
        try:
            file = os.open(self._folder / holder, os.O_RDWR)
        except OSError:
            return False
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        finally:
            os.close(file)
        return True

    def gone(self, holders: Collection[str]) -> frozenset[str]:
        """Name those of some holders that are known to be gone, and forget the files of the gone ones beside them."""
        gone = frozenset(path.name for path in self._folder.iterdir() if self.is_gone(path.name))
        for holder in gone.difference(holders):
            (self._folder / holder).unlink(missing_ok=True)
        return gone.intersection(holders)

    def close(self) -> None:
        """Be gone; a second time changes nothing."""
        file, self._file = self._file, -1
        if file >= 0:
            (self._folder / self.name).unlink(missing_ok=True)
            os.close(file)
