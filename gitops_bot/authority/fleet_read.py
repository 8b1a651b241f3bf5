"""What the status of a fleet agent is derived from, and what it waits for in words; nothing is stored for it.

What people set, a live run and open asks come before all of this in the table of `core.status`; they are added by who
reads them (`authority.agents_read`).
"""

from collections.abc import Mapping, Sequence
from typing import Final

from gitops_bot.core.asks import AskState
from gitops_bot.core.status import AgentFacts, AgentStatus
from gitops_bot.store.agents import Agent
from gitops_bot.store.engine import Tx
from gitops_bot.store.fleet_rows import FleetRow, rows_of
from gitops_bot.store.states import WakePolicy

BLOCKED: Final = "BLOCKED"
_RESOURCE: Final = frozenset({"lane", "budget"})
_NO_ANSWER: Final = frozenset({AskState.EXPIRED, AskState.WITHDRAWN, AskState.SUPERSEDED})
_SOON: Final = {
    "schedule": "Waits for its schedule.",
    "idle": "Found nothing to do; looks again after a while.",
    "soon": "Goes on in a moment.",
}


def facts_of(tx: Tx, agents: Sequence[Agent]) -> Mapping[str, AgentFacts]:
    """Derive the facts of some agents from when and why each is due, by id; those that no fleet runs are left out."""
    return {agent: facts(row, tx.now) for agent, row in rows_of(tx, [one.id for one in agents]).items()}


def facts(row: FleetRow, now: int) -> AgentFacts:
    """Derive the facts of one agent at a time (ms)."""
    is_due = row.due_at is not None and row.due_at <= now
    ahead = row.due_reason if row.due_at is not None and not is_due else None
    return AgentFacts(
        blocked_without_answer=_is_blocked(row),
        lane_closed=ahead in _RESOURCE or (is_due and row.lane_opens_at > now),
        backing_off=ahead == "retry",
        due=is_due,
        scheduled=ahead is not None and ahead not in _RESOURCE and ahead != "retry",
        waits_for_event=row.due_at is None and row.policy is WakePolicy.EVENT,
    )


def _is_blocked(row: FleetRow) -> bool:
    """Tell whether an agent said that it is blocked, and nobody answered or will: its ask ended without a verdict, or
    none could be opened and nothing has woken it since."""
    if row.outcome != BLOCKED:
        return False
    if row.blocked_ask is not None:
        return row.blocked_state in _NO_ANSWER
    return row.due_at is None


def waiting(row: FleetRow, found: AgentStatus) -> str | None:
    """Say in one sentence what an agent that nobody holds up waits for; None for any other status."""
    match found:
        case AgentStatus.BLOCKED:
            return "Said that it is blocked, and nobody has answered; write to it to wake it."
        case AgentStatus.WAITING_RESOURCE:
            return "Has had its turns of a day." if row.due_reason == "budget" else f"Waits until {row.lane} opens."
        case AgentStatus.BACKING_OFF:
            return f"Its last turn failed ({row.errors} in a row); it is tried again."
        case AgentStatus.DUE:
            return "Is due, and starts when its lane has a place."
        case AgentStatus.SCHEDULED:
            return _SOON.get(row.due_reason or "", "Waits for its time.")
        case AgentStatus.WAITING_EVENT:
            return "Waits for a message, an answer or an event."
        case AgentStatus.MANUAL:
            return "Runs when somebody wakes it."
        case _:
            return None
