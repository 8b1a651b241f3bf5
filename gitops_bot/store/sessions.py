"""Who is signed in, by the hash of a secret that only its holder has: opened, seen, ended, and removed long after.

Whether a session still stands for its person is decided in `authority.sessions`, from what is read here.
"""

import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Row, bindparam, delete, insert, select, update

from gitops_bot.core.principals import PrincipalName
from gitops_bot.store.engine import Tx
from gitops_bot.store.ids import new_id
from gitops_bot.store.person_tables import SessionKind, SessionMethod, passkeys
from gitops_bot.store.work_tables import sessions

KEPT: Final = 30 * 24 * 3_600_000
"""How long an ended session is kept, in ms, for its person to look at."""
PURGED_AT_ONCE: Final = 100

_COLUMNS: Final = [column for column in sessions.c if column.name != "hash"]
_ALIVE: Final = select(*_COLUMNS, passkeys.c.revoked_at.label("passkey_revoked_at")).outerjoin(
    passkeys, passkeys.c.id == sessions.c.credential
)
_BY_HASH: Final = _ALIVE.where(sessions.c.hash == bindparam("hashed"))
_BY_IDS: Final = _ALIVE.where(sessions.c.id.in_(bindparam("among", expanding=True)))
_ADD: Final = insert(sessions)
_OF: Final = (
    select(*_COLUMNS)
    .where(
        sessions.c.principal == bindparam("whose"),
        sessions.c.revoked_at.is_(None),
        sessions.c.expires_at > bindparam("at"),
        sessions.c.id.is_not(None),
    )
    .order_by(sessions.c.created_at.desc(), sessions.c.id.desc())
)
_SEEN: Final = update(sessions).where(sessions.c.id == bindparam("of")).values(seen_at=bindparam("at"))
_ASSERTED: Final = update(sessions).where(sessions.c.id == bindparam("of")).values(asserted_at=bindparam("at"))
_END: Final = (
    update(sessions)
    .where(sessions.c.id == bindparam("of"), sessions.c.revoked_at.is_(None))
    .values(revoked_at=bindparam("at"))
)
_OLD: Final = select(sessions.c.hash).where(sessions.c.expires_at < bindparam("until")).limit(PURGED_AT_ONCE)
_PURGE: Final = delete(sessions).where(sessions.c.hash.in_(_OLD.scalar_subquery()))


@dataclass(frozen=True, slots=True)
class Session:
    """A session as stored. `credential` is the passkey that opened it, by OIDC issuer and subject.
    Times in ms."""

    id: str
    principal: PrincipalName
    kind: SessionKind
    method: SessionMethod
    credential: str | None
    label: str
    created_at: int
    expires_at: int
    revoked_at: int | None
    seen_at: int
    asserted_at: int | None
    passkey_revoked: bool = False


def _session(row: Row[Any], *, passkey_revoked: bool = False) -> Session | None:
    if row.id is None or row.kind is None or row.method is None:
        return None
    return Session(
        row.id,
        PrincipalName(row.principal),
        SessionKind(row.kind),
        SessionMethod(row.method),
        row.credential,
        row.label or "",
        row.created_at,
        row.expires_at,
        row.revoked_at,
        row.created_at if row.seen_at is None else row.seen_at,
        row.asserted_at,
        passkey_revoked,
    )


def _hash(secret: str) -> str:
    # A plain SHA-256 is enough for 256 random bits; nobody guesses one.
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def add(
    tx: Tx,
    secret: str,
    principal: PrincipalName,
    kind: SessionKind,
    method: SessionMethod,
    *,
    credential: str | None,
    label: str,
    lasts: int,
    asserted_at: int | None,
) -> Session:
    """Write a session that lasts at most so many ms and keep its secret's hash; remove some that are long over."""
    tx.execute(_PURGE, {"until": tx.now - KEPT})
    made = Session(
        new_id(tx.now), principal, kind, method, credential, label, tx.now, tx.now + lasts, None, tx.now, asserted_at
    )
    row = {
        "hash": _hash(secret),
        "id": made.id,
        "principal": principal,
        "kind": kind.value,
        "method": method.value,
        "credential": credential,
        "label": label,
        "created_at": made.created_at,
        "expires_at": made.expires_at,
        "seen_at": made.seen_at,
        "asserted_at": asserted_at,
    }
    tx.execute(_ADD, row)
    return made


def by_secret(tx: Tx, secret: str) -> Session | None:
    """Find the session of a secret, ended ones included."""
    row = tx.execute(_BY_HASH, {"hashed": _hash(secret)}).one_or_none()
    return None if row is None else _session(row, passkey_revoked=row.passkey_revoked_at is not None)


def by_ids(tx: Tx, ids: Collection[str]) -> list[Session]:
    """Read sessions by id, ended ones included."""
    rows = tx.execute(_BY_IDS, {"among": list(ids)})
    found = (_session(row, passkey_revoked=row.passkey_revoked_at is not None) for row in rows)
    return [one for one in found if one is not None]


def of(tx: Tx, principal: str) -> list[Session]:
    """Read somebody's sessions that were not ended and are not past their absolute limit, newest first."""
    found = (_session(row) for row in tx.execute(_OF, {"whose": principal, "at": tx.now}))
    return [one for one in found if one is not None]


def seen(tx: Tx, session: str) -> None:
    """Write down that a session was used now."""
    tx.execute(_SEEN, {"of": session, "at": tx.now})


def asserted(tx: Tx, session: str) -> None:
    """Write down that its person gave a fresh assertion now."""
    tx.execute(_ASSERTED, {"of": session, "at": tx.now})


def end(tx: Tx, session: str) -> bool:
    """End a session; False when it had ended."""
    return tx.execute(_END, {"of": session, "at": tx.now}).rowcount == 1
