"""Due work is rows, claimed by one statement: whoever claims holds a lease, and the row's version fences it.

A row is (duty, key) with a time. Claiming pushes the time to the end of the lease; finishing removes the row or gives
it a new time. What happens to the row meanwhile is a nudge: the claimant's finishing then makes it due at once, so that
no wake is lost between looking and letting go.
"""

from dataclasses import dataclass
from typing import Final

from sqlalchemy import and_, bindparam, case, delete, func, select, update

from gitops_bot.store.engine import Tx
from gitops_bot.store.statements import upsert
from gitops_bot.store.work_tables import due


@dataclass(frozen=True, slots=True)
class Claimed:
    """A leased row. `attempts` counts this one; `version` is the fencing token."""

    duty: str
    key: str
    version: int
    attempts: int


_UNDER_LEASE: Final = and_(due.c.leased == 1, due.c.due_at > bindparam("at_now"))

_SET: Final = upsert(
    due, ("duty", "key"), {"due_at": case((_UNDER_LEASE, due.c.due_at), else_=bindparam("at")), "nudged": 1}
)
_ENSURE: Final = upsert(due, ("duty", "key"), {"nudged": 1})

# FOR UPDATE SKIP LOCKED on PostgreSQL; SQLite's writers take turns, and its dialect leaves the clause out.
_CLAIM: Final = (
    update(due)
    .where(
        due.c.id.in_(
            select(due.c.id)
            .where(due.c.duty == bindparam("of"), due.c.due_at <= bindparam("at"))
            .order_by(due.c.due_at)
            .limit(bindparam("most"))
            .with_for_update(skip_locked=True)
            .scalar_subquery()
        )
    )
    .values(
        due_at=bindparam("until"),
        leased=1,
        nudged=0,
        version=due.c.version + 1,
        attempts=due.c.attempts + 1,
    )
    .returning(due.c.key, due.c.version, due.c.attempts)
)
_MINE: Final = and_(due.c.duty == bindparam("of"), due.c.key == bindparam("named"), due.c.version == bindparam("held"))
_DONE: Final = delete(due).where(_MINE, due.c.nudged == 0)
_AGAIN: Final = (
    update(due)
    .where(_MINE)
    .values(due_at=bindparam("at"), leased=0, nudged=0, attempts=bindparam("counted"), last_error=bindparam("error"))
)
_DROP: Final = delete(due).where(due.c.duty == bindparam("of"), due.c.key == bindparam("named"))
_NEXT: Final = select(func.min(due.c.due_at)).where(due.c.duty == bindparam("of"))


def set_due(tx: Tx, duty: str, key: str, at: int) -> None:
    """Make (duty, key) due at a time, replacing an earlier or later one; under a lease it is nudged."""
    tx.makes_due |= at <= tx.now
    row = {"duty": duty, "key": key, "due_at": at, "at": at, "at_now": tx.now}
    tx.execute(_SET[tx.dialect], row)


def ensure(tx: Tx, duty: str, key: str) -> None:
    """Make (duty, key) due now unless it waits already: a back-off stands, a lease is nudged."""
    tx.makes_due = True
    tx.execute(_ENSURE[tx.dialect], {"duty": duty, "key": key, "due_at": tx.now})


def drop(tx: Tx, duty: str, key: str) -> None:
    """Forget (duty, key)."""
    tx.execute(_DROP, {"of": duty, "named": key})


def claim(tx: Tx, duty: str, limit: int, lease_ms: int) -> list[Claimed]:
    """Claim up to `limit` due rows of a duty for `lease_ms`, oldest first; nobody else gets them until then."""
    rows = tx.execute(_CLAIM, {"of": duty, "at": tx.now, "most": limit, "until": tx.now + lease_ms})
    return [Claimed(duty, row.key, row.version, row.attempts) for row in rows]


def done(tx: Tx, claimed: Claimed) -> bool:
    """Remove a finished row, or make it due at once when it was nudged meanwhile. False: the lease was lost."""
    mine = {"of": claimed.duty, "named": claimed.key, "held": claimed.version}
    if tx.execute(_DONE, mine).rowcount == 1:
        return True
    return tx.execute(_AGAIN, {**mine, "at": tx.now, "counted": 0, "error": None}).rowcount == 1


def again(tx: Tx, claimed: Claimed, at: int, *, error: str | None = None) -> bool:
    """Give a claimed row its next time. With `error` the attempt counts towards the back-off; without, the count starts
    anew. False: the lease was lost."""
    values = {"at": at, "counted": claimed.attempts if error else 0, "error": error[:500] if error else None}
    mine = {"of": claimed.duty, "named": claimed.key, "held": claimed.version}
    return tx.execute(_AGAIN, {**mine, **values}).rowcount == 1


def next_due(tx: Tx, duty: str) -> int | None:
    """Give the time of a duty's earliest row, claimed ones included (a lease that ends is due)."""
    found: int | None = tx.execute(_NEXT, {"of": duty}).scalar_one()
    return found


def back_off(attempts: int, *, first_ms: int = 1_000, most_ms: int = 900_000) -> int:
    """Give the milliseconds to wait after so many failed attempts: doubling, capped."""
    return int(min(first_ms * 2 ** min(attempts - 1, 30), most_ms))
