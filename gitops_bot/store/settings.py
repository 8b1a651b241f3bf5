"""Small stored facts: cursors of polls, the epoch, identities of principals."""

from collections.abc import Iterable
from typing import Final

from sqlalchemy import bindparam, select

from gitops_bot.core.principals import Identity, PrincipalName
from gitops_bot.store.engine import Tx
from gitops_bot.store.statements import insert_or_ignore, upsert
from gitops_bot.store.tables import identities, meta
from gitops_bot.store.work_tables import cursors

_CURSOR: Final = select(cursors.c.value).where(cursors.c.name == bindparam("of"))
_SET_CURSOR: Final = upsert(
    cursors, ("name",), {"value": bindparam("new_value"), "updated_at": bindparam("new_updated_at")}
)
_META: Final = select(meta.c.value).where(meta.c.key == bindparam("of"))
_SET_META: Final = insert_or_ignore(meta, ("key",))
_MOVE_META: Final = upsert(meta, ("key",), {"value": bindparam("new_value")})
_IDENTITY: Final = upsert(
    identities, ("kind", "value"), {"principal": bindparam("new_principal"), "source": bindparam("new_source")}
)


def cursor(tx: Tx, name: str) -> str | None:
    """Read a cursor."""
    found: str | None = tx.execute(_CURSOR, {"of": name}).scalar_one_or_none()
    return found


def set_cursor(tx: Tx, name: str, value: str) -> None:
    """Write a cursor."""
    row = {"name": name, "value": value, "updated_at": tx.now, "new_value": value, "new_updated_at": tx.now}
    tx.execute(_SET_CURSOR[tx.dialect], row)


def fact(tx: Tx, key: str) -> str | None:
    """Read one of the database's own facts (epoch, environment)."""
    found: str | None = tx.execute(_META, {"of": key}).scalar_one_or_none()
    return found


def set_fact_once(tx: Tx, key: str, value: str) -> str:
    """Write a fact unless it is there; give what is there now."""
    tx.execute(_SET_META[tx.dialect], {"key": key, "value": value})
    return fact(tx, key) or value


def set_fact(tx: Tx, key: str, value: str) -> None:
    """Write a fact, whatever stood there."""
    tx.execute(_MOVE_META[tx.dialect], {"key": key, "value": value, "new_value": value})


def keep_identities(tx: Tx, owned: Iterable[tuple[PrincipalName, Identity]]) -> None:
    """Write the identities that a loaded policy names; (kind, value) belongs to one principal."""
    for principal, identity in owned:
        row = {
            "kind": identity.kind.value,
            "value": identity.value,
            "principal": principal,
            "source": "policy",
            "added_at": tx.now,
            "new_principal": principal,
            "new_source": "policy",
        }
        tx.execute(_IDENTITY[tx.dialect], row)
