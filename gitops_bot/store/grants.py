"""The writer of grants: minted once for an ask, then spent, revoked or lapsed once. Only mint and spend import it."""

from typing import Final

from sqlalchemy import bindparam, update

from gitops_bot.store.engine import Tx
from gitops_bot.store.signed_tables import grants
from gitops_bot.store.statements import insert_or_ignore
from gitops_bot.store.states import GrantState

_MINT: Final = insert_or_ignore(grants, None)
_END: Final = (
    update(grants)
    .where(grants.c.id == bindparam("of"), grants.c.state == GrantState.MINTED.value)
    .values(state=bindparam("to"), ended_at=bindparam("at"), nonce=bindparam("under"))
)


def mint(tx: Tx, grant: str, ask: str, action_hash: str, *, epoch: int, spend_after: int, spend_before: int) -> bool:
    """Write the grant of an ask; False when there is one already."""
    row = {
        "id": grant,
        "ask": ask,
        "action_hash": action_hash,
        "state": GrantState.MINTED.value,
        "epoch": epoch,
        "minted_at": tx.now,
        "spend_after": spend_after,
        "spend_before": spend_before,
    }
    return tx.execute(_MINT[tx.dialect], row).rowcount == 1


def spend(tx: Tx, grant: str, nonce: str) -> bool:
    """Spend a minted grant under a fresh nonce; False when it is not minted any more."""
    return _end(tx, grant, GrantState.SPENT, nonce)


def revoke(tx: Tx, grant: str) -> bool:
    """Revoke a minted grant; False when it is not minted any more."""
    return _end(tx, grant, GrantState.REVOKED, None)


def lapse(tx: Tx, grant: str) -> bool:
    """Let a minted grant lapse; False when it is not minted any more."""
    return _end(tx, grant, GrantState.LAPSED, None)


def _end(tx: Tx, grant: str, state: GrantState, nonce: str | None) -> bool:
    return tx.execute(_END, {"of": grant, "to": state.value, "at": tx.now, "under": nonce}).rowcount == 1
