"""What pages read of fleet agents beside their own rows: when each is due and why, its lane, what it last came to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import bindparam, select

from gitops_bot.core.asks import AskState
from gitops_bot.store.engine import Tx
from gitops_bot.store.fleet_tables import fleet_agents, lanes
from gitops_bot.store.states import HarnessKind, WakePolicy
from gitops_bot.store.tables import asks


@dataclass(frozen=True, slots=True)
class FleetRow:
    """Where a fleet agent stands. Times in ms; `blocked_state` is the state of the ask that said that it is blocked."""

    agent: str
    harness: HarnessKind
    policy: WakePolicy
    lane: str
    lane_opens_at: int
    due_at: int | None
    due_reason: str | None
    outcome: str | None
    settled_at: int | None
    errors: int
    blocked_ask: str | None
    blocked_state: AskState | None


_ROWS: Final = (
    select(
        fleet_agents.c.agent,
        fleet_agents.c.harness,
        fleet_agents.c.policy,
        fleet_agents.c.lane,
        lanes.c.opens_at,
        fleet_agents.c.due_at,
        fleet_agents.c.due_reason,
        fleet_agents.c.outcome,
        fleet_agents.c.settled_at,
        fleet_agents.c.errors,
        fleet_agents.c.blocked_ask,
        asks.c.state.label("blocked_state"),
    )
    .outerjoin(lanes, lanes.c.id == fleet_agents.c.lane)
    .outerjoin(asks, asks.c.id == fleet_agents.c.blocked_ask)
    .where(fleet_agents.c.agent.in_(bindparam("these", expanding=True)))
)


def rows_of(tx: Tx, these: Sequence[str]) -> Mapping[str, FleetRow]:
    """Read where some agents stand, by id; those that no fleet runs are left out."""
    return {row.agent: _row(row) for row in tx.execute(_ROWS, {"these": list(these)})} if these else {}


def _row(row: Any) -> FleetRow:
    return FleetRow(
        row.agent,
        HarnessKind(row.harness),
        WakePolicy(row.policy),
        row.lane,
        row.opens_at or 0,
        row.due_at,
        row.due_reason,
        row.outcome,
        row.settled_at,
        row.errors,
        row.blocked_ask,
        AskState(row.blocked_state) if row.blocked_state else None,
    )
