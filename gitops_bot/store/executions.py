"""Executions of gated actions: one for each spent grant, written before anything leaves and ended by what came back."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import bindparam, func, insert, select, update

from gitops_bot.core.canonical import canonical
from gitops_bot.core.texts import storable
from gitops_bot.store.engine import Tx
from gitops_bot.store.signed_tables import executions, grants
from gitops_bot.store.states import EffectState, GrantState
from gitops_bot.store.tables import asks

MAX_TEXT: Final = 4_000

_ADD: Final = insert(executions)
_GET: Final = select(executions).where(executions.c.id == bindparam("of"))
_LOCK: Final = _GET.with_for_update()
_OF_ASK: Final = select(executions).where(executions.c.ask == bindparam("of")).order_by(executions.c.created_at)
_ATTEMPT: Final = (
    update(executions)
    .where(
        executions.c.id == bindparam("of"),
        executions.c.state == bindparam("seen_state"),
        func.coalesce(executions.c.attempted_at, -1) == bindparam("seen_at"),
        func.coalesce(executions.c.result, "") == bindparam("seen_result"),
    )
    .values(state=EffectState.ATTEMPTING.value, attempted_at=bindparam("at"), result=bindparam("said"))
)
_END: Final = (
    update(executions)
    .where(
        executions.c.id == bindparam("of"),
        executions.c.state.in_([EffectState.PENDING.value, EffectState.ATTEMPTING.value]),
    )
    .values(state=bindparam("to"), ended_at=bindparam("at"), result=bindparam("said"))
)
# What was spent counts, whatever came of it: an unknown payment may have been made.
_SPENT: Final = (
    select(asks.c.action, grants.c.action_hash, grants.c.ended_at)
    .join(grants, grants.c.ask == asks.c.id)
    .where(asks.c.verb == bindparam("named"), grants.c.state == GrantState.SPENT.value)
    .where(grants.c.ended_at > bindparam("since"))
)


@dataclass(frozen=True, slots=True)
class Execution:
    """One execution. `told` is what was noted of it: attempts, whether one was unclear, what the receiver said."""

    id: str
    grant: str | None
    ask: str
    action_hash: str
    state: EffectState
    told: Mapping[str, Any]
    created_at: int
    attempted_at: int | None
    ended_at: int | None


def _execution(row: Any) -> Execution:
    return Execution(
        row.id,
        row.grant,
        row.ask,
        row.action_hash,
        EffectState(row.state),
        {} if row.result is None else json.loads(row.result),
        row.created_at,
        row.attempted_at,
        row.ended_at,
    )


def add(tx: Tx, execution: str, grant: str, ask: str, action_hash: str) -> None:
    """Write what a spent grant is to do."""
    row = {
        "id": execution,
        "grant": grant,
        "ask": ask,
        "action_hash": action_hash,
        "state": EffectState.PENDING.value,
        "created_at": tx.now,
    }
    tx.execute(_ADD, row)


def get(tx: Tx, execution: str, *, lock: bool = False) -> Execution | None:
    """Read one execution."""
    row = tx.execute(_LOCK if lock else _GET, {"of": execution}).one_or_none()
    return None if row is None else _execution(row)


def of_ask(tx: Tx, ask: str) -> list[Execution]:
    """Read the executions of an ask; there is at most one."""
    return [_execution(row) for row in tx.execute(_OF_ASK, {"of": ask})]


def attempt(tx: Tx, seen: Execution, told: Mapping[str, Any]) -> bool:
    """Note that an attempt begins, or what came of one; False when the row is not as it was seen: another goes on."""
    if seen.state not in (EffectState.PENDING, EffectState.ATTEMPTING):
        return False
    values = {
        "of": seen.id,
        "seen_state": seen.state.value,
        "seen_at": -1 if seen.attempted_at is None else seen.attempted_at,
        "seen_result": _told(seen.told) if seen.told else "",
        "at": tx.now,
        "said": _told(told),
    }
    return tx.execute(_ATTEMPT, values).rowcount == 1


def end(tx: Tx, execution: str, state: EffectState, told: Mapping[str, Any]) -> bool:
    """End an execution; False when it ended before."""
    values = {"of": execution, "to": state.value, "at": tx.now, "said": _told(told)}
    return tx.execute(_END, values).rowcount == 1


def spent_actions(tx: Tx, verb: str, since: int) -> list[tuple[bytes, str, int]]:
    """Read the actions of a verb whose grants were spent after a time, the hash that was approved, and when it was."""
    rows = tx.execute(_SPENT, {"named": verb, "since": since})
    return [(bytes(row.action), row.action_hash, row.ended_at) for row in rows]


def _told(told: Mapping[str, Any]) -> str:
    cut = {name: storable(value)[:MAX_TEXT] if isinstance(value, str) else value for name, value in told.items()}
    return canonical(cut).decode("utf-8")
