"""The whole vocabulary between the loop's machine and its driver: the state, what can be seen, what can be ordered.

Values only. `loop/machine` gives them their meaning, `loop/driver` their effects.
"""

from dataclasses import dataclass
from enum import StrEnum

from gitops_bot.loop.grammar import Escalation, Marker, Measurement, Mode
from gitops_bot.loop.segments import FIRST_REGIME, fingerprint


class Direction(StrEnum):
    """Which scores are better."""

    MIN = "min"
    MAX = "max"

    def better(self, score: float, than: float) -> bool:
        """Tell whether a score beats another; equal does not."""
        return score < than if self is Direction.MIN else score > than


class Ending(StrEnum):
    """How an ask ended, as `approval_resolved` says it."""

    GRANTED = "granted"
    DENIED = "denied"
    TIMEOUT = "timeout"


@dataclass(frozen=True, slots=True)
class OpenAsk:
    """An ask that this loop waits for; one per trace id."""

    trace_id: str
    handle: str
    mode: Mode


@dataclass(frozen=True, slots=True)
class State:
    """Where the loop is. `taken` is a marker whose mode waits for the judge; `owed` an escalation decided
    and not yet made."""

    goal: str
    direction: Direction
    max_iterations: int
    surface: bool
    iteration: int = 0
    regime: str = FIRST_REGIME
    baseline: float | None = None
    best: float | None = None
    improved: bool = False
    failed_turns: int = 0
    asks: tuple[OpenAsk, ...] = ()
    taken: Marker | None = None
    owed: Escalation | None = None

    @property
    def fingerprint(self) -> str:
        """The name of the present segment."""
        return fingerprint(self.goal, self.direction.value, self.regime)

    @property
    def blocking(self) -> OpenAsk | None:
        """The ask that parks the loop."""
        return next((ask for ask in self.asks if ask.mode is Mode.BLOCK), None)


@dataclass(frozen=True, slots=True)
class Rescope:
    """An armed rescope."""

    key: str
    regime: str


@dataclass(frozen=True, slots=True)
class Denial:
    """An armed deny; without a trace id it means the ask that blocks, else every open one."""

    key: str
    reason: str
    trace_id: str | None = None


# ---- events


@dataclass(frozen=True, slots=True)
class Head:
    """The iteration head, or a look while parked or paused: what is armed, and what ran out."""

    paused: bool = False
    rescope: Rescope | None = None
    denial: Denial | None = None
    stop: str | None = None
    overdue: tuple[str, ...] = ()
    exceeded: str | None = None


@dataclass(frozen=True, slots=True)
class Baselined:
    """The baseline of a regime was measured; None when it failed. `rescope` is what led to it."""

    measurement: Measurement | None
    rescope: Rescope | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """An agent's turn is over and its files are taken."""

    failed: str | None = None
    escalation: Escalation | None = None
    marker: Marker | None = None
    candidate: bool = False


@dataclass(frozen=True, slots=True)
class Judged:
    """The turn's work was measured; None when the judge gave no score."""

    measurement: Measurement | None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Tampered:
    """The judge or the rig is no longer what it was at start."""

    what: str


Event = Head | Baselined | TurnEnded | Judged | Tampered

# ---- commands


@dataclass(frozen=True, slots=True)
class Note:
    """Log a note."""

    msg: str


@dataclass(frozen=True, slots=True)
class Hold:
    """Wait, paused."""


@dataclass(frozen=True, slots=True)
class Park:
    """Wait, parked on an ask; both budgets stand still."""

    ask: OpenAsk


@dataclass(frozen=True, slots=True)
class Rebaseline:
    """Take the rescope from its slot, restore the best, run the rig and measure at its regime."""

    rescope: Rescope


@dataclass(frozen=True, slots=True)
class DropDenial:
    """Take the denial from its slot."""

    key: str


@dataclass(frozen=True, slots=True)
class OpenSegment:
    """Log a segment; `key` and `resolves` let a resume see that its rescope was applied."""

    fingerprint: str
    baseline_score: float
    regime: str
    key: str | None = None
    resolves: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Wait:
    """Log an ask that the loop waits for from now on, and make it approvable on the bridge."""

    ask: OpenAsk


@dataclass(frozen=True, slots=True)
class Resolve:
    """Log how an ask ended and take it off the bridge."""

    ask: OpenAsk
    ending: Ending
    reason: str
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Settle:
    """Settle an admission."""

    key: str
    applied: bool
    note: str = ""


@dataclass(frozen=True, slots=True)
class Escalate:
    """Write `ESCALATION.json` and log it."""

    escalation: Escalation


@dataclass(frozen=True, slots=True)
class RunTurn:
    """Run the agent's turn."""

    iteration: int


@dataclass(frozen=True, slots=True)
class Measure:
    """Run the judge on what the turn left."""


@dataclass(frozen=True, slots=True)
class Row:
    """Log a row; `keep` snapshots the workspace first, otherwise the best is restored."""

    iteration: int
    decision: str
    score: float | None
    keep: bool
    solved: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True)
class Finish:
    """End the run. Outcomes: finished, solved, budget, stopped, escalated, error."""

    outcome: str
    reason: str


Command = (
    Note
    | Hold
    | Park
    | Rebaseline
    | DropDenial
    | OpenSegment
    | Wait
    | Resolve
    | Settle
    | Escalate
    | RunTurn
    | Measure
    | Row
    | Finish
)
Step = tuple[State, tuple[Command, ...]]
