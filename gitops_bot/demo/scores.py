"""What a demo's loop scored, read off its session log and set beside round robin under the same knobs."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gitops_bot.core.errors import ConfigError, Malformed
from gitops_bot.demo.files import Layout
from gitops_bot.demo.judge import judged
from gitops_bot.demo.picker import ROUND_ROBIN


def session(layout: Layout) -> Path:
    """Name the loop's session log."""
    return layout.workspace / "state" / "session.jsonl"


def lines(log: Path) -> Iterator[Mapping[str, Any]]:
    """Read the whole lines of a session log; none when there is no log yet."""
    for raw in log.read_text("utf-8").splitlines(keepends=True) if log.exists() else ():
        if raw.endswith("\n"):
            yield json.loads(raw)


def segments(layout: Layout) -> tuple[dict[str, Any], ...]:
    """Give the segments: regime, baseline, best, turns, each turn's (score, kept), and what round robin scores."""
    found: list[dict[str, Any]] = []
    for line in lines(session(layout)):
        if line.get("kind") == "segment":
            baseline = line.get("baseline_score")
            regime = str(line.get("regime"))
            plain = _round_robin(layout, regime)
            start = {"regime": regime, "baseline": baseline, "best": baseline, "turns": 0, "round_robin": plain}
            found.append({**start, "scores": []})
        if line.get("kind") == "row" and found:
            row = line["row"]
            found[-1]["turns"] += 1
            if isinstance(row.get("score"), int | float):
                found[-1]["scores"].append((row["score"], row["decision"] == "keep"))
                found[-1]["best"] = min(found[-1]["best"] or row["score"], row["score"])
    return tuple(found)


def _round_robin(layout: Layout, regime: str) -> float | None:
    try:
        return judged(ROUND_ROBIN, layout.calibrations, regime)
    except (ConfigError, Malformed):
        return None


def shortfall(found: Sequence[Mapping[str, Any]]) -> str:
    """Say what the scores do not show that a demo should: '' when the picker beat round robin in each segment."""
    if len(found) < 2:
        return "there is no segment under a captured regime"
    for one in found:
        if one["round_robin"] is None or one["best"] is None or one["best"] >= one["round_robin"]:
            return f"the picker's best weights do not beat round robin under {one['regime']}"
    return ""
