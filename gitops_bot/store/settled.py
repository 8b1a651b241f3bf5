"""What the end of a turn leaves in its agent's row, and the wake that nobody else may have replaced meanwhile (I2).

Whoever calls holds the agent's row. What follows from the turn is decided in `fleet.machine`.
"""

from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import bindparam, literal_column, or_, select, update

from gitops_bot.core.asks import AskState
from gitops_bot.store.engine import Tx
from gitops_bot.store.fleet_tables import capsule_items, fleet_agents
from gitops_bot.store.states import CapsuleItem, WakeOn
from gitops_bot.store.tables import asks


@dataclass(frozen=True, slots=True)
class Left:
    """What a turn leaves: the session that is gone on in (None: none), the counters, the run that is dispatched again,
    what the turn came to in a word and in words, and the ask that says that the agent is blocked."""

    session: str | None
    idle: int
    errors: int
    again: str | None
    outcome: str
    report: str | None
    blocked_ask: str | None


_sibling: Final = asks.alias("sibling")
_WRITE: Final = (
    update(fleet_agents)
    .where(fleet_agents.c.agent == bindparam("of"))
    .values(
        session=bindparam("within"),
        idle=bindparam("idle_"),
        errors=bindparam("errors_"),
        again=bindparam("again_"),
        outcome=bindparam("came_to"),
        report=bindparam("said"),
        blocked_ask=bindparam("blocking"),
        settled_at=bindparam("at"),
    )
)
_WAKE: Final = (
    update(fleet_agents)
    .where(fleet_agents.c.agent == bindparam("of"), fleet_agents.c.wake_seq == bindparam("seq"))
    .values(due_at=bindparam("at"), due_reason=bindparam("why"))
)
_IS_OPEN: Final[Any] = literal_column(f"'{AskState.OPEN.value}'")
# A message always; an ask that ended without an answer, or where the agent wakes on any, or that was the last open one
# of its run.
_ROUSING: Final = (
    select(capsule_items.c.kind, asks.c.state)
    .outerjoin(asks, asks.c.id == capsule_items.c.ref)
    .where(
        capsule_items.c.agent == bindparam("of"),
        capsule_items.c.run.is_(None),
        or_(
            capsule_items.c.kind == CapsuleItem.MESSAGE.value,
            bindparam("on_any") == 1,
            asks.c.state.in_([literal_column(f"'{state.value}'") for state in (AskState.EXPIRED, AskState.WITHDRAWN)]),
            ~select(_sibling.c.id).where(_sibling.c.run == asks.c.run, _sibling.c.state == _IS_OPEN).exists(),
        ),
    )
    .order_by(capsule_items.c.id)
    .limit(1)
)
_REASONS: Final = {AskState.EXPIRED.value: "expired", AskState.WITHDRAWN.value: "withdrawn"}


def write(tx: Tx, agent: str, left: Left) -> None:
    """Write what a turn leaves."""
    row = {
        "of": agent,
        "within": left.session,
        "idle_": left.idle,
        "errors_": left.errors,
        "again_": left.again,
        "came_to": left.outcome,
        "said": left.report,
        "blocking": left.blocked_ask,
        "at": tx.now,
    }
    tx.execute(_WRITE, row)


def wake(tx: Tx, agent: str, seq: int, at: int | None, reason: str | None) -> bool:
    """Set when an agent is due (ms; None: when something wakes it), unless something woke it since `seq` was its wake
    number: then that stands, and this is False."""
    tx.makes_due |= at is not None and at <= tx.now
    if tx.execute(_WAKE, {"of": agent, "seq": seq, "at": at, "why": reason}).rowcount == 1:
        return True
    tx.makes_due = True
    return False


def rousing(tx: Tx, agent: str, wake_on: WakeOn) -> str | None:
    """Say why something wakes an agent that no capsule has told it yet; None where there is no such thing."""
    row = tx.execute(_ROUSING, {"of": agent, "on_any": int(wake_on is WakeOn.ANY)}).one_or_none()
    if row is None:
        return None
    return "message" if row.kind == CapsuleItem.MESSAGE.value else _REASONS.get(row.state, "answer")
