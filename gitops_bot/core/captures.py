"""What is measured has one name: a regime and its trace id say the same, and a slug is safe in a branch or path."""

import hashlib
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NewType

from gitops_bot.core.errors import Malformed

TraceId = NewType("TraceId", str)

_SEGMENT: Final = r"(?!\.{1,2}(?:[/;]))[A-Za-z0-9_][A-Za-z0-9._-]{0,63}"
_NUMBER: Final = r"(?:0|[1-9][0-9]{0,6})"
TRACE_ID: Final = re.compile(
    rf"model=(?P<model>{_SEGMENT}(?:/{_SEGMENT}){{0,3}})"
    rf";c=(?P<c>{_NUMBER});p=(?P<p>{_NUMBER});mt=(?P<mt>{_NUMBER});lt=(?P<lt>{_NUMBER})"
    r";lf=(?P<lf>[0-9]{1,3}\.[0-9]{4})",
    re.ASCII,
)
MAX_TRACE_ID: Final = 4 * 64 + 3 + len("model=;c=;p=;mt=;lt=;lf=") + 4 * 7 + 8


class CaptureState(StrEnum):
    """States of a capture; `broker/machine.py` has the only transition table."""

    REQUESTED = "REQUESTED"
    APPROVED = "APPROVED"
    SUBMITTED = "SUBMITTED"
    RUNNING = "RUNNING"
    READY = "READY"
    RESCOPED = "RESCOPED"
    DENIED = "DENIED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


CHECK_STATE: Final = {
    CaptureState.REQUESTED: "pending",
    CaptureState.APPROVED: "approved",
    CaptureState.SUBMITTED: "running",
    CaptureState.RUNNING: "running",
    CaptureState.READY: "ready",
    CaptureState.RESCOPED: "ready",
    CaptureState.DENIED: "denied",
    CaptureState.FAILED: "error",
    CaptureState.CANCELLED: "error",
}
"""What `check_capture` and `GET /captures/ID` call each state (design/interfaces.md)."""


@dataclass(frozen=True, slots=True)
class Regime:
    """What the judge measures under: counts are requests, prefixes and tokens; `long_frac` is `D.DDDD` as a string."""

    model: str
    concurrency: int
    prefixes: int
    max_tokens: int
    long_tokens: int
    long_frac: str

    @property
    def trace_id(self) -> TraceId:
        """The regime's name."""
        return TraceId(
            f"model={self.model};c={self.concurrency};p={self.prefixes};mt={self.max_tokens}"
            f";lt={self.long_tokens};lf={self.long_frac}"
        )

    def params(self) -> dict[str, str | int]:
        """Give the regime as an action's parameters (no float in it)."""
        return {
            "model": self.model,
            "concurrency": self.concurrency,
            "prefixes": self.prefixes,
            "max_tokens": self.max_tokens,
            "long_tokens": self.long_tokens,
            "long_frac": self.long_frac,
        }


def parse_trace_id(text: str) -> Regime:
    """Read a trace id by full match.

    Raises:
        Malformed: anything but the one spelling.
    """
    found = TRACE_ID.fullmatch(text) if len(text) <= MAX_TRACE_ID else None
    if found is None:
        raise Malformed("no trace id; it looks like model=ORG/NAME;c=N;p=N;mt=N;lt=N;lf=F", where="trace_id")
    numbers = {key: int(found[key]) for key in ("c", "p", "mt", "lt")}
    return Regime(found["model"], numbers["c"], numbers["p"], numbers["mt"], numbers["lt"], found["lf"])


def regime(
    model: object,
    concurrency: object,
    prefixes: object,
    max_tokens: object,
    long_tokens: object,
    long_frac: object,
) -> Regime:
    """Check the six parts of a regime as JSON has them; `long_frac` may be a number or its string.

    A number is written as C's `%.4f` writes its double, so that every implementation agrees (vectors/loop.json).

    Raises:
        Malformed: a part of another type or outside what a trace id can name.
    """
    counts = (concurrency, prefixes, max_tokens, long_tokens)
    if not isinstance(model, str):
        raise Malformed("model must be a string", where="regime")
    for name, count in zip(("concurrency", "prefixes", "max_tokens", "long_tokens"), counts, strict=True):
        if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= 9_999_999:
            raise Malformed(f"{name} must be an integer from 0 to 9999999", where="regime")
    if isinstance(long_frac, bool) or not isinstance(long_frac, int | float | str):
        raise Malformed("long_frac must be a number", where="regime")
    if isinstance(long_frac, str):
        fraction = long_frac
    else:
        if not 0 <= long_frac < 1000:  # also refuses NaN: every comparison with it is false
            raise Malformed("long_frac must be from 0 up to 1000", where="regime")
        fraction = f"{long_frac:.4f}"
    concurrency_, prefixes_, max_tokens_, long_tokens_ = (int(str(count)) for count in counts)
    return parse_trace_id(Regime(model, concurrency_, prefixes_, max_tokens_, long_tokens_, fraction).trace_id)


def slug(trace_id: TraceId) -> str:
    """Name a trace id in a branch or path: lower-case model name, `-`, 16 hex digits of the trace id's SHA-256."""
    model = parse_trace_id(trace_id).model.rsplit("/", 1)[-1].lower()
    name = re.sub(r"[^a-z0-9-]+", "-", model).strip("-")[:40].strip("-") or "model"
    return f"{name}-{hashlib.sha256(trace_id.encode('ascii')).hexdigest()[:16]}"
