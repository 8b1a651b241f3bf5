"""What stands still while an ask is open, in words of ours, and whether it badges.

Only an agent whose status needs a person badges (I8): one that goes on meanwhile, is paused or retired does not, though
its ask is in the inbox all the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gitops_bot.core.asks import AskKind
from gitops_bot.core.status import NEEDS_PERSON, AgentFacts, status
from gitops_bot.store.inbox import Open, Waits
from gitops_bot.store.states import AgentState, RunState, WaiterKind

NOTHING: Final = "nothing waits for it"
GOES_ON: Final = "the agent goes on meanwhile"
_ASKERS: Final = {
    WaiterKind.REQUEST: "whoever asked waits",
    WaiterKind.TASK: "a task waits",
    WaiterKind.CALL: "a call waits",
}


@dataclass(frozen=True, slots=True)
class Blocked:
    """What an open ask holds up. `stands`: something stands still until it ends."""

    words: str
    stands: bool


def blocked(waits: Sequence[Waits], run: RunState) -> Blocked:
    """Say what an ask holds up, from who waits for it and the state of the run that asked."""
    still = [words for one in waits if (words := _still(one)) is not None]
    if still:
        return Blocked(_joined(still), stands=True)
    loops = sorted({one.loop for one in waits if one.kind is WaiterKind.CAPTURE and one.loop is not None})
    if loops:
        return Blocked(f"loop {loops[0]} goes on in its frozen regime", stands=False)
    if run is RunState.LIVE:
        return Blocked(GOES_ON, stands=False)
    return Blocked(NOTHING, stands=True)


def _still(one: Waits) -> str | None:
    match one.kind:
        case WaiterKind.RUN:
            return "the agent waits" if one.run_state is RunState.PARKED else None
        case WaiterKind.CAPTURE:
            if one.mode == "continue":
                return None
            return "a capture waits" if one.loop is None else f"loop {one.loop} is parked"
        case other:
            return _ASKERS[other]


def _joined(words: Sequence[str]) -> str:
    told = list(dict.fromkeys(words))
    return told[0] if len(told) == 1 else f"{told[0]}, and {len(told) - 1} more"


def shown(one: Open, found: Blocked) -> str:
    """Say in the inbox what an ask holds up: of an agent that people stopped, that they did."""
    if one.agent_state in (AgentState.PAUSED, AgentState.RETIRED, AgentState.DRAFT):
        return f"the agent is {'a draft' if one.agent_state is AgentState.DRAFT else one.agent_state.value}"
    return found.words


def badges(one: Open, found: Blocked) -> bool:
    """Tell whether an open ask that somebody needs to see makes its agent one that needs a person (I8)."""
    gated = one.ask.kind is AskKind.GATED
    facts = AgentFacts(
        retired=one.agent_state is AgentState.RETIRED,
        draft=one.agent_state is AgentState.DRAFT,
        paused=one.agent_state is AgentState.PAUSED,
        live_run=not found.stands,
        answerable_asks=0 if gated else 1,
        gated_asks=1 if gated else 0,
    )
    return status(facts) in NEEDS_PERSON
