"""A git process kept open, asked and read without ever waiting for it longer than agreed.

Questions are written and answers read at the same time, so that neither side blocks the other. A process that is slow,
ends, or sends more than is wanted is ended, with all that it started; the next question starts a new one.
"""

import contextlib
import fcntl
import os
import select
import time
from types import TracebackType
from typing import Final, Self

from gitops_bot.core.errors import Unavailable
from gitops_bot.process import Child, end_group
from gitops_bot.signed.repository import Repository

PATIENCE: Final = 20.0
_CHUNK: Final = 256 * 1024
_ROOM: Final = 1024 * 1024


class Slow(Unavailable):
    """The process did not answer in time."""


class Flood(Unavailable):
    """The process sent more than one answer may have."""


class Ended(Unavailable):
    """The process ended; `left` bytes of what it sent were not read."""

    def __init__(self, message: str, status: int, left: int) -> None:
        super().__init__(message)
        self.status = status
        self.left = left


class Stream:
    """`git ARGUMENTS` on a repository, started when first asked. `patience` is seconds without an answer."""

    def __init__(self, repository: Repository, *arguments: str, patience: float = PATIENCE) -> None:
        self._repository = repository
        self._arguments = arguments
        self._patience = patience
        self._child: Child | None = None
        self._unsent = bytearray()
        self._got = bytearray()
        self._at = 0

    def ask(self, question: bytes) -> None:
        """Write a question; what does not fit into the pipe leaves while answers are read.

        Raises:
            Unavailable: the process cannot be started.
        """
        if self._child is None:
            self._start()
        self._unsent += question
        child = self._child
        if self._unsent and child is not None and child.stdin is not None:
            self._send(child.stdin.fileno())

    def line(self, most: int, end: bytes = b"\n") -> bytes:
        """Read up to an end mark, which is left out; at most `most` bytes.

        Raises:
            Slow: no answer came in time.
            Flood: no end came within `most` bytes.
            Ended: the process ended.
        """
        seen = self._at
        while (found := self._got.find(end, seen)) < 0:
            if len(self._got) - self._at > most:
                self.close()
                raise Flood(f"git {self._arguments[0]} sent more than {most} bytes")
            seen = max(self._at, len(self._got) - len(end) + 1)
            seen -= self._receive()
        if found - self._at > most:
            self.close()
            raise Flood(f"git {self._arguments[0]} sent more than {most} bytes")
        line = bytes(self._got[self._at : found])
        self._at = found + len(end)
        return line

    def exactly(self, size: int) -> bytes:
        """Read so many bytes.

        Raises:
            Slow: they did not come in time.
            Ended: the process ended.
        """
        while len(self._got) - self._at < size:
            self._receive()
        read = bytes(self._got[self._at : self._at + size])
        self._at += size
        return read

    def line_or_end(self, most: int) -> bytes | None:
        """Read a line, or None where the process has said everything and ended well.

        Raises:
            Slow, Flood: as of `line`.
            Unavailable: the process failed.
        """
        try:
            return self.line(most)
        except Ended as ended:
            if ended.status != 0 or ended.left:
                raise
            return None

    def close(self) -> None:
        """End the process. What was asked and not read is forgotten."""
        child, self._child = self._child, None
        self._unsent.clear()
        self._got.clear()
        self._at = 0
        if child is not None:
            end_group(child, grace=0)
            for pipe in (child.stdin, child.stdout):
                if pipe is not None:
                    pipe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _start(self) -> None:
        child = self._repository.start(*self._arguments)
        assert child.stdin is not None
        assert child.stdout is not None
        os.set_blocking(child.stdin.fileno(), False)
        os.set_blocking(child.stdout.fileno(), False)
        with contextlib.suppress(OSError):
            # Room for one batch of answers, so that git works on while they are not read; Linux alone can.
            fcntl.fcntl(child.stdout.fileno(), getattr(fcntl, "F_SETPIPE_SZ", -1), _ROOM)
        self._child = child

    def _receive(self) -> int:
        """Wait for more of an answer, writing what is still unsent; tell by how many bytes the read part was cut."""
        child = self._child
        if child is None:
            raise Unavailable(f"git {self._arguments[0]} was not asked")
        assert child.stdin is not None
        assert child.stdout is not None
        reading, writing = child.stdout.fileno(), child.stdin.fileno()
        deadline = time.monotonic() + self._patience
        while True:
            poll = select.poll()
            poll.register(reading, select.POLLIN)
            if self._unsent:
                poll.register(writing, select.POLLOUT)
            left = deadline - time.monotonic()
            ready = dict(poll.poll(max(0.0, left) * 1000))
            if not ready and left <= 0:
                self.close()
                raise Slow(f"git {self._arguments[0]} did not answer within {self._patience:g} s")
            if writing in ready:
                self._send(writing)
            if reading in ready:
                return self._take(child, reading)

    def _send(self, writing: int) -> None:
        try:
            del self._unsent[: os.write(writing, self._unsent[:_CHUNK])]
        except BlockingIOError:
            return
        except BrokenPipeError:
            # Its last words may still be there to read.
            self._unsent.clear()

    def _take(self, child: Child, reading: int) -> int:
        chunk = os.read(reading, _CHUNK)
        if not chunk:
            left = len(self._got) - self._at
            status = _status(child)
            self.close()
            raise Ended(f"git {self._arguments[0]} ended unexpectedly ({status})", status, left)
        cut, self._at = self._at, 0
        del self._got[:cut]
        self._got += chunk
        return cut


def _status(child: Child) -> int:
    """Give the exit status of a process that closed its output; one that lives on is ended by the caller."""
    for _ in range(100):
        status = child.poll()
        if status is not None:
            return status
        time.sleep(0.01)
    return -1
