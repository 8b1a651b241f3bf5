"""The record of a measurement is on disk, whole or not at all: each file is renamed to its name after it was synced.

`trace.jsonl` holds a meta line and then a line a request, round after round; `knobs.json` comes last, so where it is,
the measurement was finished. A measurement that is stopped leaves neither.
"""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from gitops_bot import __version__
from gitops_bot.core.canonical import canonical, digest
from gitops_bot.core.captures import Regime
from gitops_bot.measure.client import Sample
from gitops_bot.measure.drive import Driven
from gitops_bot.measure.fit import WIDTH, Knob
from gitops_bot.measure.grammar import Endpoint
from gitops_bot.measure.plan import Plan, Round

TRACE: Final = "trace.jsonl"
KNOBS: Final = "knobs.json"
PLOTS: Final = ("plot.png", "plot.svg")
_PARTIAL: Final = ".partial"


def clear(folder: Path) -> None:
    """Take away an earlier record and the parts of one, knobs first, so that two measurements never mix."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in (KNOBS, TRACE, *PLOTS):
        (folder / name).unlink(missing_ok=True)
        (folder / f"{name}{_PARTIAL}").unlink(missing_ok=True)


def meta(endpoint: Endpoint, regime: Regime, planned: Plan) -> dict[str, object]:
    """Describe a measurement: what was driven, with which tool and settings; `config_hash` stands for all of it.

    `rounds` tells which of the lines that follow belong together, in their order.
    """
    settings: dict[str, object] = {
        "endpoint": endpoint.url,
        "regime": regime.params(),
        "rounds": [_round(one) for one in planned.rounds if one.kind != "warm_up"],
        "warm_up": [_round(one) for one in planned.rounds if one.kind == "warm_up"],
    }
    return {
        "v": 1,
        "model": regime.model,
        "tool": "gitops-bot-measure",
        "tool_version": __version__,
        **settings,
        "trace_id": regime.trace_id,
        "config_hash": digest("gitops-bot/measure-config/v1", canonical(settings)),
    }


def _round(one: Round) -> dict[str, object]:
    return {
        "kind": one.kind,
        "concurrency": one.concurrency,
        "requests": one.requests,
        "max_tokens": one.max_tokens,
    }


def start(folder: Path) -> int:
    """Say when a measurement starts, in ms since 1970, by the clock of the file system that keeps its record."""
    mark = folder / f"{TRACE}{_PARTIAL}"
    mark.write_bytes(b"")
    return mark.stat().st_mtime_ns // 1_000_000


def write_trace(folder: Path, described: Mapping[str, object], driven: Sequence[Driven]) -> None:
    """Write the trace."""
    lines: list[Mapping[str, object]] = [{"meta": dict(described)}]
    lines += [_line(sample, one.round.concurrency) for one in driven for sample in one.samples]
    _place(folder / TRACE, "".join(json.dumps(line) + "\n" for line in lines).encode("utf-8"))


def write_knobs(folder: Path, described: Mapping[str, object], found: Sequence[Knob]) -> None:
    """Write the knobs with their errors and counts; with this the measurement is finished."""
    _place(folder / KNOBS, (json.dumps(summary(described, found), indent=1) + "\n").encode("utf-8"))


def summary(described: Mapping[str, object], found: Sequence[Knob]) -> dict[str, object]:
    """Give knobs as decimal strings, each with its standard error and 95 % interval where they are known."""
    return {
        "v": 1,
        "trace_id": described["trace_id"],
        "knobs": {knob.name: _shown(knob.name, knob.value) for knob in found},
        "samples": {knob.name: knob.samples for knob in found},
        "errors": {knob.name: _interval(knob) for knob in found if knob.error is not None},
    }


def _interval(knob: Knob) -> dict[str, str]:
    error = knob.error or 0.0
    low, high = max(knob.value - WIDTH * error, 0.0), knob.value + WIDTH * error
    return {"standard_error": f"{error:.4f}", "low": f"{low:.4f}", "high": f"{high:.4f}"}


def _shown(name: str, value: float) -> str:
    if name.endswith("_SEQS"):
        return str(round(value))
    return f"{value:.4f}"


def _line(sample: Sample, concurrency: int) -> dict[str, object]:
    line: dict[str, object] = {
        "prompt_tokens": sample.usage.prompt_tokens,
        "cached_tokens": sample.usage.cached_tokens,
        "output_tokens": sample.usage.output_tokens,
        "ttft_ms": None if sample.ttft_ms is None else round(sample.ttft_ms, 3),
        "itl_ms": [round(gap, 3) for gap in sample.itl_ms],
        "concurrency": concurrency,
        "arrival_ms": round(sample.arrival_ms, 3),
    }
    return line if sample.error is None else {**line, "error": sample.error}


def _place(path: Path, content: bytes) -> None:
    partial = path.with_name(f"{path.name}{_PARTIAL}")
    with partial.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
