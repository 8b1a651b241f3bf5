"""Challenges that an authenticator is asked to sign: what each was made for, and that it is taken once.

They end after minutes, are kept a while longer so that a repeat is told from an unknown one, and are then removed, a
bounded number at a time.
"""

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import bindparam, delete, insert, select, update

from gitops_bot.core.canonical import canonical
from gitops_bot.core.principals import PrincipalName
from gitops_bot.store.engine import Tx
from gitops_bot.store.person_tables import Ceremony, ceremonies

KEPT: Final = 3_600_000
"""How long one is kept after its end, in ms."""
PURGED_AT_ONCE: Final = 100

_ADD: Final = insert(ceremonies)
_GET: Final = select(ceremonies).where(ceremonies.c.id == bindparam("of"))
_LOCK: Final = _GET.with_for_update()
_USE: Final = (
    update(ceremonies)
    .where(ceremonies.c.id == bindparam("of"), ceremonies.c.used_at.is_(None))
    .values(used_at=bindparam("at"))
)
_OLD: Final = (
    select(ceremonies.c.id)
    .where(ceremonies.c.expires_at < bindparam("until"))
    .order_by(ceremonies.c.expires_at)
    .limit(PURGED_AT_ONCE)
)
_PURGE: Final = delete(ceremonies).where(ceremonies.c.id.in_(_OLD.scalar_subquery()))


@dataclass(frozen=True, slots=True)
class Begun:
    """A ceremony as stored. `id` is its nonce; `challenge` in base64url without padding; times in ms."""

    id: str
    kind: Ceremony
    challenge: str
    principal: PrincipalName | None
    session: str | None
    body: Mapping[str, Any]
    created_at: int
    expires_at: int
    used_at: int | None


def new_nonce() -> str:
    """Make 128 random bits in base64url without padding."""
    return secrets.token_urlsafe(16)


def add(
    tx: Tx,
    nonce: str,
    kind: Ceremony,
    challenge: str,
    *,
    lasts: int,
    principal: PrincipalName | None = None,
    session: str | None = None,
    body: Mapping[str, object],
) -> None:
    """Write a ceremony that lasts so many ms, and remove some that are long over."""
    tx.execute(_PURGE, {"until": tx.now - KEPT})
    row = {
        "id": nonce,
        "kind": kind.value,
        "challenge": challenge,
        "principal": principal,
        "session": session,
        "body": canonical(body).decode("utf-8"),
        "created_at": tx.now,
        "expires_at": tx.now + lasts,
    }
    tx.execute(_ADD, row)


def get(tx: Tx, nonce: str, *, lock: bool = False) -> Begun | None:
    """Read a ceremony, over and used ones included; `lock` keeps its use to this transaction."""
    row = tx.execute(_LOCK if lock else _GET, {"of": nonce}).one_or_none()
    if row is None:
        return None
    return Begun(
        row.id,
        Ceremony(row.kind),
        row.challenge,
        None if row.principal is None else PrincipalName(row.principal),
        row.session,
        json.loads(row.body),
        row.created_at,
        row.expires_at,
        row.used_at,
    )


def use(tx: Tx, nonce: str) -> bool:
    """Take a ceremony; False when it was taken before."""
    return tx.execute(_USE, {"of": nonce, "at": tx.now}).rowcount == 1
