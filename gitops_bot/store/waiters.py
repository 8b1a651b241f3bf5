"""Waiters: what resumes when an ask ends. The ending transaction sets them due and stores why, nothing else."""

from typing import Final

from sqlalchemy import bindparam, delete, exists, func, select, update

from gitops_bot.core.asks import AskState
from gitops_bot.store import due, fleet
from gitops_bot.store.engine import Tx
from gitops_bot.store.statements import insert_or_ignore
from gitops_bot.store.states import WaiterKind
from gitops_bot.store.tables import asks
from gitops_bot.store.work_tables import waiters

_INSERT: Final = insert_or_ignore(waiters, ("ask", "kind", "id"))
_OF_ASK: Final = (
    select(waiters.c.kind, waiters.c.id).where(waiters.c.ask == bindparam("of")).order_by(waiters.c.kind, waiters.c.id)
)
_WAKE: Final = (
    update(waiters)
    .where(waiters.c.ask == bindparam("of"))
    .values(due_at=bindparam("at"), cause=bindparam("why"))
    .returning(waiters.c.kind, waiters.c.id)
)
_MOVE: Final = (
    update(waiters).where(waiters.c.ask == bindparam("of")).values(ask=bindparam("to"), due_at=None, cause=None)
)
_REMOVE: Final = delete(waiters).where(
    waiters.c.ask == bindparam("of"), waiters.c.kind == bindparam("what"), waiters.c.id == bindparam("who")
)
_COUNT: Final = select(func.count()).where(waiters.c.ask == bindparam("of"))
_CAUSE: Final = select(waiters.c.due_at, waiters.c.cause).where(
    waiters.c.ask == bindparam("of"), waiters.c.kind == bindparam("what"), waiters.c.id == bindparam("who")
)
_STILL_WAITS: Final = select(
    exists().where(
        waiters.c.kind == bindparam("what"),
        waiters.c.id == bindparam("who"),
        asks.c.id == waiters.c.ask,
        asks.c.state == bindparam("state"),
    )
)
_REASONS: Final = {AskState.EXPIRED.value: "expired", AskState.WITHDRAWN.value: "withdrawn"}


def duty(kind: WaiterKind) -> str:
    """Name the duty that goes on from a waiter of a kind."""
    return f"wake.{kind.value}"


def add(tx: Tx, ask: str, kind: WaiterKind, waiter: str) -> None:
    """Let something wait for an ask; twice is once."""
    tx.execute(_INSERT[tx.dialect], {"ask": ask, "kind": kind.value, "id": waiter})


def of_ask(tx: Tx, ask: str) -> list[tuple[WaiterKind, str]]:
    """Read who waits for an ask."""
    return [(WaiterKind(row.kind), row.id) for row in tx.execute(_OF_ASK, {"of": ask})]


def wake(tx: Tx, ask: str, cause: str) -> list[tuple[WaiterKind, str]]:
    """Set every waiter of an ask due, with the cause; give them."""
    rows = tx.execute(_WAKE, {"of": ask, "at": tx.now, "why": cause}).all()
    # In one order, so that two transactions that wake the same waiters never wait for each other.
    woken = sorted((WaiterKind(row.kind), row.id) for row in rows)
    for kind, waiter in woken:
        if kind is WaiterKind.RUN:
            # The wake of a fleet agent is a row of its own, which the tick walks.
            fleet.ask_ended(tx, ask, waiter, _REASONS.get(cause, "answer"))
        else:
            due.set_due(tx, duty(kind), waiter, tx.now)
    return woken


def move(tx: Tx, ask: str, successor: str) -> None:
    """Let the waiters of a superseded ask wait for its successor."""
    tx.execute(_MOVE, {"of": ask, "to": successor})


def remove(tx: Tx, ask: str, kind: WaiterKind, waiter: str) -> int:
    """Take a waiter away; give how many are left."""
    tx.execute(_REMOVE, {"of": ask, "what": kind.value, "who": waiter})
    left: int = tx.execute(_COUNT, {"of": ask}).scalar_one()
    return left


def cause(tx: Tx, ask: str, kind: WaiterKind, waiter: str) -> str | None:
    """Read why a waiter was woken; None when it was not."""
    row = tx.execute(_CAUSE, {"of": ask, "what": kind.value, "who": waiter}).one_or_none()
    return None if row is None or row.due_at is None else row.cause


def still_waits(tx: Tx, kind: WaiterKind, waiter: str) -> bool:
    """Tell whether a waiter waits for anything that is open."""
    return bool(
        tx.execute(_STILL_WAITS, {"what": kind.value, "who": waiter, "state": AskState.OPEN.value}).scalar_one()
    )
