"""What a process that forks others has done before, so that none of them begins cold: statements are compiled.

Where files cost no disk is said here too: who dies in these tests is a process and not the machine, so that nothing of
theirs need be synced.
"""

import gc
import os
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Dialect, Executable

from gitops_bot.authority.sealing import Sealer
from gitops_bot.fleet.reconcile import Reconcile
from gitops_bot.store import schema
from gitops_bot.store.engine import Database
from gitops_bot.store.prepared import Prepared, Shelf
from gitops_bot.store.roles import Role
from tests.crash_works import WORKS, stage_of

SECRET = "between-test-and-forge"
"""With it a test sets up and disturbs the forge of its job over HTTP."""
_shelf = Shelf()


class _Eager(Shelf):
    """Prepares a statement at its first run, on the shelf of all: what is run once here is run in every child."""

    def __init__(self) -> None:
        self._known = _shelf._known

    def find(self, dialect: Dialect, statement: Executable, values: Mapping[str, Any]) -> Prepared | None:
        """Give a statement prepared, where it can be."""
        super().find(dialect, statement, values)
        return super().find(dialect, statement, values)


def memory() -> Path | None:
    """Give a folder in memory; None where the machine has none, which means the usual place."""
    shared = Path("/dev/shm")
    return shared if os.access(shared, os.W_OK) else None


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder in memory with a short name: sockets lie in some, and their paths have a limit (unix(7))."""
    with tempfile.TemporaryDirectory(prefix="job-", dir=memory(), ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def known(database: Database) -> Database:
    """Let a database know every statement that was prepared in this process."""
    database._shelf = _shelf
    return database


def open_broker(url: str) -> Database:
    """Open an SQLite database as a broker."""
    return known(Database.open(url, Role.BROKER))


def warm(*, forks: bool = True) -> None:
    """Do one capture on rows of its own, by the duties that a broker has; afterwards there is one thread still."""
    work = WORKS["capture"]
    with tempfile.TemporaryDirectory(prefix="warm-", dir=memory()) as folder:
        url = f"sqlite:///{folder}/gitops-bot.db"
        owner = Database.open(url, Role.OWNER)
        schema.upgrade(owner.engine)
        owner.close()
        database = open_broker(url)
        database._shelf = _Eager()
        stage: Any = stage_of(database, Path(folder))
        work.prepare(stage)
        work.do(stage)
        Reconcile(database, stage.rules).step()
        Sealer(database).seal()
        database.close()
    assert not forks or threading.active_count() == 1, "a fork would lose the others"
    # What was imported stays: collections of a child would walk over all of it, and copy the pages that they touch.
    gc.collect()
    gc.freeze()
