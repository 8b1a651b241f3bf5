"""What people read of a fleet agent's turns: the newest first, each with how it ended, and what it was told and said.

Each read follows an index from its cursor and ends at a limit. An agent has one live run, so that two turns of one
agent never begin at one time, and the time is the cursor.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import bindparam, func, literal_column, select

from gitops_bot.ports import BodyStop
from gitops_bot.store.engine import Tx
from gitops_bot.store.fleet_tables import capsule_items, dispatches, fleet_agents
from gitops_bot.store.states import CapsuleItem
from gitops_bot.store.tables import agents


@dataclass(frozen=True, slots=True)
class TurnRow:
    """One start of a run's body. Times in ms; `body_at` None when no body began, `ended_at` and what follows it None
    while it runs."""

    run: str
    version: int
    agent: str
    lane: str
    reason: str
    started_at: int
    body_at: int | None
    ended_at: int | None
    stop: BodyStop | None
    exit_code: int | None
    detail: str | None
    outcome: str | None


@dataclass(frozen=True, slots=True)
class Untold:
    """What an agent's next capsule will tell it: an ask that ended or a message, by its id, since when (ms)."""

    kind: CapsuleItem
    ref: str
    at: int


@dataclass(frozen=True, slots=True)
class DueRow:
    """An agent that is due and that nobody paused: since when (ms), why, and whether a run of it is live."""

    slug: str
    due_at: int
    reason: str
    is_live: bool


_COLUMNS: Final = (
    dispatches.c.run,
    dispatches.c.version,
    dispatches.c.agent,
    dispatches.c.lane,
    dispatches.c.reason,
    dispatches.c.started_at,
    dispatches.c.body_at,
    dispatches.c.ended_at,
    dispatches.c.stop,
    dispatches.c.exit_code,
    dispatches.c.detail,
    dispatches.c.outcome,
)
_OF: Final = (
    select(*_COLUMNS)
    .where(dispatches.c.agent == bindparam("of"), dispatches.c.started_at < bindparam("before"))
    .order_by(dispatches.c.started_at.desc())
    .limit(bindparam("most"))
)
_VERSIONS: Final = (
    select(*_COLUMNS).where(dispatches.c.run == bindparam("of")).order_by(dispatches.c.version.desc()).limit(1)
)
_ONE: Final = select(*_COLUMNS).where(dispatches.c.run == bindparam("of"), dispatches.c.version == bindparam("at"))
# A literal and no parameter: SQLite uses a partial index only where the statement's text implies its condition.
_UNTOLD: Final = (
    select(capsule_items.c.kind, capsule_items.c.ref, capsule_items.c.at)
    .where(capsule_items.c.agent == bindparam("of"), capsule_items.c.run.is_(literal_column("NULL")))
    .order_by(capsule_items.c.id)
    .limit(bindparam("most"))
)
_OPEN: Final = (
    select(func.count())
    .select_from(dispatches)
    .where(dispatches.c.agent == fleet_agents.c.agent, dispatches.c.ended_at.is_(None))
    .scalar_subquery()
)
_DUE: Final = (
    select(agents.c.slug, fleet_agents.c.due_at, fleet_agents.c.due_reason, _OPEN.label("open"))
    .join(agents, agents.c.id == fleet_agents.c.agent)
    .where(
        fleet_agents.c.lane == bindparam("of"),
        fleet_agents.c.due_at.is_not(None),
        fleet_agents.c.resting == literal_column("0"),
        fleet_agents.c.due_at <= bindparam("at"),
    )
    .order_by(fleet_agents.c.due_at)
    .limit(bindparam("most"))
)
_END: Final = 2**62


def turns_of(tx: Tx, agent: str, before: int | None, limit: int) -> list[TurnRow]:
    """Read an agent's turns that began before a time (ms; None: any), newest first."""
    rows = tx.execute(_OF, {"of": agent, "before": _END if before is None else before, "most": limit})
    return [_turn(row) for row in rows]


def turn(tx: Tx, run: str, version: int | None = None) -> TurnRow | None:
    """Read one turn; without a version the last one of the run."""
    if version is None:
        row = tx.execute(_VERSIONS, {"of": run}).one_or_none()
    else:
        row = tx.execute(_ONE, {"of": run, "at": version}).one_or_none()
    return None if row is None else _turn(row)


def untold_of(tx: Tx, agent: str, limit: int) -> Sequence[Untold]:
    """Read what an agent was not told yet, the oldest first."""
    rows = tx.execute(_UNTOLD, {"of": agent, "most": limit})
    return [Untold(CapsuleItem(row.kind), row.ref, row.at) for row in rows]


def due_in(tx: Tx, lane: str, limit: int) -> Sequence[DueRow]:
    """Read who of a lane is due now, the longest first."""
    rows = tx.execute(_DUE, {"of": lane, "at": tx.now, "most": limit})
    return [DueRow(row.slug, row.due_at, row.due_reason, row.open > 0) for row in rows]


def _turn(row: Any) -> TurnRow:
    return TurnRow(
        row.run,
        row.version,
        row.agent,
        row.lane,
        row.reason,
        row.started_at,
        row.body_at,
        row.ended_at,
        None if row.stop is None else BodyStop(row.stop),
        row.exit_code,
        row.detail,
        row.outcome,
    )
