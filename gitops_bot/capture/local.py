"""Captures run on this host, each under a keeper of its own that outlives a broker; `ports.Capturer`.

A job is a folder (`capture.folder`). Nothing is remembered here that a restarted broker could not read there. The
program gets the regime on standard input, runs in the job's `out/`, and must leave `trace.jsonl` and `knobs.json`
there and exit 0; whatever else it does is a failure with its last error line as the reason. Whether a capture may run,
and whether a finished one is a hit, is decided elsewhere.
"""

import json
import os
import secrets
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gitops_bot.capture.folder import Folder, file_digest, place, read, tail
from gitops_bot.capture.grammar import (
    MAX_END,
    MAX_JOB,
    MAX_KNOBS,
    last_line,
    printable,
    read_end,
    read_job,
    read_job_name,
    read_knobs,
)
from gitops_bot.capture.marked import VARIABLE, end_marked, supported
from gitops_bot.core.captures import Regime
from gitops_bot.core.errors import ConfigError, Malformed, Unavailable
from gitops_bot.ports import CaptureFailed, CaptureResult
from gitops_bot.process import Limits, start

TRACE: Final = "trace.jsonl"
KNOBS: Final = "knobs.json"
_PASSES: Final = 200
_PAUSE: Final = 0.02


class LocalCapturer:
    """Runs `program` (argv, no shell) for each job under `root`, within `limits` and `timeout` seconds."""

    def __init__(self, root: Path, program: Sequence[str], limits: Limits, timeout: float) -> None:
        """Remember how to run jobs.

        Raises:
            ConfigError: this host cannot end a job's processes safely.
        """
        if not supported():
            raise ConfigError(
                "local captures need Linux (/proc and pidfd)",
                fix="run captures elsewhere: [capture] in gitops-bot.toml",
            )
        self._root = root.absolute()
        self._program = tuple(program)
        self._limits = limits
        self._timeout = timeout
        self._children: list[int] = []
        self._guard = threading.Lock()

    def submit(self, job: str, regime: Regime) -> None:
        """Start a job, unless it was started or cancelled before: then nothing happens.

        Raises:
            Unavailable: it cannot be started now. A later try is the same submission.
            Malformed: the name is none; the caller's bug.
        """
        folder = Folder(self._root / read_job_name(job))
        self._reap()
        try:
            folder.make()
            lock = folder.lock()
            if lock is None:
                return
            try:
                if not (folder.began.exists() or folder.cancelled.exists()):
                    self._start(folder, regime, lock)
            finally:
                os.close(lock)
        except OSError as error:
            raise Unavailable(f"cannot set up the capture's folder: {error.strerror}") from error

    def poll(self, job: str) -> CaptureResult | None:
        """Give a job's result, or None while it runs.

        Raises:
            CaptureFailed: it was cancelled, killed or never started, or it ended without trace and knobs.
            Unavailable: its files cannot be read now.
            Malformed: the name is none; the caller's bug.
        """
        folder = Folder(self._root / read_job_name(job))
        self._reap()
        if folder.cancelled.exists():
            raise CaptureFailed("cancelled")
        if folder.kept():
            return None
        # From here on nothing changes: nobody keeps the job, and only a keeper writes its end.
        found = read(folder.end, MAX_END)
        if found is None:
            raise CaptureFailed(self._orphaned(folder))
        try:
            end = read_end(found)
        except Malformed as error:
            raise CaptureFailed(printable(str(error))) from error
        if end.returncode != 0:
            raise CaptureFailed(_reason(end.returncode, end.reason, last_line(tail(folder.errors))))
        return _result(folder)

    def cancel(self, job: str) -> None:
        """End a job with all of its processes, and for good; an unknown one is no error.

        Raises:
            Unavailable: some are still there after a few seconds; cancelling goes on with the next try.
            Malformed: the name is none; the caller's bug.
        """
        folder = Folder(self._root / read_job_name(job))
        if not folder.path.is_dir():
            return
        try:
            folder.cancelled.touch(mode=0o600)
        except OSError as error:
            raise Unavailable(f"cannot cancel the capture: {error.strerror}") from error
        self._end(folder)

    def rehash(self, artefact: Path) -> str | None:
        """Hash an artefact now, as `sha256:` and hex; None when it is gone, no regular file, or a link."""
        return file_digest(artefact)

    def _start(self, folder: Folder, regime: Regime, lock: int) -> None:
        with folder.regime.open("w", encoding="ascii") as file:
            json.dump(regime.params(), file)
        token = secrets.token_hex(16)
        record = {
            "v": 1,
            "token": token,
            "program": list(self._program),
            "timeout": self._timeout,
            "cpu_seconds": self._limits.cpu_seconds,
            "memory_bytes": self._limits.memory_bytes,
            "file_bytes": self._limits.file_bytes,
        }
        place(folder.job, record)
        with folder.errors.open("wb") as errors:
            # -I: nothing of the folder, or of this environment, becomes code of the keeper.
            child = start(
                [sys.executable, "-I", "-m", "gitops_bot.capture.keeper", str(folder.path)],
                cwd=folder.path,
                env={VARIABLE: token},
                stdin=lock,
                stderr=errors,
            )
        with self._guard:
            self._children.append(child.pid)
        # The keeper outlives this object on purpose; without this, dropping the handle would warn of it.
        child.returncode = 0

    def _orphaned(self, folder: Folder) -> str:
        """Say why a job without keeper and end has none, after ending what its keeper may have left behind."""
        if not folder.job.exists():
            return "nobody here knows this job"
        self._end(folder)
        line = last_line(tail(folder.errors))
        what = "it was killed before it ended" if folder.began.exists() else "it did not start"
        return f"{what}: {line}" if line else what

    def _end(self, folder: Folder) -> None:
        for _ in range(_PASSES):
            found = read(folder.job, MAX_JOB)
            signalled = end_marked(_token(found)) if found is not None else 0
            self._reap()
            if not signalled and not folder.kept():
                return
            time.sleep(_PAUSE)
        raise Unavailable("a capture's processes do not end")

    def _reap(self) -> None:
        with self._guard:
            self._children = [pid for pid in self._children if _runs(pid)]


def _runs(child: int) -> bool:
    try:
        return os.waitpid(child, os.WNOHANG)[0] == 0
    except ChildProcessError:
        # Reaped already, by a host that ignores SIGCHLD.
        return False


def _token(job: bytes) -> str:
    try:
        return read_job(job).token
    except Malformed as error:
        raise Unavailable(f"the capture's record is damaged: {error}") from error


def _reason(returncode: int | None, reason: str | None, line: str) -> str:
    if returncode is None:
        what = printable(reason or "it did not end by itself")
    elif returncode < 0:
        what = f"it was ended by signal {-returncode}"
    else:
        return line or f"it ended with status {returncode}"
    return f"{what}: {line}" if line else what


def _result(folder: Folder) -> CaptureResult:
    found = read(folder.out / KNOBS, MAX_KNOBS)
    digest = file_digest(folder.out / TRACE)
    if found is None or digest is None:
        raise CaptureFailed(f"it ended without {TRACE} and {KNOBS}")
    try:
        return CaptureResult(folder.out / TRACE, digest, read_knobs(found))
    except Malformed as error:
        raise CaptureFailed(printable(str(error))) from error
