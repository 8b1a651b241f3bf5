"""What a demo says: sentences for what happens, a table of segments, a plot for a terminal. Pure.

Values come from the ledger and a loop's log; whoever prints escapes them.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

_SENTENCES: Final = {
    "loop.registered": "the loop registers its control bridge with the broker",
    "ask.opened": "the agent asks a person ({verb}) and ends its turn; ask {ask}",
    "forge.pull_request_opened": "the broker opens draft pull request {number}: {url}",
    "loop.parked": "the loop parks; no budget runs and nothing waits in memory",
    "forge.comment_seen": "the broker reads a comment on pull request {pull_request} afresh",
    "ask.answered": "answered: {state} by {people}; verdict, waiter and effects are one transaction",
    "capture.submitted": "the capture is submitted: what was approved is what is measured",
    "capture.ready": "the trace is there, digest {digest}",
    "bridge.rescope_acknowledged": "the loop takes the new regime {trace_id}",
    "bridge.deny_acknowledged": "the loop is told no for {trace_id} and goes on in its frozen regime",
    "capture.rescoped": "everybody who waited was told",
    "capture.denied": "the capture ends as denied",
    "forge.pull_request_ready": "pull request {number} holds the calibration and is ready to be merged as the record",
    "loop.segment": "a new segment: {regime}, baseline {baseline_score} ms",
}

WIDTH: Final = 64
HEIGHT: Final = 12


class _Facts(dict[str, object]):
    def __missing__(self, key: str) -> str:
        return f"({key})"


def sentence(document: Mapping[str, Any]) -> str | None:
    """Say what a ledger entry means for who watches; None for one that is of no interest."""
    text = _SENTENCES.get(document["kind"])
    if text is None:
        return None
    facts = dict(document["facts"])
    if "verb" in facts:
        facts["verb"] = facts["verb"] or "a plain question"
    shown = _Facts(facts, ask=document.get("ask") or "", people=", ".join(facts.get("by") or ()) or "nobody")
    return f"{document['kind']:<28} {text.format_map(shown)}"


def turn(row: Mapping[str, Any]) -> str:
    """Say how a turn of the loop went."""
    if row["score"] is None:
        return f"turn {row['iter']}: {row['decision']}"
    return f"turn {row['iter']}: p99 {row['score']:.1f} ms, {row['decision']}"


def table(segments: Sequence[Mapping[str, Any]]) -> list[str]:
    """Lay out segments and scores."""
    head = ("", "regime", "round robin", "baseline", "best", "turns", "best against round robin")
    rows = [head]
    for number, one in enumerate(segments, 1):
        plain, best = one.get("round_robin"), one["best"]
        gain = f"{100 * (1 - best / plain):.0f} % lower" if plain and best is not None else ""
        rows.append(
            (str(number), str(one["regime"]), _ms(plain), _ms(one["baseline"]), _ms(best), str(one["turns"]), gain)
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    return [
        "  ".join(
            word.ljust(width) if column in (1, 6) else word.rjust(width)
            for column, (word, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _ms(score: float | None) -> str:
    return "" if score is None else f"{score:.1f}"


def plot(segments: Sequence[Mapping[str, Any]]) -> list[str]:
    """Draw the scores of all turns on a logarithmic scale, `*` kept, `.` not, `o` a baseline, a bar between segments.

    Scores compare inside one segment only; the bar says so.
    """
    marks: list[tuple[str, float | None]] = []
    for number, one in enumerate(segments):
        marks += [("|", None)] if number else []
        marks += [("o", one["baseline"]), *(("*" if kept else ".", score) for score, kept in one["scores"])]
    known = [score for _, score in marks if score is not None and score > 0]
    if not known:
        return []
    low, high = math.log(min(known)), math.log(max(known))
    span = (high - low) or 1.0
    step = max(WIDTH // len(marks), 1)
    grid = [[" "] * (step * len(marks)) for _ in range(HEIGHT)]
    for place, (mark, score) in enumerate(marks):
        column = place * step
        if mark == "|":
            for line in grid:
                line[column] = "|"
        elif score is not None and score > 0:
            grid[round((high - math.log(score)) / span * (HEIGHT - 1))][column] = mark
    label = {0: f"{math.exp(high):.1f}", HEIGHT - 1: f"{math.exp(low):.1f}"}
    drawn = [f"{label.get(number, ''):>9} | {''.join(line).rstrip()}".rstrip() for number, line in enumerate(grid)]
    return ["  p99 (ms, logarithmic)", *drawn, f"{'':>9} +{'-' * (step * len(marks) + 1)} turns"]
