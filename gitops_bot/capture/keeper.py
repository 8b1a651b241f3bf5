"""A job's keeper: runs the program once, bounds its time, and writes how it ended, whether or not a broker is left.

Started by `capture.local` with the job's folder as its argument and the locked descriptor as its standard input. It
holds that lock as long as it lives, so a job without a holder and without `end.json` was killed.
"""

import os
import select
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gitops_bot.capture.folder import Folder, place, read
from gitops_bot.capture.grammar import MAX_JOB, Job, read_job
from gitops_bot.capture.marked import VARIABLE, end_marked
from gitops_bot.core.errors import Unavailable
from gitops_bot.process import Limits, end_group, start

_GRACE: Final = 2.0
_PAUSE: Final = 0.02


def main(arguments: Sequence[str]) -> int:
    """Keep one job. Gives the exit status, which nobody needs: `end.json` says it all."""
    folder = Folder(Path(arguments[0]))
    terminated, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGTERM, lambda _number, _frame: None)
    place(folder.began, {"v": 1, "pid": os.getpid()})
    job = read_job(read(folder.job, MAX_JOB) or b"")
    try:
        returncode, reason = _keep(folder, job, terminated)
    except Unavailable as error:
        returncode, reason = None, str(error)
    while end_marked(job.token):
        # What the program left behind in sessions of its own; a capture that ended has no process left.
        time.sleep(_PAUSE)
    place(folder.end, {"v": 1, "returncode": returncode, "reason": reason})
    return 0


def _keep(folder: Folder, job: Job, terminated: int) -> tuple[int | None, str | None]:
    if folder.cancelled.exists():
        return None, "cancelled"
    with folder.regime.open("rb") as given, folder.output.open("wb") as out, folder.errors.open("ab") as err:
        child = start(
            job.program,
            cwd=folder.out,
            env={VARIABLE: job.token},
            stdin=given,
            stdout=out,
            stderr=err,
            limits=Limits(job.cpu_seconds, job.memory_bytes, job.file_bytes),
        )
    reason = _wait(child.pid, terminated, job.timeout)
    end_group(child, grace=0 if reason is None else _GRACE)
    return (child.returncode, None) if reason is None else (None, reason)


def _wait(pid: int, terminated: int, timeout: float) -> str | None:
    """Wait for a child without reaping it; say why it must be ended, None when it ended by itself."""
    opened = os.pidfd_open(pid)
    try:
        ready, _, _ = select.select([opened, terminated], [], [], timeout)
    finally:
        os.close(opened)
    if opened in ready:
        return None
    return "it was ended by SIGTERM" if ready else f"it took longer than {timeout:g} s"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
