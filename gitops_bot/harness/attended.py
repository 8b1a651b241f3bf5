"""One program attended from its start to its end: its text is heard while it comes, it ends when it is told to or when
its time is over, and everything in its group ends with it, or with this process, even when that is killed.

A program that leaves its group (setsid) escapes; only a process namespace of its own (bubblewrap) keeps that in. What
the text means, and how a program is kept apart from what is ours, is the callers' work.
"""

import contextlib
import os
import select
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gitops_bot import process
from gitops_bot.ports import BodyStop

TEXT_CAP: Final = 64 * 1024 * 1024
"""Bytes of text that are passed on; beyond it a program is a flood."""
ERROR_KEPT: Final = 4 * 1024
GRACE_SECONDS: Final = 3.0
_TICK_SECONDS: Final = 0.1
_PIECE: Final = 64 * 1024
_LEFT: Final = 1024 * 1024
"""What a pipe can hold at most (pipe(7), /proc/sys/fs/pipe-max-size)."""
_WARDEN: Final = ("/bin/sh", "-c", 'read -r _; kill -s KILL -- "-$1"', "sh")
"""Its input ends when this process does, in whatever way; then it kills the group that it was named."""


@dataclass(frozen=True, slots=True)
class Attended:
    """How a program ended: `stop` is ENDED when it ended by itself, whatever its status; the last bytes of its standard
    error; whether it said more than is passed on."""

    stop: BodyStop
    code: int | None
    error: bytes
    cut: bool


def attend(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    stdin: bytes,
    limit: float,
    heard: Callable[[bytes], None],
    stopping: Callable[[], bool],
    cap: int,
) -> Attended:
    """Run one program for at most `limit` seconds and `cap` bytes of text.

    `heard` and `stopping` are called from the caller's own thread; what they raise ends the program and goes on.

    Raises:
        Unavailable: it cannot be started.
    """
    with tempfile.TemporaryFile() as given, contextlib.ExitStack() as ending:
        given.write(stdin)
        given.seek(0)
        child = process.start(argv, cwd=cwd, env=env, stdin=given, stdout=process.PIPE, stderr=process.PIPE)
        ending.enter_context(child)
        streams = _Streams(child, heard, cap)
        with _guarded(child):
            stop = streams.follow(time.monotonic() + limit, stopping)
            if stop is not BodyStop.ENDED:
                process.end_group(child, grace=GRACE_SECONDS)
        streams.drain()
    return Attended(stop, child.returncode, streams.error, streams.cut)


@contextlib.contextmanager
def _guarded(child: process.Child) -> Iterator[None]:
    """Put a warden beside a program, and end both. The warden ends first: so long as the program is not reaped, its
    number is nobody else's."""
    theirs, ours = os.pipe()
    try:
        try:
            warden = process.start([*_WARDEN, str(child.pid)], cwd=Path("/"), stdin=theirs)
        finally:
            os.close(theirs)
        with warden:
            try:
                yield
            finally:
                process.end_group(warden, grace=0)
    finally:
        os.close(ours)
        process.end_group(child, grace=0)


class _Streams:
    """What a program says, and whether it still runs. Its end is seen without reaping it where the system can."""

    def __init__(self, child: process.Child, heard: Callable[[bytes], None], cap: int) -> None:
        assert child.stdout is not None and child.stderr is not None
        self._child, self._heard, self._left = child, heard, cap
        self._out, self._error = child.stdout.fileno(), child.stderr.fileno()
        self.error = b""
        self.cut = False
        self._watched = select.poll()
        for stream in (self._out, self._error):
            os.set_blocking(stream, False)
            self._watched.register(stream, select.POLLIN)

    def follow(self, until: float, stopping: Callable[[], bool]) -> BodyStop:
        """Pass on what is said until the program ends, is to be stopped, or its time is over."""
        with contextlib.ExitStack() as closing:
            life = _life(self._child)
            if life is not None:
                closing.callback(os.close, life)
                self._watched.register(life, select.POLLIN)
            return self._until_end(life, until, stopping)

    def _until_end(self, life: int | None, until: float, stopping: Callable[[], bool]) -> BodyStop:
        asked = time.monotonic()
        while True:
            ready = dict(self._watched.poll(_TICK_SECONDS * 1_000))
            for stream in (self._out, self._error):
                if stream in ready and self._read(stream) == 0:
                    self._watched.unregister(stream)
            if life in ready if life is not None else self._child.poll() is not None:
                return BodyStop.ENDED
            now = time.monotonic()
            if now >= until:
                return BodyStop.TIMED_OUT
            if now - asked >= _TICK_SECONDS:
                asked = now
                if stopping():
                    return BodyStop.STOPPED

    def _read(self, stream: int) -> int | None:
        """Read one piece of a stream and give its size; 0 at its end, None where nothing is there yet."""
        try:
            piece = os.read(stream, _PIECE)
        except BlockingIOError:
            return None
        if stream == self._error:
            self.error = (self.error + piece)[-ERROR_KEPT:]
        else:
            known, self._left = piece[: self._left], max(0, self._left - len(piece))
            self.cut = self.cut or len(known) < len(piece)
            if known:
                self._heard(known)
        return len(piece)

    def drain(self) -> None:
        """Read what the pipes still hold; no more, for what escaped may go on writing."""
        for stream in (self._out, self._error):
            left = _LEFT
            while left > 0 and (size := self._read(stream)):
                left -= size


def _life(child: process.Child) -> int | None:
    """Open what becomes readable when a program ends; None where the system has no such thing."""
    try:
        return os.pidfd_open(child.pid)
    except (AttributeError, OSError):
        # Not Linux, or an old one.
        return None
