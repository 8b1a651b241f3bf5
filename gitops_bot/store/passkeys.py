"""Passkeys as they were enrolled: whose each is, its public key and counter, from when it counts, and its end.

A row is never removed, so that a credential id stays its person's. Whether a key counts for something is decided in
`authority`; the codes that let somebody enrol one are in `store.enrolments`.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import bindparam, func, select, update

from gitops_bot.core.canonical import canonical
from gitops_bot.core.principals import PrincipalName
from gitops_bot.store.engine import Tx
from gitops_bot.store.person_tables import passkeys
from gitops_bot.store.statements import insert_or_ignore

_ADD: Final = insert_or_ignore(passkeys, ("id",))
_GET: Final = select(passkeys).where(passkeys.c.id == bindparam("of"))
_LOCK: Final = _GET.with_for_update()
_OF: Final = (
    select(passkeys).where(passkeys.c.principal == bindparam("whose")).order_by(passkeys.c.created_at, passkeys.c.id)
)
_COUNT: Final = select(func.count()).select_from(passkeys).where(passkeys.c.principal == bindparam("whose"))
_USED: Final = (
    update(passkeys)
    .where(passkeys.c.id == bindparam("of"))
    .values(sign_count=bindparam("count"), backed_up=bindparam("backed"), used_at=bindparam("at"))
)
_REVOKE: Final = (
    update(passkeys)
    .where(passkeys.c.id == bindparam("of"), passkeys.c.revoked_at.is_(None))
    .values(revoked_at=bindparam("at"), revoked_by=bindparam("by"))
)


@dataclass(frozen=True, slots=True)
class Passkey:
    """A passkey as stored. `id` in base64url without padding, `public_key` in COSE; `rests_until` in ms: it gives no
    bound answer before. `sign_count` 0 when the authenticator counts nothing."""

    id: str
    principal: PrincipalName
    public_key: bytes
    sign_count: int
    label: str
    transports: tuple[str, ...]
    aaguid: str
    backed_up: bool
    created_at: int
    rests_until: int
    used_at: int | None
    revoked_at: int | None
    revoked_by: str | None


def _passkey(row: Any) -> Passkey:
    return Passkey(
        row.id,
        PrincipalName(row.principal),
        bytes(row.public_key),
        row.sign_count,
        row.label,
        tuple(json.loads(row.transports)),
        row.aaguid,
        bool(row.backed_up),
        row.created_at,
        row.rests_until,
        row.used_at,
        row.revoked_at,
        row.revoked_by,
    )


def add(
    tx: Tx,
    passkey: str,
    principal: PrincipalName,
    public_key: bytes,
    *,
    sign_count: int,
    label: str,
    transports: Sequence[str],
    aaguid: str,
    backed_up: bool,
    rests_until: int,
) -> bool:
    """Write a new passkey; False when its id is somebody's already, revoked ones included."""
    row = {
        "id": passkey,
        "principal": principal,
        "public_key": public_key,
        "sign_count": sign_count,
        "label": label,
        "transports": canonical(list(transports)).decode("utf-8"),
        "aaguid": aaguid,
        "backed_up": int(backed_up),
        "created_at": tx.now,
        "rests_until": rests_until,
    }
    return tx.execute(_ADD[tx.dialect], row).rowcount == 1


def get(tx: Tx, passkey: str, *, lock: bool = False) -> Passkey | None:
    """Read a passkey, revoked or not; `lock` keeps its counter to this transaction."""
    row = tx.execute(_LOCK if lock else _GET, {"of": passkey}).one_or_none()
    return None if row is None else _passkey(row)


def of(tx: Tx, principal: str) -> list[Passkey]:
    """Read every passkey of somebody, oldest first, revoked ones included."""
    return [_passkey(row) for row in tx.execute(_OF, {"whose": principal})]


def count(tx: Tx, principal: str) -> int:
    """Count the passkeys that somebody ever had."""
    found: int = tx.execute(_COUNT, {"whose": principal}).scalar_one()
    return found


def used(tx: Tx, passkey: str, sign_count: int, *, backed_up: bool) -> None:
    """Write down the counter of an assertion that was verified."""
    tx.execute(_USED, {"of": passkey, "count": sign_count, "backed": int(backed_up), "at": tx.now})


def revoke(tx: Tx, passkey: str, by: str) -> bool:
    """End a passkey; False when it had ended."""
    return tx.execute(_REVOKE, {"of": passkey, "at": tx.now, "by": by}).rowcount == 1
