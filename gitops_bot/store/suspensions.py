"""Who is suspended since the bundle in force was adopted: appended on the host, each row true until the next of its
person. The policy's own word on a person stands beside it."""

from typing import Final

from sqlalchemy import bindparam, insert, literal_column, select, union_all

from gitops_bot.core.principals import PrincipalName
from gitops_bot.core.texts import storable
from gitops_bot.store.engine import Tx
from gitops_bot.store.ids import new_id
from gitops_bot.store.signed_tables import suspensions
from gitops_bot.store.tables import policy_in_force

_ADD: Final = insert(suspensions)
_UP_TO: Final = (
    select(suspensions.c.principal, suspensions.c.suspended)
    .where(suspensions.c.at <= bindparam("until"))
    .order_by(suspensions.c.at, suspensions.c.suspended)  # of two at one instant, the suspension stands
)

# Both in one round, for an answer asks for both: each suspension with its time, the pointer with a mark of its own.
_POINTER: Final = -1
_WORLD: Final = union_all(
    select(
        suspensions.c.principal.label("name"), suspensions.c.suspended.label("is_"), suspensions.c.at.label("since")
    ).where(suspensions.c.at <= bindparam("until")),
    select(policy_in_force.c.digest, literal_column(str(_POINTER)), literal_column("0")).where(
        policy_in_force.c.id == 1
    ),
)


def suspend(tx: Tx, principal: PrincipalName, reason: str | None) -> None:
    """Suspend a person from now on. That the policy knows them is *not* checked."""
    _add(tx, principal, 1, reason)


def lift(tx: Tx, principal: PrincipalName, reason: str | None) -> None:
    """Reinstate a person from now on."""
    _add(tx, principal, 0, reason)


def _add(tx: Tx, principal: PrincipalName, suspended: int, reason: str | None) -> None:
    said = None if reason is None else storable(reason)[:500]
    row = {"id": new_id(tx.now), "principal": principal, "suspended": suspended, "reason": said, "at": tx.now}
    tx.execute(_ADD, row)


def suspended(tx: Tx, at: int | None = None) -> frozenset[PrincipalName]:
    """Name who is suspended now, or was at a time (ms)."""
    last = {PrincipalName(row.principal): row.suspended for row in tx.execute(_UP_TO, {"until": at or tx.now})}
    return frozenset(name for name, is_suspended in last.items() if is_suspended)


def world(tx: Tx) -> tuple[frozenset[PrincipalName], str | None]:
    """Name who is suspended now, and the bundle that is in force (None: none was put in force), in one look."""
    rows = tx.execute(_WORLD, {"until": tx.now}).all()
    ordered = sorted((row.since, row.is_, row.name) for row in rows if row.is_ != _POINTER)
    last = {PrincipalName(name): is_suspended for _, is_suspended, name in ordered}
    pointer = next((str(row.name) for row in rows if row.is_ == _POINTER), None)
    return frozenset(name for name, is_suspended in last.items() if is_suspended), pointer
