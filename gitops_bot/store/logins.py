"""Shells that wait for a person to confirm them: by the hash of what the shell keeps, and by the code that the person
compares, which is no secret."""

import hashlib
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Row, bindparam, delete, select, update

from gitops_bot.core.principals import PrincipalName
from gitops_bot.store.engine import Tx
from gitops_bot.store.person_tables import logins
from gitops_bot.store.statements import insert_or_ignore

PURGED_AT_ONCE: Final = 100

_ADD: Final = insert_or_ignore(logins, None)
_BY_HASH: Final = select(logins).where(logins.c.hash == bindparam("hashed")).with_for_update()
_BY_CODE: Final = select(logins).where(logins.c.code == bindparam("shown"))
_OPEN: Final = (logins.c.confirmed_at.is_(None)) & (logins.c.expires_at > bindparam("at"))
_CONFIRM: Final = (
    update(logins)
    .where(logins.c.code == bindparam("shown"), _OPEN)
    .values(principal=bindparam("by"), confirmed_at=bindparam("at"), credential=bindparam("key"))
)
_TAKE: Final = (
    update(logins)
    .where(logins.c.hash == bindparam("hashed"), logins.c.taken_at.is_(None))
    .values(taken_at=bindparam("at"))
)
_OLD: Final = select(logins.c.hash).where(logins.c.expires_at < bindparam("until")).limit(PURGED_AT_ONCE)
_PURGE: Final = delete(logins).where(logins.c.hash.in_(_OLD.scalar_subquery()))


@dataclass(frozen=True, slots=True)
class Login:
    """A shell that waits, or waited. Times in ms."""

    code: str
    label: str
    created_at: int
    expires_at: int
    principal: PrincipalName | None
    confirmed_at: int | None
    credential: str | None
    taken_at: int | None


def _login(row: Row[Any] | None) -> Login | None:
    if row is None:
        return None
    return Login(
        row.code,
        row.label,
        row.created_at,
        row.expires_at,
        None if row.principal is None else PrincipalName(row.principal),
        row.confirmed_at,
        row.credential,
        row.taken_at,
    )


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def add(tx: Tx, secret: str, code: str, label: str, lasts: int) -> bool:
    """Write a shell that waits so many ms, and remove some that are over; False when the code is another's."""
    tx.execute(_PURGE, {"until": tx.now})
    row = {
        "hash": _hash(secret),
        "code": code,
        "label": label,
        "created_at": tx.now,
        "expires_at": tx.now + lasts,
    }
    return tx.execute(_ADD[tx.dialect], row).rowcount == 1


def by_secret(tx: Tx, secret: str) -> Login | None:
    """Find a shell by what it keeps, for a write transaction."""
    return _login(tx.execute(_BY_HASH, {"hashed": _hash(secret)}).one_or_none())


def by_code(tx: Tx, code: str) -> Login | None:
    """Find a shell by the code that its person compares."""
    return _login(tx.execute(_BY_CODE, {"shown": code}).one_or_none())


def confirm(tx: Tx, code: str, principal: PrincipalName, credential: str) -> bool:
    """Confirm a shell; False when it was confirmed or is over."""
    row = {"shown": code, "by": principal, "key": credential, "at": tx.now}
    return tx.execute(_CONFIRM, row).rowcount == 1


def take(tx: Tx, secret: str) -> bool:
    """Hand the shell its credential; False when it has it."""
    return tx.execute(_TAKE, {"hashed": _hash(secret), "at": tx.now}).rowcount == 1
