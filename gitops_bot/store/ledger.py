"""The ledger: appended inside each transaction, sealed afterwards in a gapless order, read in that order only."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import bindparam, func, insert, select

from gitops_bot.core.canonical import Digest, canonical
from gitops_bot.core.ledger import GENESIS, Entry, seal
from gitops_bot.store.bulk import insert_all, inserting
from gitops_bot.store.engine import Tx
from gitops_bot.store.work_tables import ledger, ledger_seals

_APPEND: Final = insert(ledger)
_APPEND_MANY: Final = inserting(
    ledger, "kind", "at", "ask", "run", "capture", "agent", "principal", "channel", "reason", "facts"
)
_UNSEALED: Final = (
    select(ledger)
    .outerjoin(ledger_seals, ledger_seals.c.entry == ledger.c.id)
    .where(ledger_seals.c.seq.is_(None), ledger.c.id > bindparam("after"))
    .order_by(ledger.c.id)
    .limit(bindparam("most"))
)
_HEAD: Final = select(ledger_seals.c.seq, ledger_seals.c.hash).order_by(ledger_seals.c.seq.desc()).limit(1)
_SEALED_AT: Final = select(ledger_seals.c.sealed_at).where(ledger_seals.c.seq == bindparam("at"))
_SEAL_AT: Final = select(ledger_seals.c.hash).where(ledger_seals.c.seq == bindparam("at"))
_LAST: Final = select(func.max(ledger.c.id))
_SEAL: Final = insert(ledger_seals)
_SEALED: Final = (
    select(ledger_seals.c.seq, ledger_seals.c.hash, ledger)
    .join(ledger, ledger.c.id == ledger_seals.c.entry)
    .where(ledger_seals.c.seq > bindparam("after"))
    .order_by(ledger_seals.c.seq)
    .limit(bindparam("most"))
)
_OF_ASK: Final = select(ledger).where(ledger.c.ask == bindparam("of")).order_by(ledger.c.id)
_COUNT: Final = select(func.count()).select_from(ledger)
# A transaction that commits late may take an id below sealed ones; the sealer looks back this far for stragglers at
# every step and over the whole table when it starts.
LOOK_BACK: Final = 10_000


@dataclass(frozen=True, slots=True)
class Sealed:
    """One sealed entry: its place, its hash, its document."""

    seq: int
    hash: Digest
    document: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Head:
    """The newest seal; seq 0 with the genesis hash when nothing is sealed."""

    seq: int
    hash: Digest


def append(tx: Tx, *entries: Entry) -> None:
    """Write entries in this transaction."""
    rows = [
        {
            "kind": str(entry.kind),
            "at": entry.at,
            "ask": entry.ask,
            "run": entry.run,
            "capture": entry.capture,
            "agent": entry.agent,
            "principal": entry.principal,
            "channel": entry.channel,
            "reason": entry.reason,
            "facts": canonical(entry.document()["facts"]).decode("utf-8"),
        }
        for entry in entries
    ]
    if len(rows) == 1:
        tx.execute(_APPEND, rows)
    else:
        insert_all(tx, _APPEND_MANY, rows)


def _document(row: Any) -> dict[str, object]:
    names = ("kind", "at", "ask", "run", "capture", "agent", "principal", "channel", "reason")
    return {"v": 1, **{name: getattr(row, name) for name in names}, "facts": json.loads(row.facts)}


def head(tx: Tx) -> Head:
    """Give the newest seal."""
    row = tx.execute(_HEAD).one_or_none()
    return Head(0, GENESIS) if row is None else Head(row.seq, Digest(row.hash))


def seal_at(tx: Tx, seq: int) -> Digest | None:
    """Give the seal at a place; None where nothing is sealed there."""
    found = tx.execute(_SEAL_AT, {"at": seq}).scalar_one_or_none()
    return None if found is None else Digest(found)


def sealed_at(tx: Tx, seq: int) -> int | None:
    """Tell when a place was sealed, in ms; None where nothing is sealed there."""
    found: int | None = tx.execute(_SEALED_AT, {"at": seq}).scalar_one_or_none()
    return found


def seal_next(tx: Tx, limit: int, after: int = 0) -> tuple[int, int]:
    """Seal up to `limit` entries whose id is above `after`; give how many, and up to which id all that was committed
    above `after` is sealed.

    One sealer at a time: the caller holds the sealer's turn, and a second one fails on the primary key.
    """
    # Before the rows are read: what is committed in between is looked for the next time.
    last_entry = tx.execute(_LAST).scalar_one() or 0
    last = head(tx)
    seq, previous, rows, highest = last.seq, last.hash, [], after
    for row in tx.execute(_UNSEALED, {"after": after, "most": limit}):
        seq += 1
        previous = seal(previous, seq, _document(row))
        rows.append({"seq": seq, "entry": row.id, "hash": previous, "sealed_at": tx.now})
        highest = max(highest, row.id)
    if rows:
        tx.execute(_SEAL, rows)
    if len(rows) < limit:
        # Nothing was left: an idle sealer need not look through the whole table again.
        highest = max(highest, last_entry)
    return len(rows), highest


def newest(tx: Tx) -> int:
    """Give the id of the entry that was written last, sealed or not; 0 when there is none."""
    return tx.execute(_LAST).scalar_one() or 0


def sealed(tx: Tx, after: int, limit: int) -> list[Sealed]:
    """Read sealed entries after a place, in order."""
    rows = tx.execute(_SEALED, {"after": after, "most": limit})
    return [Sealed(row.seq, Digest(row.hash), _document(row)) for row in rows]


def of_ask(tx: Tx, ask: str) -> list[dict[str, object]]:
    """Read what happened to one ask, sealed or not, in writing order."""
    return [_document(row) for row in tx.execute(_OF_ASK, {"of": ask})]


def count(tx: Tx) -> int:
    """Count all entries."""
    found: int = tx.execute(_COUNT).scalar_one()
    return found
