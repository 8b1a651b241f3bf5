"""Tokens that are good once: the id of each is kept until the token would have ended anyway."""

from typing import Final

from sqlalchemy import bindparam, delete, select

from gitops_bot.store.engine import Tx
from gitops_bot.store.statements import insert_or_ignore
from gitops_bot.store.work_tables import used_tokens

PURGED_AT_ONCE: Final = 100
_USE: Final = insert_or_ignore(used_tokens, ("id",))
_PURGE: Final = delete(used_tokens).where(
    used_tokens.c.id.in_(
        select(used_tokens.c.id).where(used_tokens.c.expires_at < bindparam("ended")).limit(PURGED_AT_ONCE)
    )
)


def use(tx: Tx, token: str, expires_at: int) -> bool:
    """Use a token up; False when it was used before. `expires_at` (ms): from then on its id may be forgotten, so it
    must be no earlier than the last moment at which the token would be taken."""
    tx.execute(_PURGE, {"ended": tx.now})
    return tx.execute(_USE[tx.dialect], {"id": token, "expires_at": expires_at}).rowcount == 1
