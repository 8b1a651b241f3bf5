"""A folder in which a forge's state outlives its process: a journal to which each turn that changed something adds one
line before anybody is answered. A line that a death cut short is no turn: nobody was told of it.

Holds accounts, tokens, repositories, threads, comments, reactions, check runs, webhooks with their deliveries, ids and
the port. What tests plan for a forge (faults, pushes, mishaps, a stopped clock), counts of requests and what is used up
of rate limits begin anew with each process. It withstands the death of the process, not that of the machine.
"""

import contextlib
import fcntl
import json
import os
import stat
from pathlib import Path
from typing import Any, Final

from gitops_bot.core.errors import ConfigError
from gitops_bot.sandbox.kept import Tables, drop, entries, put, read, shown

JOURNAL: Final = "journal.jsonl"
LARGEST: Final = 64 * 1024 * 1024
"""Bytes after which the journal is written anew, as one line."""


class StateFolder:
    """The journal of one forge; one process at a time has it."""

    def __init__(self, folder: Path, tables: Tables) -> None:
        """Take a folder, made where it is missing, and fill the tables with what it holds.

        Raises:
            ConfigError: others may use it, another process has it, or it holds something else.
        """
        self._tables = tables
        self._path = folder / JOURNAL
        self._lock = _taken(folder)
        self._size = 0
        self._last: dict[tuple[Any, ...], object] = {}
        with contextlib.ExitStack() as undone:
            undone.callback(os.close, self._lock)
            try:
                if self._path.exists():
                    self._load()
                self._file = self._anew()
            except OSError as error:
                raise ConfigError(f"{self._path}: {error.strerror}") from error
            undone.pop_all()

    def _load(self) -> None:
        whole, _, _ = self._path.read_bytes().rpartition(b"\n")
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                for path, *value in json.loads(line):
                    where = tuple(_key(part) for part in path)
                    if value:
                        put(self._tables, where, read(value[0]))
                    else:
                        drop(self._tables, where)
            except (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError) as error:
                raise ConfigError(f"{self._path}, line {number}: {type(error).__name__}: {error}") from error

    def _anew(self) -> int:
        self._last = dict(entries(self._tables))
        line = _line([[list(path), shown(value)] for path, value in self._last.items()])
        fresh = self._path.with_suffix(".new")
        file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600)
        write(file, line)
        fresh.replace(self._path)
        self._size = len(line)
        return file

    def keep(self) -> None:
        """Write what has changed since the last call, as one line; nothing where nothing has.

        Raises:
            OSError: it is not written, and is tried again with the next change.
        """
        now = dict(entries(self._tables))
        changes: list[list[object]] = [
            [list(path), shown(value)]
            for path, value in now.items()
            if path not in self._last or (self._last[path] is not value and self._last[path] != value)
        ]
        changes += [[list(path)] for path in self._last if path not in now]
        if not changes:
            return
        line = _line(changes)
        try:
            write(self._file, line)
        except OSError:
            os.ftruncate(self._file, self._size)
            raise
        self._last = now
        self._size += len(line)
        if self._size > LARGEST:
            before, self._file = self._file, self._anew()
            os.close(before)

    def close(self) -> None:
        """Let go of the folder."""
        os.close(self._file)
        os.close(self._lock)


def write(file: int, line: bytes) -> None:
    """Append a line, whole."""
    left = memoryview(line)
    while left:
        left = left[os.write(file, left) :]


def _line(changes: list[list[object]]) -> bytes:
    return json.dumps(changes, separators=(",", ":")).encode("ascii") + b"\n"


def _key(part: object) -> object:
    return tuple(_key(one) for one in part) if isinstance(part, list) else part


def _taken(folder: Path) -> int:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        about = folder.stat()
        if not stat.S_ISDIR(about.st_mode) or about.st_mode & 0o077 or about.st_uid != os.geteuid():
            raise ConfigError(f"others may use {folder}, and tokens lie in it", fix=f"chmod 700 {folder}")
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ConfigError(f"cannot keep a state in {folder}: {error.strerror}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise ConfigError(f"another forge has its state in {folder}", fix="end it, or name another folder") from error
    return lock
