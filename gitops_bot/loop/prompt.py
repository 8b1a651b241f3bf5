"""What an agent is told in a turn: goal, segment, scores, steers, and last the contract, from the grammar's own tables.

Pure. Steers and the goal are a person's words; nothing here is read back as a marker.
"""

from collections.abc import Sequence
from typing import Final

from gitops_bot.loop.grammar import (
    CANDIDATE_FILE,
    ESCALATION_FILE,
    MARKER_FIELDS,
    MARKER_FILE,
    MODES,
)
from gitops_bot.loop.vocabulary import State

MAX_ROWS: Final = 20


def contract() -> str:
    """Write what the loop reads after a turn."""
    fields = "\n".join(f'  "{name}": {meaning}' for name, meaning in MARKER_FIELDS.items())
    modes = "\n".join(f"  {mode.value}: {meaning}" for mode, meaning in MODES.items())
    return f"""## Contract

Work in this folder only. When this turn leaves an attempt to be measured, describe it in {CANDIDATE_FILE}. The judge
measures the folder after your turn; what is not better is rolled back, and so is everything that was not measured.

When the regime you need is out of reach, a person has to grant it:
1. Request it: the tool `request_trace`, or the command `gitops-bot capture request` (see its --help). Keep the handle.
2. Write {MARKER_FILE} in this folder, one JSON object:
{fields}
  Modes:
{modes}
3. End your turn. Do not poll and do not wait: you are called again when there is something to do.

When you cannot go on without a person for another reason, write {ESCALATION_FILE}: an object with "category", "reason"
and "evidence". That ends the run.
"""


def prompt(state: State, rows: Sequence[tuple[int, str, float | None]], steers: Sequence[str], why: str) -> str:
    """Write one turn's prompt. `rows` are (iteration, decision, score) of the present segment, oldest first; `why` says
    what happened since the last turn, or is empty."""
    scores = "\n".join(
        f"- iteration {iteration}: {decision}{'' if score is None else f', score {score:g}'}"
        for iteration, decision, score in rows[-MAX_ROWS:]
    )
    said = "\n".join(f"- {line}" for text in steers for line in text.splitlines())
    waiting = ", ".join(ask.trace_id for ask in state.asks)
    parts = [
        f"# Goal\n\n{state.goal}\n",
        f"# Segment\n\nregime: {state.regime}\nfingerprint: {state.fingerprint}\nbetter is: {state.direction.value}\n"
        f"iteration: {state.iteration} of {state.max_iterations}\n",
        f"# Scores\n\nbaseline: {_score(state.baseline)}\nbest: {_score(state.best)}\n{scores}\n",
    ]
    if why:
        parts.append(f"# Since the last turn\n\n{why}\n")
    if waiting:
        parts.append(f"# Waiting for a person\n\n{waiting}\n")
    if said:
        parts.append(f"# Steers from the operator\n\n{said}\n")
    return "\n".join([*parts, contract()])


def _score(score: float | None) -> str:
    return "none" if score is None else f"{score:g}"
