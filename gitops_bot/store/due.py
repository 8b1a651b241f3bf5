"""Due work is rows, claimed by one statement: whoever claims holds a lease, and the row's version fences it.

A row is (duty, key) with a time. Claiming pushes the time to the end of the lease; finishing removes the row or gives
it a new time. What happens to the row meanwhile is a nudge: the claimant's finishing then makes it due at once, so that
no wake is lost between looking and letting go (I2).
"""

from dataclasses import dataclass
from typing import Final

from sqlalchemy import and_, bindparam, case, delete, func, select, update

from gitops_bot.core.texts import storable
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


_SOON: Final = 1_000
_UNDER_LEASE: Final = and_(due.c.leased == 1, due.c.due_at > bindparam("at_now"))
_WORK, _WAKE = 1, 2
"""The strengths of a nudge: there is more work, which a back-off may delay; somebody set a time, which outranks it."""

_SET: Final = upsert(
    due,
    ("duty", "key"),
    {
        "due_at": case((_UNDER_LEASE, due.c.due_at), else_=bindparam("at")),
        # A lease that ran out is none: left standing, it would hide the new time from the next who sets one.
        "leased": case((_UNDER_LEASE, 1), else_=0),
        "nudged": _WAKE,
    },
)
_ENSURE: Final = upsert(due, ("duty", "key"), {"nudged": case((due.c.nudged < _WORK, _WORK), else_=due.c.nudged)})

# FOR UPDATE SKIP LOCKED on PostgreSQL; SQLite's writers take turns, and its dialect leaves the clause out.
# Materialised, because a planner may run a subquery of IN once for each row, and each run would lock another batch.
_RIPE: Final = (
    select(due.c.id)
    .where(due.c.duty == bindparam("of"), due.c.due_at <= bindparam("at"))
    .order_by(due.c.due_at)
    .limit(bindparam("most"))
    .with_for_update(skip_locked=True)
    .cte("ripe")
    .prefix_with("MATERIALIZED", dialect="postgresql")
)
_CLAIM: Final = (
    update(due)
    .where(due.c.id.in_(select(_RIPE.c.id)))
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
    .values(
        due_at=case((due.c.nudged >= bindparam("outranked_by"), bindparam("at_now")), else_=bindparam("at")),
        leased=0,
        nudged=0,
        attempts=bindparam("counted"),
        last_error=bindparam("error"),
    )
)
_RENEW: Final = update(due).where(_MINE).values(due_at=bindparam("until"))
_DROP: Final = delete(due).where(due.c.duty == bindparam("of"), due.c.key == bindparam("named"))
_NEXT: Final = select(func.min(due.c.due_at)).where(due.c.duty == bindparam("of"))


def set_due(tx: Tx, duty: str, key: str, at: int) -> None:
    """Make (duty, key) due at a time, replacing an earlier or later one; under a lease it is nudged."""
    if at <= tx.now + _SOON:
        # Who sleeps until its next look, at most a second from now, must know of what is due before that.
        tx.due_duties.add(duty)
    row = {"duty": duty, "key": key, "due_at": at, "at": at, "at_now": tx.now}
    tx.execute(_SET[tx.dialect], row)


def ensure(tx: Tx, duty: str, key: str) -> None:
    """Make (duty, key) due now unless it waits already: a back-off stands, a lease is nudged."""
    tx.due_duties.add(duty)
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
    return again(tx, claimed, tx.now)


def again(tx: Tx, claimed: Claimed, at: int, *, error: str | None = None, firm: bool = False) -> bool:
    """Give a claimed row its next time, or make it due at once when it was nudged meanwhile. With `error` the attempt
    counts towards the back-off, which only a set time outranks, as it does with `firm`; without, the count starts anew.
    False: the lease was lost."""
    values = {
        "of": claimed.duty,
        "named": claimed.key,
        "held": claimed.version,
        "at": at,
        "at_now": tx.now,
        "outranked_by": _WORK if error is None and not firm else _WAKE,
        "counted": 0 if error is None else claimed.attempts,
        "error": None if error is None else storable(error)[:500],
    }
    return tx.execute(_AGAIN, values).rowcount == 1


def renew(tx: Tx, claimed: Claimed, lease_ms: int) -> bool:
    """Let a lease last from now on. False: it was lost."""
    mine = {"of": claimed.duty, "named": claimed.key, "held": claimed.version}
    return tx.execute(_RENEW, {**mine, "until": tx.now + lease_ms}).rowcount == 1


def next_due(tx: Tx, duty: str) -> int | None:
    """Give the time of a duty's earliest row, claimed ones included (a lease that ends is due)."""
    found: int | None = tx.execute(_NEXT, {"of": duty}).scalar_one()
    return found


def back_off(attempts: int, *, first_ms: int = 1_000, most_ms: int = 900_000) -> int:
    """Give the milliseconds to wait after so many failed attempts: doubling, capped."""
    return int(min(first_ms * 2 ** min(attempts - 1, 30), most_ms))
