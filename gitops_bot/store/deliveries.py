"""What the forge delivered, seen once: a row is an id that was taken, kept for some days.

Whoever inserts a row does what follows from it in the same transaction, so what was seen was acted on.
"""

from typing import Final

from sqlalchemy import bindparam, delete, select

from gitops_bot.store.engine import Tx
from gitops_bot.store.statements import insert_or_ignore
from gitops_bot.store.work_tables import hook_deliveries

_INSERT: Final = insert_or_ignore(hook_deliveries, ("id",))
_OLD: Final = (
    select(hook_deliveries.c.id)
    .where(hook_deliveries.c.seen_at < bindparam("before"))
    .order_by(hook_deliveries.c.seen_at)
    .limit(bindparam("most"))
)
_PURGE: Final = delete(hook_deliveries).where(hook_deliveries.c.id.in_(_OLD.scalar_subquery()))


def take(tx: Tx, delivery: str, event: str, repository: int | None, subject: str | None) -> bool:
    """Note a delivery by an id. False: it was there already."""
    row = {
        "id": delivery,
        "event": event,
        "action": None,
        "repository": repository,
        "subject": subject,
        "seen_at": tx.now,
    }
    return tx.execute(_INSERT[tx.dialect], row).rowcount == 1


def purge(tx: Tx, before: int, most: int) -> int:
    """Forget the oldest that were seen before a time (ms), so many at most; how many it were."""
    return tx.execute(_PURGE, {"before": before, "most": most}).rowcount
