"""What an agent's turn and a judge leave as bytes, read strictly (protocols/loop.md).

Pure. The tables at the top are also the source of the contract that the prompt ends with, so an agent is told exactly
what is read. Taking the files safely is `loop/markers`; what follows from them is `loop/machine`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gitops_bot.bridge.grammar import read_json
from gitops_bot.core.captures import TraceId, regime
from gitops_bot.core.errors import Malformed

MAX_MARKER: Final = 64 * 1024
MAX_HANDLE: Final = 512
MAX_CATEGORY: Final = 64
MAX_REASON: Final = 4096
MARKER_FILE: Final = "PROVISIONING_PENDING.json"
ESCALATION_FILE: Final = "ESCALATION.json"
CANDIDATE_FILE: Final = "CANDIDATE.md"

REGIME_FIELDS: Final = ("model", "concurrency", "prefixes", "max_tokens", "long_tokens", "long_frac")
MARKER_FIELDS: Final[Mapping[str, str]] = {
    "trace_id": "the name of the regime, in the one spelling model=ORG/NAME;c=N;p=N;mt=N;lt=N;lf=0.0000",
    "regime": f"the same as an object: {', '.join(REGIME_FIELDS)}",
    "handle": "what the request gave you: a capture id or the address of a pull request",
    "mode": "block or continue; without it, a measured CANDIDATE.md means continue and a bare ask means block",
}


class Mode(StrEnum):
    """What an open ask does to the loop."""

    BLOCK = "block"
    CONTINUE = "continue"


MODES: Final[Mapping[Mode, str]] = {
    Mode.BLOCK: "nothing useful is left to do in this regime: park until the answer",
    Mode.CONTINUE: "keep iterating in this regime; the new one lands when it comes",
}


@dataclass(frozen=True, slots=True)
class Marker:
    """A turn's request for a regime that is out of reach; `mode` is None where the marker left it open."""

    trace_id: TraceId
    handle: str
    mode: Mode | None


@dataclass(frozen=True, slots=True)
class Escalation:
    """Why a run cannot go on without a person."""

    category: str
    reason: str
    evidence: str = ""


@dataclass(frozen=True, slots=True)
class Measurement:
    """What the judge printed."""

    score: float
    solved: bool = False


def parse_marker(raw: bytes) -> Marker:
    """Read `PROVISIONING_PENDING.json`.

    Raises:
        Malformed: not one object, a part of another type, or a trace id that does not say what the regime says.
    """
    value = _object(raw, MARKER_FILE)
    parts = value.get("regime")
    if not isinstance(parts, dict):
        raise Malformed("regime must be an object", where=MARKER_FILE)
    named = regime(*(parts.get(field) for field in REGIME_FIELDS))
    if value.get("trace_id") != named.trace_id:
        raise Malformed("trace_id and regime do not say the same", where=MARKER_FILE)
    handle = value.get("handle")
    if not isinstance(handle, str) or not 1 <= len(handle) <= MAX_HANDLE or not handle.isprintable():
        raise Malformed(f"handle must be 1 to {MAX_HANDLE} printable characters", where=MARKER_FILE)
    mode = value.get("mode")
    if mode is None:
        return Marker(named.trace_id, handle, None)
    if not isinstance(mode, str) or mode not in tuple(Mode):
        raise Malformed("mode must be block or continue", where=MARKER_FILE)
    return Marker(named.trace_id, handle, Mode(mode))


def parse_escalation(raw: bytes) -> Escalation:
    """Read an agent's own `ESCALATION.json`; texts are cut, never refused for their length.

    Raises:
        Malformed: not one object, or no reason in it.
    """
    value = _object(raw, ESCALATION_FILE)
    reason, category, evidence = (value.get(name) for name in ("reason", "category", "evidence"))
    if not isinstance(reason, str) or not reason.strip():
        raise Malformed("an escalation needs a reason", where=ESCALATION_FILE)
    return Escalation(
        category=category[:MAX_CATEGORY] if isinstance(category, str) and category.strip() else "unspecified",
        reason=reason.strip()[:MAX_REASON],
        evidence=evidence[:MAX_REASON] if isinstance(evidence, str) else "",
    )


def parse_measurement(raw: bytes) -> Measurement:
    """Read a judge's standard output: one JSON object with a finite `score` and, optionally, `solved`.

    Raises:
        Malformed: anything else.
    """
    value = _object(raw.strip(), "judge")
    score = value.get("score")
    if isinstance(score, bool) or not isinstance(score, int | float):
        raise Malformed("score must be a finite number", where="judge")
    return Measurement(float(score), value.get("solved") is True)


def _object(raw: bytes, where: str) -> Mapping[str, object]:
    if len(raw) > MAX_MARKER:
        raise Malformed(f"larger than {MAX_MARKER} bytes", where=where)
    try:
        value = read_json(raw)
    except Malformed as error:
        raise Malformed(error.message, where=where) from error
    if not isinstance(value, dict):
        raise Malformed("must be one JSON object", where=where)
    return value
