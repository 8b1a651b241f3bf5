"""A gated action is carried out by one pinned program: the body on standard input, and nothing of it anywhere else.

It runs in an empty folder of its own, with an environment built from scratch, within limits and a time-out, and its
whole group ends with it. What it wrote is kept up to a cap, read by `verbs.grammar`. A broker that is killed leaves the
program running: whether it is called again is the rule of `core.executions`.
"""

import contextlib
import os
import select
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gitops_bot import process
from gitops_bot.core.errors import Refused, Unavailable
from gitops_bot.core.executions import Done, ExecutionKey, ExecutionResult, Failed, NothingDone
from gitops_bot.policy.model import ProcessExecutor
from gitops_bot.verbs.grammar import MAX_REPLY, Said, dup_of_output, last_line, read_exit, shown
from gitops_bot.verbs.outcome import outcome, unclear
from gitops_bot.verbs.program import open_pinned, require_support, sealed_bytes

TIMEOUT: Final = 60.0
"""Seconds for one call."""
LIMITS: Final = process.Limits(cpu_seconds=60, memory_bytes=8 * 1024**3, file_bytes=256 * 1024**2)
_GRACE: Final = 1.0
_LOOK: Final = 0.05
_MAX_ERRORS: Final = 8 * 1024


@dataclass(frozen=True, slots=True)
class _Ending:
    """How a run ended: its exit status, None when it outlasted its time, and the two ends of what it wrote."""

    returncode: int | None
    output: bytes
    cut: bool
    errors: bytes


class ProgramExecutor:
    """`ports.Executor` over a program of the bundle; `timeout` in seconds. Safe to share between threads."""

    def __init__(
        self, executor: ProcessExecutor, scratch: Path, *, timeout: float = TIMEOUT, limits: process.Limits = LIMITS
    ) -> None:
        """Take the executor; each call gets an empty folder below `scratch`.

        Raises:
            ConfigError: this host cannot pin a program.
        """
        require_support()
        self._executor = executor
        self._scratch = scratch
        self._timeout = timeout
        self._limits = limits

    @property
    def idempotent(self) -> bool:
        """Whether the program is declared to do nothing twice under one key."""
        return self._executor.idempotent

    def check(self) -> Refused | None:
        """Look whether the program's file still has its digest, without running it.

        Raises:
            NothingDone: it cannot be read now.
        """
        found = open_pinned(self._executor.argv[0], self._executor.sha256)
        if isinstance(found, Refused):
            return found
        os.close(found)
        return None

    def execute(self, key: ExecutionKey, body: bytes) -> ExecutionResult:
        """Run the program once, to its end. The key is in the body and nowhere else.

        Raises:
            NothingDone: it could not be started.
            Unavailable: it was killed, outlasted its time or asked for another call, and is declared idempotent.
        """
        del key
        program = open_pinned(self._executor.argv[0], self._executor.sha256)
        if isinstance(program, Refused):
            return Failed(program.detail, program.reason)
        try:
            with contextlib.ExitStack() as stack:
                child = self._start(stack, program, body)
                ending = _watch(child, self._timeout)
        finally:
            os.close(program)
        return self._result(ending)

    def _start(self, stack: contextlib.ExitStack, program: int, body: bytes) -> process.Child:
        """Start it in its folder, which goes away with `stack`. Until this returns nothing was done."""
        try:
            folder = tempfile.TemporaryDirectory(prefix="run-", dir=self._scratch, ignore_cleanup_errors=True)
            place = stack.enter_context(folder)
            given = sealed_bytes(body)
        except OSError as error:
            raise NothingDone(f"cannot set up the call of {self._executor.argv[0]}: {error.strerror}") from error
        try:
            return process.start(
                self._executor.argv,
                cwd=Path(place),
                env={"HOME": place, "TMPDIR": place},
                stdin=given,
                stdout=process.PIPE,
                stderr=process.PIPE,
                limits=self._limits,
                program=program,
            )
        except Unavailable as error:
            raise NothingDone(str(error)) from error
        finally:
            os.close(given)

    def _result(self, ending: _Ending) -> ExecutionResult:
        name = self._executor.argv[0]
        if ending.returncode is None:
            reason = f"{name} took longer than {self._timeout:g} s and was ended"
            return unclear(reason, idempotent=self.idempotent)
        said = read_exit(ending.returncode)
        ended = f"signal {-ending.returncode}" if ending.returncode < 0 else f"exit {ending.returncode}"
        why = last_line(ending.errors)
        done = Done(shown(ending.output, cut=ending.cut), dup=said is Said.DONE and dup_of_output(ending.output))
        return outcome(said, f"{name}: {ended}" + (f": {why}" if why else ""), done, idempotent=self.idempotent)


class _Kept:
    """What came out of one pipe: its first or its last bytes, up to a cap; the rest is read and dropped."""

    def __init__(self, pipe: int, cap: int, *, last: bool) -> None:
        os.set_blocking(pipe, False)
        self.pipe = pipe
        self.data = bytearray()
        self.cut = False
        self._cap, self._last = cap, last

    def read(self) -> int | None:
        """Read once what is there; the count of bytes: 0 at the end of the pipe, None when nothing is there now."""
        try:
            piece = os.read(self.pipe, MAX_REPLY)
        except BlockingIOError:
            return None
        self.data += piece
        if len(self.data) > self._cap:
            self.cut = True
            del self.data[: -self._cap if self._last else 0]
            del self.data[self._cap :]
        return len(piece)


def _watch(child: process.Child, seconds: float) -> _Ending:
    """Wait for a program's end, reading what it writes so that it never waits for us; end its group."""
    assert child.stdout is not None and child.stderr is not None
    with contextlib.closing(child.stdout), contextlib.closing(child.stderr):
        try:
            output = _Kept(child.stdout.fileno(), MAX_REPLY, last=False)
            errors = _Kept(child.stderr.fileno(), _MAX_ERRORS, last=True)
            ended = _wait(child, (output, errors), time.monotonic() + seconds)
        finally:
            process.end_group(child, grace=0 if child.poll() is not None else _GRACE)
        for kept in (output, errors):
            # What was written before the end is still in the pipe; a process that left the group may write for ever.
            for _ in range(32):
                if not kept.read():
                    break
        return _Ending(child.returncode if ended else None, bytes(output.data), output.cut, bytes(errors.data))


def _wait(child: process.Child, pipes: tuple[_Kept, ...], until: float) -> bool:
    """Read until the program has ended; False when it outlasts its time."""
    looked_at = {kept.pipe: kept for kept in pipes}
    poller = select.poll()
    for pipe in looked_at:
        poller.register(pipe, select.POLLIN)
    while child.poll() is None:
        left = until - time.monotonic()
        if left <= 0:
            return False
        # Its end does not show in the pipes when something it started holds them open, so it is looked for.
        for pipe, _ in poller.poll(min(left, _LOOK if looked_at else _LOOK / 10) * 1000):
            if looked_at[pipe].read() == 0:
                poller.unregister(pipe)
                del looked_at[pipe]
    return True
