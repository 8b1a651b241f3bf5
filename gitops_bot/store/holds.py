"""Holds: a person stops a gated ask or its grant for a while. They are appended, and end by themselves."""

from dataclasses import dataclass
from typing import Final

from sqlalchemy import bindparam, insert, select

from gitops_bot.core.principals import PrincipalName
from gitops_bot.core.texts import storable
from gitops_bot.store.engine import Tx
from gitops_bot.store.ids import new_id
from gitops_bot.store.signed_tables import holds

MOST: Final = 72 * 3_600_000
"""A hold lasts at most 72 hours (signed-approvals, Stopping is easy)."""

_PLACE: Final = insert(holds)
_OF_ASK: Final = select(holds).where(holds.c.ask == bindparam("of")).order_by(holds.c.placed_at)


@dataclass(frozen=True, slots=True)
class Hold:
    """A hold; `until` in ms."""

    id: str
    ask: str
    principal: PrincipalName
    reason: str | None
    placed_at: int
    until: int


def place(tx: Tx, ask: str, principal: str, *, lasts: int, reason: str | None) -> Hold:
    """Hold an ask for so many ms, at most `MOST`. That the person may is *not* checked."""
    until = tx.now + max(0, min(lasts, MOST))
    said = None if reason is None else storable(reason)[:500]
    hold = new_id(tx.now)
    row = {
        "id": hold,
        "ask": ask,
        "principal": principal,
        "reason": said,
        "placed_at": tx.now,
        "until": until,
    }
    tx.execute(_PLACE, row)
    return Hold(hold, ask, PrincipalName(principal), said, tx.now, until)


def of_ask(tx: Tx, ask: str) -> list[Hold]:
    """Read every hold that was placed on an ask, ended ones included."""
    return [
        Hold(row.id, row.ask, PrincipalName(row.principal), row.reason, row.placed_at, row.until)
        for row in tx.execute(_OF_ASK, {"of": ask})
    ]


def held_until(tx: Tx, ask: str) -> int | None:
    """Tell until when an ask is held; None when nobody holds it now."""
    standing = [hold.until for hold in of_ask(tx, ask) if hold.until > tx.now]
    return max(standing, default=None)
