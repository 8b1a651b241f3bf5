"""What was taken over from files of another channel, by the digest of their bytes."""

from dataclasses import dataclass
from typing import Final

from sqlalchemy import bindparam, insert, select

from gitops_bot.store.engine import Tx
from gitops_bot.store.fleet_tables import imported


@dataclass(frozen=True, slots=True)
class Taken:
    """A file that was taken over: its name then, and the ask that it became (None: a record)."""

    name: str
    ask: str | None


_GET: Final = select(imported.c.name, imported.c.ask).where(imported.c.digest == bindparam("of"))
_ADD: Final = insert(imported)


def get(tx: Tx, digest: str) -> Taken | None:
    """Find a file that was taken over."""
    row = tx.execute(_GET, {"of": digest}).one_or_none()
    return None if row is None else Taken(row.name, row.ask)


def add(tx: Tx, digest: str, name: str, ask: str | None) -> None:
    """Remember a file."""
    tx.execute(_ADD, {"digest": digest, "name": name, "ask": ask, "at": tx.now})
