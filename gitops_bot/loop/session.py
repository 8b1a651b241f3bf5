"""`session.jsonl` holds what happened, one whole JSON object a line, in order, on disk before anything follows from it.

A line's number is its place in the file, from 1; a torn last line of a killed writer is cut off before the next is
written, so the numbers never shift. Which kinds exist is protocols/loop.md; what a resume reads out of them is
`loop/recovery`; sending lines to tailing clients is `loop/control/server`.
"""

import json
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from gitops_bot.core.errors import Unavailable

MAX_RECORD: Final = 60 * 1024
MAX_STRING: Final = 8 * 1024
STRIDE: Final = 256


class SessionLog:
    """The writer of one session log; safe to share between threads.

    Raises:
        Unavailable: the file cannot be opened or written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._listener: Callable[[], None] = lambda: None
        self._marks: list[int] = [0]  # the offset after every STRIDE lines
        self.seq = 0
        self.size = 0
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            self._count()
        except OSError as error:
            raise Unavailable(f"session log: {error.strerror}") from error

    def _count(self) -> None:
        offset = 0
        while chunk := os.pread(self._file, 1024 * 1024, offset):
            start = 0
            while (end := chunk.find(b"\n", start)) >= 0:
                start = end + 1
                self._advance(offset + start)
            offset += len(chunk)
        os.ftruncate(self._file, self.size)

    def _advance(self, size: int) -> None:
        self.seq += 1
        self.size = size
        if self.seq % STRIDE == 0:
            self._marks.append(size)

    def listen(self, listener: Callable[[], None]) -> None:
        """Call a function after each line; it must not block and must not write here."""
        self._listener = listener

    def append(self, kind: str, **members: object) -> int:
        """Write one line and give its number. Texts are cut at `MAX_STRING` characters.

        Raises:
            Unavailable: it is not on disk; nothing of it stays in the file.
        """
        line = _line({"v": 1, "kind": kind, **members})
        with self._lock:
            try:
                written = os.pwrite(self._file, line, self.size)
                if written != len(line):
                    raise OSError(28, "the disk is full")
                os.fsync(self._file)
            except OSError as error:
                self._undo()
                raise Unavailable(f"session log: {error.strerror}") from error
            self._advance(self.size + len(line))
            seq = self.seq
        self._listener()
        return seq

    def _undo(self) -> None:
        try:
            os.ftruncate(self._file, self.size)
        except OSError:
            return  # the next line overwrites the rest from `size` on

    def place(self, after: int) -> tuple[int, int]:
        """Give a line number not above `after`, and the offset where the line after it begins."""
        mark = min(after // STRIDE, len(self._marks) - 1)
        return mark * STRIDE, self._marks[mark]

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def _line(record: Mapping[str, object]) -> bytes:
    line = json.dumps(_cut(record), ensure_ascii=True, separators=(",", ":"), allow_nan=False).encode("ascii")
    if len(line) > MAX_RECORD:
        shown = {"v": 1, "kind": "note", "msg": f"a {str(record.get('kind'))[:64]} line of {len(line)} bytes left out"}
        line = json.dumps(shown, separators=(",", ":")).encode("ascii")
    return line + b"\n"


def _cut(value: object) -> object:
    match value:
        case str():
            return value if len(value) <= MAX_STRING else value[:MAX_STRING] + "…"
        case Mapping():
            return {str(name): _cut(member) for name, member in value.items()}
        case list() | tuple():
            return [_cut(member) for member in value]
        case _:
            return value


def read_session(path: Path) -> list[Mapping[str, object]]:
    """Read the whole lines of a session log; what is no object is an empty one, so that numbers stay.

    Raises:
        Unavailable: the file cannot be read.
    """
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise Unavailable(f"session log: {error.strerror}") from error
    return [_record(line) for line in raw.split(b"\n")[:-1]]


def _record(line: bytes) -> Mapping[str, object]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
