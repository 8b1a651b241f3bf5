"""One transaction at a time under a name, until it ends: for what no row stands for yet, as two asks that would be one.

On SQLite every writer has its turn already (`store.sqlite`); on PostgreSQL it is an advisory lock of the transaction.
"""

from typing import Final

from sqlalchemy import bindparam, func, select

from gitops_bot.store.engine import Tx

_TAKE: Final = select(func.pg_advisory_xact_lock(func.hashtextextended(bindparam("name"), 0)))


def take(tx: Tx, name: str) -> None:
    """Wait until no other transaction holds the turn of a name. Two names that hash alike only wait more."""
    if tx.dialect == "postgresql":
        tx.execute(_TAKE, {"name": name})
