"""Codes that let a person enrol a passkey: kept as hashes, for one use, and for minutes.

Only the broker's user can write one (`store.roles`): the workspace counts attempts and marks the use.
"""

from dataclasses import dataclass
from typing import Final

from sqlalchemy import bindparam, delete, func, insert, select, update

from gitops_bot.core.principals import PrincipalName
from gitops_bot.store.engine import Tx
from gitops_bot.store.person_tables import enrolment_codes

_ADD: Final = insert(enrolment_codes)
_FORGET: Final = delete(enrolment_codes).where(
    (enrolment_codes.c.principal == bindparam("whose")) | (enrolment_codes.c.expires_at <= bindparam("at"))
)
_STANDS: Final = (enrolment_codes.c.used_at.is_(None)) & (enrolment_codes.c.expires_at > bindparam("at"))
_GET: Final = select(enrolment_codes).where(enrolment_codes.c.hash == bindparam("hashed"), _STANDS)
_MISSED: Final = update(enrolment_codes).where(_STANDS).values(attempts=enrolment_codes.c.attempts + 1)
_MOST: Final = select(func.coalesce(func.max(enrolment_codes.c.attempts), 0)).where(_STANDS)
_USE: Final = (
    update(enrolment_codes)
    .where(enrolment_codes.c.hash == bindparam("hashed"), _STANDS)
    .values(used_at=bindparam("at"))
)


@dataclass(frozen=True, slots=True)
class Code:
    """A code that stands. `attempts`: how often a wrong one was tried since it was made."""

    hash: str
    principal: PrincipalName
    created_at: int
    expires_at: int
    attempts: int


def add(tx: Tx, hashed: str, principal: PrincipalName, lasts: int) -> int:
    """Write the one code of somebody for so many ms, in place of theirs of before; give the time of its end. The
    broker's and the host's roles only."""
    tx.execute(_FORGET, {"whose": principal, "at": tx.now})
    row = {
        "hash": hashed,
        "principal": principal,
        "created_at": tx.now,
        "expires_at": tx.now + lasts,
        "used_at": None,
        "attempts": 0,
    }
    tx.execute(_ADD, row)
    return tx.now + lasts


def get(tx: Tx, hashed: str) -> Code | None:
    """Find a code that stands; None when it is unknown, used or over."""
    row = tx.execute(_GET, {"hashed": hashed, "at": tx.now}).one_or_none()
    if row is None:
        return None
    return Code(row.hash, PrincipalName(row.principal), row.created_at, row.expires_at, row.attempts)


def missed(tx: Tx) -> int:
    """Count a wrong code against each code that stands; give the most that any of them has, 0 where none stands."""
    tx.execute(_MISSED, {"at": tx.now})
    found: int = tx.execute(_MOST, {"at": tx.now}).scalar_one()
    return found


def use(tx: Tx, hashed: str) -> bool:
    """Take a code; False when it was used or is over."""
    return tx.execute(_USE, {"hashed": hashed, "at": tx.now}).rowcount == 1
