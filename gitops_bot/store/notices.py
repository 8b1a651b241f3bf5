"""What each person is told at the workspace beside asks: written in the transaction of what happened, read by them."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from sqlalchemy import bindparam, func, insert, select, update

from gitops_bot.core.principals import PrincipalName
from gitops_bot.core.texts import storable
from gitops_bot.store.engine import Tx
from gitops_bot.store.person_tables import notices

MOST_TEXT: Final = 500

_ADD: Final = insert(notices)
_PAGE: Final = (
    select(notices)
    .where(notices.c.principal == bindparam("whose"), notices.c.id < bindparam("before"))
    .order_by(notices.c.id.desc())
    .limit(bindparam("most"))
)
_UNREAD: Final = select(func.count()).select_from(
    select(notices.c.id)
    .where(notices.c.principal == bindparam("whose"), notices.c.read_at.is_(None))
    .limit(bindparam("most"))
    .subquery()
)
_READ: Final = (
    update(notices)
    .where(notices.c.principal == bindparam("whose"), notices.c.id <= bindparam("until"), notices.c.read_at.is_(None))
    .values(read_at=bindparam("now"))
)
_END: Final = 2**62


@dataclass(frozen=True, slots=True)
class Notice:
    """One notice to one person; times in ms."""

    id: int
    kind: str
    text: str
    at: int
    read_at: int | None


def tell(tx: Tx, people: Collection[PrincipalName], kind: str, text: str) -> None:
    """Write one notice to each of some people."""
    said = storable(text)[:MOST_TEXT]
    rows = [{"principal": name, "kind": kind, "text": said, "at": tx.now} for name in sorted(people)]
    if rows:
        tx.execute(_ADD, rows)


def page(tx: Tx, principal: str, limit: int, before: int | None = None) -> list[Notice]:
    """Read somebody's notices, newest first, below a cursor."""
    rows = tx.execute(_PAGE, {"whose": principal, "before": _END if before is None else before, "most": limit})
    return [Notice(row.id, row.kind, row.text, row.at, row.read_at) for row in rows]


def unread(tx: Tx, principal: str, most: int = 100) -> int:
    """Count somebody's unread notices, up to `most`."""
    found: int = tx.execute(_UNREAD, {"whose": principal, "most": most}).scalar_one()
    return found


def read(tx: Tx, principal: str, until: int) -> int:
    """Mark somebody's notices up to an id as read; give how many were."""
    return tx.execute(_READ, {"whose": principal, "until": until, "now": tx.now}).rowcount
