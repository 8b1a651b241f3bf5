"""Which SQLite library is used, in which journal, and the lock that makes writers take turns.

SQLite 3.7.0 to 3.51.2 can lose commits in WAL mode with two or more connections (the WAL-reset fault, fixed in 3.51.3
and in 3.50.7 and 3.44.6). An affected library runs with the TRUNCATE journal; the `pysqlite3` wheel, where there is
one, brings a sound library and WAL. See docs/adr/0003.
"""

import fcntl
import importlib
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Final

WAL: Final = "WAL"
TRUNCATE: Final = "TRUNCATE"


def is_sound(version: tuple[int, ...]) -> bool:
    """Tell whether a library version is free of the WAL-reset fault (sqlite.org, release notes of 3.51.3)."""
    match version[:3]:
        case (3, 50, patch):
            return patch >= 7
        case (3, 44, patch):
            return patch >= 6
        case _:
            return version >= (3, 51, 3)


@dataclass(frozen=True, slots=True)
class Library:
    """A DB-API module of SQLite, the version it links, and the journal that is safe with it."""

    module: ModuleType
    version: tuple[int, ...]
    journal: str

    @property
    def name(self) -> str:
        """Module and version, for `doctor`."""
        return f"{self.module.__name__} {'.'.join(map(str, self.version))}, {self.journal} journal"


def choose_library(force_standard: bool = False) -> Library:
    """Choose the interpreter's own SQLite where it is sound, else `pysqlite3` where it is installed and sound, else the
    interpreter's own with the TRUNCATE journal."""
    if is_sound(sqlite3.sqlite_version_info):
        return Library(sqlite3, sqlite3.sqlite_version_info, WAL)
    if not force_standard:
        try:
            wheel = importlib.import_module("pysqlite3.dbapi2")
        except ImportError:
            return Library(sqlite3, sqlite3.sqlite_version_info, TRUNCATE)
        if is_sound(wheel.sqlite_version_info):
            return Library(wheel, tuple(wheel.sqlite_version_info), WAL)
    return Library(sqlite3, sqlite3.sqlite_version_info, TRUNCATE)


@contextmanager
def turn(database: Path) -> Iterator[None]:
    """Hold the write turn of a database file: an exclusive `flock` on `<file>.lock`, in the kernel's queue.

    Every write transaction takes it before `BEGIN IMMEDIATE`, so that writers sleep in a queue instead of polling a
    busy file (worst write with four racing writers: 8 ms against 531 ms). A killed holder lets go by dying.
    """
    lock = os.open(f"{database}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
