"""Captures as people see them: state as `check_capture` gives it, pull request, who waits, scores by segment to plot.

Segments are what loops said in their logs, as the ledger keeps it: believed about the loop itself and nothing else.
What does not read as what it should be is left out.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from gitops_bot.authority.card_effects import effects_of_capture
from gitops_bot.authority.card_values import is_web, plain
from gitops_bot.authority.shown import AgentText, EffectShown
from gitops_bot.core.asks import AskId
from gitops_bot.core.captures import CHECK_STATE, parse_trace_id
from gitops_bot.core.errors import Malformed
from gitops_bot.core.ledger import EventKind
from gitops_bot.core.texts import storable
from gitops_bot.store import agents, captures, ledger_pages, page_rows
from gitops_bot.store.captures import Capture, Seat
from gitops_bot.store.engine import Tx
from gitops_bot.store.inbox import FIRST
from gitops_bot.store.ledger_pages import LedgerEntry

MOST: Final = 100
MOST_SEATS: Final = 50
MOST_LINES: Final = 500
"""Segments and scores together, the newest."""
LOOKED_BACK: Final = 20_000
"""They are looked for among so many entries of the ledger, the newest."""
FIRST_REGIME: Final = "default"
_FINGERPRINT: Final = re.compile(r"[0-9a-zA-Z:_-]{1,128}", re.ASCII)


@dataclass(frozen=True, slots=True)
class CaptureRow:
    """A capture in a list. `state` as `check_capture` calls it, `exact` as the rows do; `url` only of the web."""

    id: str
    trace_id: str
    state: str
    exact: str
    environment: str
    agent: str
    ask: AskId | None
    requester: str
    why: AgentText
    url: str | None
    pull_request: int | None
    attempt: int
    digest: str | None
    error: AgentText | None
    created_at: int
    updated_at: int
    ready_at: int | None


@dataclass(frozen=True, slots=True)
class SeatShown:
    """A loop's seat at a capture."""

    loop: str
    run_version: int
    mode: str
    state: str


@dataclass(frozen=True, slots=True)
class Scored:
    """What a loop's judge gave in one turn; `kept` says that the loop kept what it had tried."""

    score: float
    kept: bool


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of a loop's scores that may be compared: since when, in which regime, its baseline, what followed."""

    at: int
    loop: str
    fingerprint: str
    regime: str | None
    baseline_score: float | None
    scores: tuple[Scored, ...] = ()


@dataclass(frozen=True, slots=True)
class CaptureShown:
    """One capture whole. `segments` are of the loops that sit at it, oldest first; `knobs` as measured."""

    row: CaptureRow
    regime: tuple[tuple[str, str], ...]
    knobs: tuple[tuple[str, AgentText], ...]
    seats: tuple[SeatShown, ...]
    segments: tuple[Segment, ...]
    effects: tuple[EffectShown, ...]


@dataclass(frozen=True, slots=True)
class CapturesPage:
    """Captures, newest first, and the cursor of the next page (None at the end)."""

    rows: tuple[CaptureRow, ...]
    next: str | None


def captures_page(tx: Tx, before: str | None, limit: int) -> CapturesPage:
    """Read captures below an id, newest first."""
    wanted = min(max(1, limit), MOST)
    found = page_rows.captures_before(tx, FIRST if before is None else storable(before), wanted)
    rows = tuple(_row(capture, slug) for capture, slug in found)
    return CapturesPage(rows, rows[-1].id if len(rows) == wanted else None)


def capture_shown(tx: Tx, capture_id: str) -> CaptureShown | None:
    """Read one capture whole; None where there is none."""
    capture = captures.get(tx, capture_id)
    if capture is None:
        return None
    agent = agents.get(tx, capture.agent)
    seats = captures.seats(tx, capture.id)[:MOST_SEATS]
    knobs = sorted((capture.knobs or {}).items())
    return CaptureShown(
        row=_row(capture, "" if agent is None else agent.slug),
        regime=tuple((name, str(value)) for name, value in capture.regime.params().items()),
        knobs=tuple((plain(name), AgentText(value, "the capture program")) for name, value in knobs),
        seats=tuple(SeatShown(seat.loop, seat.run_version, seat.mode, seat.state.value) for seat in seats),
        segments=_segments(tx, capture, seats),
        effects=effects_of_capture(tx, capture),
    )


def _row(capture: Capture, slug: str) -> CaptureRow:
    return CaptureRow(
        id=capture.id,
        trace_id=capture.trace_id,
        state=CHECK_STATE[capture.state],
        exact=capture.state.value,
        environment=capture.environment,
        agent=slug,
        ask=None if capture.ask is None else AskId(capture.ask),
        requester=capture.requester,
        why=AgentText(capture.why, slug),
        url=capture.url if capture.url is not None and is_web(capture.url) else None,
        pull_request=capture.pull_request,
        attempt=capture.attempt,
        digest=None if capture.digest is None else plain(capture.digest),
        error=AgentText(capture.error, "the capture program") if capture.error else None,
        created_at=capture.created_at,
        updated_at=capture.updated_at,
        ready_at=capture.ready_at,
    )


def _segments(tx: Tx, capture: Capture, seats: Sequence[Seat]) -> tuple[Segment, ...]:
    runs = {capture.run, *(seat.run for seat in seats)}
    kinds = (EventKind.LOOP_SEGMENT.value, EventKind.LOOP_SCORED.value)
    found = ledger_pages.recent(tx, kinds, MOST_LINES, looked=LOOKED_BACK, runs=runs)
    segments: list[Segment] = []
    scores: list[list[Scored]] = []
    open_of: dict[str, int] = {}
    for entry in reversed(found):
        if entry.kind == kinds[0]:
            segment = _segment(entry)
            if segment is not None:
                open_of[segment.loop] = len(segments)
                segments.append(segment)
                scores.append([])
            continue
        place, score = open_of.get(plain(str(entry.facts.get("loop")))), _score(entry.facts.get("score"))
        if place is not None and score is not None:
            scores[place].append(Scored(score, entry.facts.get("kept") == "yes"))
    return tuple(replace(one, scores=tuple(given)) for one, given in zip(segments, scores, strict=True))


def _segment(entry: LedgerEntry) -> Segment | None:
    loop, fingerprint = entry.facts.get("loop"), entry.facts.get("fingerprint")
    if not isinstance(loop, str) or not isinstance(fingerprint, str) or not _FINGERPRINT.fullmatch(fingerprint):
        return None
    regime, score = entry.facts.get("regime"), entry.facts.get("baseline_score")
    return Segment(entry.at, plain(loop), fingerprint, _regime(regime), _score(score))


def _regime(text: object) -> str | None:
    """The trace id of a regime, written anew from what was read, or the name of the one that a loop begins in."""
    if not isinstance(text, str):
        return None
    if text == FIRST_REGIME:
        return text
    try:
        return parse_trace_id(text).trace_id
    except Malformed:
        return None


def _score(text: object) -> float | None:
    try:
        score = float(text) if isinstance(text, str) and len(text) <= 40 else math.nan
    except ValueError:
        return None
    return score if math.isfinite(score) else None
