"""How the last run died, and everything that a resume needs, from the session log alone (protocols/loop.md).

Pure: lines become one `Past`. Kinds and members that are unknown or of another type are passed over. What the admission
ledger still holds is armed again by `loop/control/steering`, which compares with the keys found here.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from gitops_bot.loop.grammar import Escalation, Mode
from gitops_bot.loop.machine import needs_info
from gitops_bot.loop.segments import FIRST_REGIME
from gitops_bot.loop.vocabulary import Ending, OpenAsk

Record = Mapping[str, object]
MAX_NUMBER: Final = 1e300


class Death(StrEnum):
    """How a run ended."""

    CLEAN_EXIT = "clean_exit"
    IN_BASELINE = "died_in_baseline"
    MID_TURN = "died_mid_turn"
    DECIDING = "died_deciding"
    AWAITING_APPROVAL = "died_awaiting_approval"
    BETWEEN_ITERATIONS = "died_between_iterations"


@dataclass(slots=True)
class Past:
    """What a session log says. `waited` are seconds an ask was waited for; `ungranted` are asks that a segment resolved
    but whose `approval_resolved` is missing, with the rescope's key; `owed` an escalation that is missing."""

    iteration: int = 0
    regime: str = FIRST_REGIME
    baseline: float | None = None
    best: float | None = None
    improved: bool = False
    kept: str | None = None
    spent: float = 0.0
    elapsed: float = 0.0
    judged_by: Record = field(default_factory=dict)
    asks: dict[str, OpenAsk] = field(default_factory=dict)
    waited: dict[str, float] = field(default_factory=dict)
    rows: list[tuple[int, str, float | None]] = field(default_factory=list)
    applied: set[str] = field(default_factory=set)
    announced: set[str] = field(default_factory=set)
    ungranted: list[tuple[OpenAsk, str | None]] = field(default_factory=list)
    owed: Escalation | None = None
    death: Death = Death.IN_BASELINE
    turn: int = 0
    _asked_in_turn: bool = False

    def fold(self, record: Record) -> None:
        """Take one line in."""
        match record.get("kind"):
            case "identity":
                identity = record.get("identity")
                self.judged_by = self.judged_by or (identity if isinstance(identity, dict) else {})
            case "phase":
                if record.get("phase") == "baseline":
                    self.death = Death.IN_BASELINE
            case "segment":
                self._segment(record)
            case "agent_start":
                self.turn, self._asked_in_turn = int(_number(record.get("iter")) or 0), False
                self.death, self.owed = Death.MID_TURN, None
            case "agent_done":
                self.death = Death.DECIDING
            case "row":
                self._row(record.get("row"))
            case "budget":
                self.spent = _number(record.get("spent")) or self.spent
                self.elapsed = _number(record.get("elapsed_secs")) or self.elapsed
                self._waits(record.get("waited"))
            case "approval_wait":
                self._wait(record)
            case "parked":
                self.waited[_text(record, "trace_id")] = _number(record.get("waited_secs")) or 0.0
            case "approval_claimed":
                self.announced.add(_text(record, "key"))
            case "approval_resolved":
                self._resolved(record)
            case "escalation":
                self.owed = None
            case "shutdown":
                self.death = Death.CLEAN_EXIT
            case "recovery":
                self._close_turn()
                self.death = Death.IN_BASELINE if self.baseline is None else Death.BETWEEN_ITERATIONS

    def _waits(self, waited: object) -> None:
        for trace_id, seconds in waited.items() if isinstance(waited, dict) else ():
            if trace_id in self.asks:
                self.waited[trace_id] = _number(seconds) or 0.0

    def _segment(self, record: Record) -> None:
        self.regime = _text(record, "regime") or self.regime
        self.baseline = self.best = _number(record.get("baseline_score"))
        self.rows = []
        self.death = Death.BETWEEN_ITERATIONS
        key = _text(record, "key") or None
        if key:
            self.applied.add(key)
        self.kept = _text(record, "kept_snap") or self.kept
        resolves = record.get("resolves")
        for trace_id in resolves if isinstance(resolves, list) else []:
            if isinstance(trace_id, str) and (ask := self.asks.pop(trace_id, None)):
                self.ungranted.append((ask, key))

    def _row(self, row: object) -> None:
        if not isinstance(row, dict):
            return
        self.iteration = int(_number(row.get("iter")) or self.iteration)
        score, decision = _number(row.get("score")), _text(row, "decision")
        self.rows.append((self.iteration, decision, score))
        self.death = Death.BETWEEN_ITERATIONS
        if decision == "keep":
            self.best, self.improved = score, True
            self.kept = _text(row, "kept_snap") or self.kept

    def _wait(self, record: Record) -> None:
        trace_id = _text(record, "trace_id")
        mode = Mode.BLOCK if record.get("mode") == Mode.BLOCK.value else Mode.CONTINUE
        self.asks[trace_id] = OpenAsk(trace_id, _text(record, "handle"), mode)
        self._asked_in_turn = True

    def _resolved(self, record: Record) -> None:
        trace_id, outcome = _text(record, "trace_id"), record.get("outcome")
        ask = self.asks.pop(trace_id, None)
        self.waited.pop(trace_id, None)
        self.ungranted = [(other, key) for other, key in self.ungranted if other.trace_id != trace_id]
        if key := _text(record, "key"):
            self.applied.add(key)
        if ask is not None and ask.mode is Mode.BLOCK and outcome in (Ending.DENIED.value, Ending.TIMEOUT.value):
            self.owed = needs_info(trace_id, ask.handle, Ending(str(outcome)), _text(record, "reason"))

    def _close_turn(self) -> None:
        if self._asked_in_turn and self.death is Death.DECIDING:
            self.iteration = max(self.iteration, self.turn)  # the ask was logged, only the row is missing
            self.death = Death.BETWEEN_ITERATIONS

    def finish(self) -> "Past":
        """Classify the death, once every line is in."""
        self._close_turn()
        blocked = any(ask.mode is Mode.BLOCK for ask in self.asks.values())
        if blocked and self.death is Death.BETWEEN_ITERATIONS:
            self.death = Death.AWAITING_APPROVAL
        return self


def read_past(records: Iterable[Record]) -> Past:
    """Read how the last run died, and where it was."""
    past = Past()
    for record in records:
        past.fold(record)
    return past.finish()


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not -MAX_NUMBER < value < MAX_NUMBER:
        return None  # NaN compares false
    return float(value)


def _text(record: Record, name: str) -> str:
    value = record.get(name)
    return value if isinstance(value, str) else ""
