"""What a person chose for their own pages: whether keys without a modifier act."""

from typing import Final

from sqlalchemy import bindparam, select

from gitops_bot.core.principals import PrincipalName
from gitops_bot.store.engine import Tx
from gitops_bot.store.person_tables import preferences
from gitops_bot.store.statements import upsert

_GET: Final = select(preferences.c.single_keys).where(preferences.c.principal == bindparam("whose"))
_SET: Final = upsert(
    preferences, ("principal",), {"single_keys": bindparam("chosen"), "updated_at": bindparam("chosen_at")}
)


def single_keys(tx: Tx, principal: str) -> bool:
    """Tell whether single-key shortcuts act for somebody; they do until they are switched off."""
    found = tx.execute(_GET, {"whose": principal}).scalar_one_or_none()
    return True if found is None else bool(found)


def set_single_keys(tx: Tx, principal: PrincipalName, on: bool) -> None:
    """Switch somebody's single-key shortcuts on or off."""
    row = {
        "principal": principal,
        "single_keys": int(on),
        "updated_at": tx.now,
        "chosen": int(on),
        "chosen_at": tx.now,
    }
    tx.execute(_SET[tx.dialect], row)
