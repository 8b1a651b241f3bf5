"""Runs the command line and kills this process at its n-th fsync: `killed_at_fsync.py N HOW ARGUMENT...`.

HOW is `after` (the line is whole), `torn` (its end is missing, as after a power cut) or `gone` (nothing of it reached
the disk). The product has no hook for this; it calls `os.fsync` as ever.
"""

import os
import signal
import sys

from gitops_bot.cli import main

AT, HOW = int(sys.argv[1]), sys.argv[2]
_fsync, _pwrite = os.fsync, os.pwrite
_begun: dict[int, int] = {}
_count = 0


def pwrite(file: int, data: bytes, offset: int) -> int:
    """Remember where what was written begins."""
    _begun[file] = offset
    return _pwrite(file, data, offset)


def fsync(file: int) -> None:
    """Die at the chosen call."""
    global _count  # noqa: PLW0603 # one counter of one process
    _count += 1
    if _count == AT:
        size, begun = os.fstat(file).st_size, _begun.get(file, 0)
        if HOW == "torn":
            os.ftruncate(file, max(begun, size - 5))
        elif HOW == "gone":
            os.ftruncate(file, begun)
        else:
            _fsync(file)
        os.kill(os.getpid(), signal.SIGKILL)
    _fsync(file)


os.fsync, os.pwrite = fsync, pwrite  # type: ignore[assignment] # the names of their parameters differ
main(sys.argv[3:])
