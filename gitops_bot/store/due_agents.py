"""Agents of a lane that are due are claimed here, and their runs opened: in one transaction, by a few statements for
all of them, however large the fleet.

Who claims holds the agents' rows to the end of the transaction, so that no second run of one begins; the index over
live runs is the last word on that. What a capsule says is left to who calls, between the claim and the opening.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Select, and_, bindparam, func, literal_column, select, update

from gitops_bot.core.principals import PrincipalName
from gitops_bot.store import agents as tokens
from gitops_bot.store import fleet, told
from gitops_bot.store.agents import Agent
from gitops_bot.store.bulk import insert_all, inserting
from gitops_bot.store.dispatches import Dispatch, running
from gitops_bot.store.engine import Tx
from gitops_bot.store.fleet import Setup
from gitops_bot.store.fleet_tables import dispatches, fleet_agents, lanes
from gitops_bot.store.states import AgentKind, AgentState, RunState
from gitops_bot.store.tables import agents, runs

DAY: Final = 24 * 3_600_000
SLACK: Final = 60_000
"""Milliseconds that a run's token outlives the limit of its turn."""


@dataclass(frozen=True, slots=True)
class Lane:
    """A lane as a tick sees it: until when it is closed (ms), how many of it run, whether an agent could start now, and
    when the next one is due after now."""

    id: str
    opens_at: int
    running: int
    is_ripe: bool
    next_at: int | None


@dataclass(frozen=True, slots=True)
class Claimed:
    """An agent that is due and that nobody else starts. `again` is the run whose body was lost, `report` its last."""

    agent: Agent
    setup: Setup
    session: str | None
    reason: str
    wake_seq: int
    report: str
    again: str | None


@dataclass(frozen=True, slots=True)
class Opening:
    """A run about to be opened: at which version, with which capsule, of which depth; `told` are the items that it
    consumes, `session` the one that it goes on in."""

    claimed: Claimed
    run: str
    version: int
    capsule: str
    depth: int
    told: tuple[int, ...] = ()
    session: str | None = None


@dataclass(frozen=True, slots=True)
class Opened:
    """A run that was opened, with the token of its body, which is given here alone."""

    dispatch: Dispatch
    agent: Agent
    setup: Setup
    session: str | None
    token: str


@dataclass(frozen=True, slots=True)
class Kept:
    """What the last dispatch of a run was told: it is told the same when it is dispatched again."""

    version: int
    capsule: str
    depth: int


# Literals and no parameters: SQLite uses a partial index only where the statement's text implies its condition.
_CAN_RUN: Final = and_(fleet_agents.c.due_at.is_not(None), fleet_agents.c.resting == literal_column("0"))
_LANES: Final = select(
    lanes.c.id,
    lanes.c.opens_at,
    select(func.count())
    .select_from(dispatches)
    .where(dispatches.c.lane == lanes.c.id, dispatches.c.ended_at.is_(None))
    .scalar_subquery()
    .label("running"),
    select(func.min(fleet_agents.c.due_at))
    .where(fleet_agents.c.lane == lanes.c.id, _CAN_RUN)
    .scalar_subquery()
    .label("due_at"),
    select(func.min(fleet_agents.c.due_at))
    .where(fleet_agents.c.lane == lanes.c.id, _CAN_RUN, fleet_agents.c.due_at > bindparam("at"))
    .scalar_subquery()
    .label("next_at"),
).order_by(lanes.c.id)
_LOCK_LANE: Final = (
    select(lanes.c.id).where(lanes.c.id == bindparam("of"), lanes.c.opens_at <= bindparam("at")).with_for_update()
)
# Each statement walks one index, whatever a planner knows or does not know of the tables: that an agent has a live run
# is looked up afterwards, for there are no more of those in a lane than run in it.
_IS_DUE: Final = and_(fleet_agents.c.lane == bindparam("of"), _CAN_RUN, fleet_agents.c.due_at <= bindparam("at"))
_DUE: Final = select(fleet_agents.c.agent).where(_IS_DUE).order_by(fleet_agents.c.due_at).limit(bindparam("most"))
_UNREAD: Final = frozenset({"resting", "due_at", "idle", "errors", "outcome", "blocked_ask", "settled_at"})
_CLAIM: Final = (
    select(*(column for column in fleet_agents.c if column.name not in _UNREAD))
    .where(_IS_DUE)
    .order_by(fleet_agents.c.due_at)
    .limit(bindparam("most"))
    .with_for_update(skip_locked=True)
)
# Without waiting, here too: who pauses an agent holds this row first and waits for the other.
_AGENTS: Final = (
    select(*(column for column in agents.c if column.name != "created_at"))
    .where(agents.c.id.in_(bindparam("of", expanding=True)))
    .with_for_update(skip_locked=True, key_share=True)
)
_SPARE: Final = 16
"""Live runs beyond those counted in a lane that a look allows for: of agents that changed their lane."""
# The condition is that of `ux_runs_live` itself, which holds no more than runs in all lanes.
_LIVE: Final = select(runs.c.agent).where(
    runs.c.state == literal_column(f"'{RunState.LIVE.value}'"), runs.c.kind == literal_column("'agent'")
)
_BEGUN: Final = select(dispatches.c.agent, dispatches.c.started_at).where(
    dispatches.c.agent.in_(bindparam("of", expanding=True)), dispatches.c.started_at > bindparam("since")
)
_DEFER: Final = (
    update(fleet_agents)
    .where(fleet_agents.c.agent == bindparam("of"))
    .values(due_at=bindparam("at"), due_reason="budget")
)
_KEPT: Final = (
    select(dispatches.c.run, dispatches.c.version, dispatches.c.capsule, dispatches.c.depth)
    .join(runs, and_(runs.c.id == dispatches.c.run, runs.c.version == dispatches.c.version))
    .where(runs.c.id.in_(bindparam("of", expanding=True)))
)
_ADD_RUNS: Final = inserting(runs, "id", "agent", "kind", "version", "state", "started_at")
_RAISE_RUNS: Final = (
    update(runs)
    .where(runs.c.id.in_(bindparam("of", expanding=True)))
    .values(version=runs.c.version + 1, state=RunState.LIVE.value, ended_at=None, outcome=None)
)
_STARTED: Final = (
    update(fleet_agents)
    .where(fleet_agents.c.agent.in_(bindparam("of", expanding=True)))
    .values(due_at=None, due_reason=None, again=None)
)
_IN_SESSION: Final = (
    update(fleet_agents).where(fleet_agents.c.agent == bindparam("of")).values(session=bindparam("within"))
)
_ADD: Final = inserting(
    dispatches,
    "run",
    "version",
    "agent",
    "lane",
    "reason",
    "wake_seq",
    "depth",
    "capsule",
    "holder",
    "lease_until",
    "started_at",
)


def overview(tx: Tx) -> list[Lane]:
    """Read every lane, with whether anything could start in it."""
    found: list[Lane] = []
    for row in tx.execute(_LANES, {"at": tx.now}).all():
        is_due = row.due_at is not None and row.due_at <= tx.now
        is_ripe = is_due and (row.running == 0 or bool(_without_run(tx, _DUE, row.id, row.running, 1)))
        found.append(Lane(row.id, row.opens_at, row.running, is_ripe, row.next_at))
    return found


def _without_run(tx: Tx, statement: Select[Any], lane: str, running: int, most: int) -> list[Any]:
    rows = tx.execute(statement, {"of": lane, "at": tx.now, "most": most + running + _SPARE}).all()
    # After the rows were locked: a run that began while one was waited for is seen by a later look alone.
    live = {row.agent for row in tx.execute(_LIVE, {})} if rows else ()
    return [row for row in rows if row.agent not in live][:most]


def claim(tx: Tx, lane: str, slots: int) -> list[Claimed]:
    """Claim the agents of an open lane that are due and have no live run, the longest due first, as many as its free
    slots take. One whose turns of a day are spent is due again when it has one, and is not claimed."""
    if tx.execute(_LOCK_LANE, {"of": lane, "at": tx.now}).one_or_none() is None:
        return []
    runs_now = running(tx, lane)
    if runs_now >= slots:
        return []
    rows = _without_run(tx, _CLAIM, lane, runs_now, slots - runs_now)
    if not rows:
        return []
    of = {row.id: row for row in tx.execute(_AGENTS, {"of": [row.agent for row in rows]})}
    return _within_budget(tx, [_claimed(row, of[row.agent]) for row in rows if row.agent in of])


def _claimed(row: Any, of: Any) -> Claimed:
    owner = PrincipalName(of.owner) if of.owner else None
    state, kind = AgentState(of.state), AgentKind(of.kind)
    agent = Agent(of.id, of.slug, kind, PrincipalName(of.principal), owner, of.purpose, state, of.pause_reason)
    return Claimed(agent, fleet.setup_of(row), row.session, row.due_reason, row.wake_seq, row.report or "", row.again)


def _within_budget(tx: Tx, found: Sequence[Claimed]) -> list[Claimed]:
    limited = {one.agent.id: one.setup.turns_a_day for one in found if one.setup.turns_a_day is not None}
    if not limited:
        return list(found)
    begun: dict[str, list[int]] = {agent: [] for agent in limited}
    for row in tx.execute(_BEGUN, {"of": list(limited), "since": tx.now - DAY}):
        begun[row.agent].append(row.started_at)
    spent = {agent for agent, most in limited.items() if len(begun[agent]) >= most}
    for agent in sorted(spent):
        oldest = sorted(begun[agent])[-limited[agent]]
        tx.execute(_DEFER, {"of": agent, "at": oldest + DAY})
    return [one for one in found if one.agent.id not in spent]


def kept(tx: Tx, again: Collection[str]) -> Mapping[str, Kept]:
    """Read what runs that are dispatched again were told, by run; a run that never was is not among them."""
    if not again:
        return {}
    rows = tx.execute(_KEPT, {"of": list(again)})
    return {row.run: Kept(row.version, row.capsule, row.depth) for row in rows}


def open_runs(tx: Tx, openings: Sequence[Opening], holder: str, lease_ms: int) -> list[Opened]:
    """Open the runs of claimed agents, each with its dispatch, its token and what it was told; their wakes are done."""
    if not openings:
        return []
    fresh = [one for one in openings if one.version == 1]
    insert_all(tx, _ADD_RUNS, [_run(tx, one) for one in fresh])
    repeated = [one.run for one in openings if one.version > 1]
    if repeated:
        tx.execute(_RAISE_RUNS, {"of": repeated})
        # A body that was only thought to be lost speaks for the run no longer.
        tokens.revoke_tokens_of_runs(tx, repeated)
    tx.execute(_STARTED, {"of": [one.claimed.agent.id for one in openings]})
    for one in openings:
        if one.session != one.claimed.session:
            tx.execute(_IN_SESSION, {"of": one.claimed.agent.id, "within": one.session})
    told.consume(tx, [(item, one.run) for one in openings for item in one.told])
    opened = [_dispatch(tx, one, holder) for one in openings]
    rows = [
        {
            "run": one.run,
            "version": one.version,
            "agent": one.agent,
            "lane": one.lane,
            "reason": one.reason,
            "wake_seq": one.wake_seq,
            "depth": one.depth,
            "capsule": one.capsule,
            "holder": holder,
            "lease_until": tx.now + lease_ms,
            "started_at": tx.now,
        }
        for one in opened
    ]
    insert_all(tx, _ADD, rows)
    wanted = [(one.claimed.agent.id, one.run, tx.now + one.claimed.setup.turn_limit + SLACK) for one in openings]
    given = tokens.issue_run_tokens(tx, wanted)
    return [
        Opened(dispatch, one.claimed.agent, one.claimed.setup, one.session, token)
        for dispatch, one, token in zip(opened, openings, given, strict=True)
    ]


def _run(tx: Tx, one: Opening) -> dict[str, Any]:
    return {
        "id": one.run,
        "agent": one.claimed.agent.id,
        "kind": "agent",
        "version": 1,
        "state": RunState.LIVE.value,
        "started_at": tx.now,
    }


def _dispatch(tx: Tx, one: Opening, holder: str) -> Dispatch:
    claimed = one.claimed
    return Dispatch(
        one.run,
        one.version,
        claimed.agent.id,
        claimed.agent.slug,
        claimed.setup.lane,
        claimed.reason,
        claimed.wake_seq,
        one.depth,
        one.capsule,
        holder,
        tx.now,
    )
