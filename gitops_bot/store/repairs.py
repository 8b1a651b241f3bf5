"""What a reconciler looks for in rows, in bounded steps by a cursor: what no transaction of ours leaves behind.

Each look walks at most so many rows of one index; what it finds is looked at again under a lock before it is repaired.
A run that is live without a body, or an agent that nothing will ever wake, costs a person's answer: so they are looked
for, though only a bug or a hand in the database makes one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Executable, FromClause, and_, bindparam, exists, func, literal_column, or_, select

from gitops_bot.core.asks import AskState
from gitops_bot.store.engine import Tx
from gitops_bot.store.fleet_tables import capsule_items, dispatches, fleet_agents
from gitops_bot.store.states import AgentState, RunState, WaiterKind, WakePolicy
from gitops_bot.store.tables import agents, asks, runs
from gitops_bot.store.work_tables import waiters


@dataclass(frozen=True, slots=True)
class Look:
    """What one look found, by id, and where the next one goes on (empty: at the beginning)."""

    found: tuple[str, ...]
    after: str


def _is(column: Any, value: str) -> Any:
    # A literal and no parameter: SQLite uses a partial index only where the statement's text implies its condition.
    return column == literal_column(f"'{value}'")


_OPEN: Final = _is(asks.c.state, AskState.OPEN.value)
_LIVE: Final = and_(_is(runs.c.state, RunState.LIVE.value), _is(runs.c.kind, "agent"))
_BODILESS: Final = (
    select(runs.c.id)
    .where(
        _LIVE,
        ~exists().where(
            dispatches.c.run == runs.c.id, dispatches.c.version == runs.c.version, dispatches.c.ended_at.is_(None)
        ),
    )
    # In the order of the index over live runs: by id, SQLite would walk all history.
    .order_by(runs.c.agent)
    .limit(bindparam("most"))
)


def _window(key: Any, *conditions: Any) -> FromClause:
    """Give the next rows of a walk, by key."""
    walk = select(key).where(key > bindparam("after"), *conditions).order_by(key).limit(bindparam("most"))
    return walk.subquery("walked")


def _last(window: FromClause, key: str) -> Executable:
    return select(func.max(window.c[key]).label("last"), func.count().label("number")).select_from(window)


_RUNS: Final = _window(runs.c.id)
_PARKED: Final = (
    select(runs.c.id)
    .join(_RUNS, _RUNS.c.id == runs.c.id)
    .where(
        _is(runs.c.state, RunState.PARKED.value),
        _is(runs.c.kind, "agent"),
        ~exists().where(
            _is(waiters.c.kind, WaiterKind.RUN.value), waiters.c.id == runs.c.id, asks.c.id == waiters.c.ask, _OPEN
        ),
        ~exists().where(fleet_agents.c.agent == runs.c.agent, fleet_agents.c.again == runs.c.id),
    )
    .order_by(runs.c.id)
)
_ASKS: Final = _window(asks.c.id, _OPEN)
_ORPHANED: Final = (
    select(asks.c.id)
    .join(_ASKS, _ASKS.c.id == asks.c.id)
    .join(agents, agents.c.id == asks.c.agent)
    .where(
        _is(agents.c.state, AgentState.RETIRED.value),
        # What somebody else waits for too stays open.
        ~exists().where(waiters.c.ask == asks.c.id, waiters.c.kind != WaiterKind.RUN.value),
    )
    .order_by(asks.c.id)
)
_AGENTS: Final = _window(fleet_agents.c.agent)
_BY_ITSELF: Final = or_(
    _is(fleet_agents.c.policy, WakePolicy.CONTINUOUS.value), _is(fleet_agents.c.policy, WakePolicy.SCHEDULED.value)
)
_ASLEEP: Final = (
    select(fleet_agents.c.agent)
    .join(_AGENTS, _AGENTS.c.agent == fleet_agents.c.agent)
    .where(
        fleet_agents.c.due_at.is_(None),
        fleet_agents.c.resting == 0,
        ~exists().where(runs.c.agent == fleet_agents.c.agent, _LIVE),
        or_(
            fleet_agents.c.again.is_not(None),
            exists().where(capsule_items.c.agent == fleet_agents.c.agent, capsule_items.c.run.is_(None)),
            and_(
                _BY_ITSELF,
                or_(fleet_agents.c.outcome.is_(None), fleet_agents.c.outcome != "BLOCKED"),
                ~exists().where(asks.c.agent == fleet_agents.c.agent, _OPEN),
            ),
        ),
    )
    .order_by(fleet_agents.c.agent)
)
_LAST_RUN: Final = _last(_RUNS, "id")
_LAST_ASK: Final = _last(_ASKS, "id")
_LAST_AGENT: Final = _last(_AGENTS, "agent")
_OVER: Final = select(dispatches.c.run).where(
    dispatches.c.run == bindparam("of"),
    dispatches.c.version == bindparam("at_version"),
    dispatches.c.ended_at.is_(None),
    dispatches.c.lease_until <= bindparam("at"),
)
_HAS_OPEN: Final = select(asks.c.id).where(asks.c.agent == bindparam("of"), _OPEN).limit(1)


def bodiless(tx: Tx, limit: int) -> tuple[str, ...]:
    """Name live runs of the fleet that no open dispatch stands behind; there are never more live runs than slots."""
    return tuple(tx.execute(_BODILESS, {"most": limit}).scalars())


def parked(tx: Tx, after: str, limit: int) -> Look:
    """Name, among the next runs by id, parked ones that wait for no open ask and are not to be dispatched again."""
    return _look(tx, _PARKED, _LAST_RUN, after, limit)


def orphaned(tx: Tx, after: str, limit: int) -> Look:
    """Name, among the next open asks by id, those of retired agents that nobody but its own runs waits for."""
    return _look(tx, _ORPHANED, _LAST_ASK, after, limit)


def asleep(tx: Tx, after: str, limit: int) -> Look:
    """Name, among the next agents by id, those that have something to do and that nothing will wake: no due time, no
    live run, not resting; with something untold, a run to dispatch again, or a policy by which they run unasked."""
    return _look(tx, _ASLEEP, _LAST_AGENT, after, limit)


def is_over(tx: Tx, run: str, version: int) -> bool:
    """Tell whether a dispatch has not ended and its lease is over, now."""
    return tx.execute(_OVER, {"of": run, "at_version": version, "at": tx.now}).one_or_none() is not None


def has_open(tx: Tx, agent: str) -> bool:
    """Tell whether an agent has an open ask."""
    return tx.execute(_HAS_OPEN, {"of": agent}).one_or_none() is not None


def _look(tx: Tx, finding: Executable, last: Executable, after: str, limit: int) -> Look:
    values: Mapping[str, Any] = {"after": after, "most": limit}
    found = tuple(tx.execute(finding, values).scalars())
    row = tx.execute(last, values).one()
    return Look(found, row.last if row.number == limit else "")
