"""Grants as they are, for whoever shows them or must know whether one was spent; nothing is written here."""

from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import bindparam, select

from gitops_bot.store.engine import Tx
from gitops_bot.store.signed_tables import grants
from gitops_bot.store.states import GrantState

_OF_ASK: Final = select(grants).where(grants.c.ask == bindparam("of"))
_LOCK: Final = _OF_ASK.with_for_update()
_GET: Final = select(grants).where(grants.c.id == bindparam("of"))
_IN_STATE: Final = select(grants).where(grants.c.state == bindparam("is_")).order_by(grants.c.id)
_ANY: Final = select(grants.c.id).limit(1)


@dataclass(frozen=True, slots=True)
class Grant:
    """The right to run one gated action once; an index, never evidence. Times in ms."""

    id: str
    ask: str
    action_hash: str
    state: GrantState
    epoch: int
    minted_at: int
    spend_after: int
    spend_before: int
    ended_at: int | None
    nonce: str | None


def _grant(row: Any) -> Grant:
    """Read a row."""
    return Grant(
        row.id,
        row.ask,
        row.action_hash,
        GrantState(row.state),
        row.epoch,
        row.minted_at,
        row.spend_after,
        row.spend_before,
        row.ended_at,
        row.nonce,
    )


def of_ask(tx: Tx, ask: str, *, lock: bool = False) -> Grant | None:
    """Read the grant of an ask; None when none was minted."""
    row = tx.execute(_LOCK if lock else _OF_ASK, {"of": ask}).one_or_none()
    return None if row is None else _grant(row)


def get(tx: Tx, grant: str) -> Grant | None:
    """Read a grant by its id."""
    row = tx.execute(_GET, {"of": grant}).one_or_none()
    return None if row is None else _grant(row)


def minted(tx: Tx) -> list[Grant]:
    """Read every grant that is neither spent nor ended."""
    return [_grant(row) for row in tx.execute(_IN_STATE, {"is_": GrantState.MINTED.value})]


def exist(tx: Tx) -> bool:
    """Tell whether any grant was ever minted."""
    return tx.execute(_ANY).one_or_none() is not None
