"""How fleet agents are run and when each is due; a wake is written in the transaction of what woke it (I1, I2).

A wake that a person, an event or another agent caused raises `wake_seq`; who settles a run compares it with what the
run began with, so that the scheduler's own time never replaces such a wake.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import bindparam, insert, select, update

from gitops_bot.core.asks import AskState
from gitops_bot.store.engine import Tx
from gitops_bot.store.fleet_tables import capsule_items, fleet_agents, lanes
from gitops_bot.store.statements import insert_or_ignore
from gitops_bot.store.states import CapsuleItem, HarnessKind, RunState, WakeOn, WakePolicy
from gitops_bot.store.tables import agent_tokens, asks, runs


@dataclass(frozen=True, slots=True)
class Setup:
    """How one agent is run: the harness with its command and folder, its lane, when it runs unwoken, the limit of a
    turn (ms), and how many turns it may have within 24 hours (None: any number)."""

    harness: HarnessKind
    command: tuple[str, ...]
    folder: str
    lane: str
    policy: WakePolicy
    wake_on: WakeOn
    turn_limit: int
    turns_a_day: int | None = None
    cron: str | None = None
    zone: str | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """Where an agent stands: its setup, its session, whether people let it rest, when it is due and why, what its last
    turn came to."""

    agent: str
    setup: Setup
    session: str | None
    resting: bool
    due_at: int | None
    due_reason: str | None
    wake_seq: int
    idle: int
    errors: int
    again: str | None
    outcome: str | None
    report: str | None
    blocked_ask: str | None
    settled_at: int | None


_ADD: Final = insert(fleet_agents)
_LANE: Final = insert_or_ignore(lanes, ("id",))
_GET: Final = select(fleet_agents).where(fleet_agents.c.agent == bindparam("of"))
_LOCK: Final = _GET.with_for_update()
_WAKE: Final = (
    update(fleet_agents)
    .where(fleet_agents.c.agent == bindparam("of"))
    .values(due_at=bindparam("at"), due_reason=bindparam("why"), wake_seq=fleet_agents.c.wake_seq + 1)
)
_REST: Final = update(fleet_agents).where(fleet_agents.c.agent == bindparam("of")).values(resting=bindparam("rests"))
_TELL: Final = insert_or_ignore(capsule_items, ("kind", "ref"))
_RUN: Final = select(runs.c.agent, runs.c.state).where(runs.c.id == bindparam("of"))
# As an update locks it: rows that only refer to the run, as what its body says, wait for nobody.
_LOCK_RUN: Final = _RUN.with_for_update(key_share=True)
_ANY_OPEN: Final = select(asks.c.id).where(asks.c.run == bindparam("of"), asks.c.state == AskState.OPEN.value).limit(1)
_END_RUN: Final = (
    update(runs)
    .where(runs.c.id == bindparam("of"), runs.c.state == RunState.PARKED.value)
    .values(state=RunState.ENDED.value, ended_at=bindparam("at"), outcome=bindparam("how"))
)
_END_TOKENS: Final = (
    update(agent_tokens)
    .where(agent_tokens.c.run == bindparam("of"), agent_tokens.c.revoked_at.is_(None))
    .values(revoked_at=bindparam("at"))
)


def add(tx: Tx, agent: str, setup: Setup, due_at: int | None, reason: str | None) -> None:
    """Write how a new agent is run, and when it is due first (ms, with why; None: it waits to be woken)."""
    tx.execute(_LANE[tx.dialect], {"id": setup.lane, "opens_at": 0, "closings": 0, "reason": None})
    row = _row(setup) | {"agent": agent, "due_at": due_at, "due_reason": reason, "resting": 0}
    tx.makes_due |= due_at is not None and due_at <= tx.now
    tx.execute(_ADD, row)


def _row(setup: Setup) -> dict[str, Any]:
    return {
        "harness": setup.harness.value,
        "command": json.dumps(list(setup.command), ensure_ascii=False),
        "folder": setup.folder,
        "lane": setup.lane,
        "policy": setup.policy.value,
        "cron": setup.cron,
        "zone": setup.zone,
        "wake_on": setup.wake_on.value,
        "turn_limit": setup.turn_limit,
        "turns_a_day": setup.turns_a_day,
    }


def setup_of(row: Any) -> Setup:
    """Read the setup from a row of `fleet_agents`."""
    return Setup(
        HarnessKind(row.harness),
        tuple(json.loads(row.command)),
        row.folder,
        row.lane,
        WakePolicy(row.policy),
        WakeOn(row.wake_on),
        row.turn_limit,
        row.turns_a_day,
        row.cron,
        row.zone,
    )


def get(tx: Tx, agent: str, *, lock: bool = False) -> Standing | None:
    """Read where a fleet agent stands; None for an agent that no fleet runs."""
    row = tx.execute(_LOCK if lock else _GET, {"of": agent}).one_or_none()
    if row is None:
        return None
    return Standing(
        row.agent,
        setup_of(row),
        row.session,
        bool(row.resting),
        row.due_at,
        row.due_reason,
        row.wake_seq,
        row.idle,
        row.errors,
        row.again,
        row.outcome,
        row.report,
        row.blocked_ask,
        row.settled_at,
    )


def wake(tx: Tx, agent: str, reason: str) -> bool:
    """Make an agent due now, whatever its schedule says; False for one that no fleet runs. One that rests runs when it
    is resumed."""
    tx.makes_due = True
    return tx.execute(_WAKE, {"of": agent, "at": tx.now, "why": reason}).rowcount == 1


def rest(tx: Tx, agent: str, rests: bool) -> None:
    """Let no tick start an agent, or let it again."""
    tx.execute(_REST, {"of": agent, "rests": int(rests)})


def tell(tx: Tx, agent: str, kind: CapsuleItem, ref: str, depth: int = 0) -> None:
    """Put something into an agent's next capsule, once. `depth`: how long the chain of messages is that led to it."""
    row: Mapping[str, Any] = {"agent": agent, "kind": kind.value, "ref": ref, "depth": depth, "at": tx.now, "run": None}
    tx.execute(_TELL[tx.dialect], dict(row))


def ask_ended(tx: Tx, ask: str, run: str, reason: str) -> None:
    """Tell the agent of a run that an ask of it ended, wake it by its setting, and let the run go when nothing of it is
    open any more and it has no body. In the transaction that ends the ask."""
    found = tx.execute(_RUN, {"of": run}).one_or_none()
    if found is None:
        return
    # The agent's row first: of two answers at one instant, the later one sees the earlier.
    standing = get(tx, found.agent, lock=True)
    locked = tx.execute(_LOCK_RUN, {"of": run}).one()
    is_last = tx.execute(_ANY_OPEN, {"of": run}).one_or_none() is None
    if is_last and locked.state == RunState.PARKED.value:
        tx.execute(_END_RUN, {"of": run, "at": tx.now, "how": reason})
        tx.execute(_END_TOKENS, {"of": run, "at": tx.now})
    if standing is None:
        return
    tell(tx, found.agent, CapsuleItem.ASK, ask)
    # Only an answer may have to wait for its siblings'.
    if reason != "answer" or standing.setup.wake_on is WakeOn.ANY or is_last:
        wake(tx, found.agent, reason)
