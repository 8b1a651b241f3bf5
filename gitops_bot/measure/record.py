"""The record of a measurement is on disk, whole or not at all: each file is renamed to its name after it was synced.

`trace.jsonl` holds a meta line and then a line a request; `knobs.json` comes last, so where it is, the trace is too.
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
from gitops_bot.measure.drive import Plan
from gitops_bot.measure.fit import Knob
from gitops_bot.measure.grammar import Endpoint

TRACE: Final = "trace.jsonl"
KNOBS: Final = "knobs.json"


def clear(folder: Path) -> None:
    """Take away an earlier record, knobs first, so that two measurements never mix."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in (KNOBS, TRACE):
        (folder / name).unlink(missing_ok=True)


def meta(endpoint: Endpoint, regime: Regime, planned: Plan) -> dict[str, object]:
    """Describe a measurement: what was driven, with which tool and settings; `config_hash` stands for all of it."""
    settings: dict[str, object] = {
        "endpoint": endpoint.url,
        "regime": regime.params(),
        "requests": planned.requests,
        "warm_up": planned.warm_up,
    }
    return {
        "v": 1,
        "model": regime.model,
        "tool": f"gitops-bot measure {__version__}",
        **settings,
        "trace_id": regime.trace_id,
        "config_hash": digest("gitops-bot/measure-config/v1", canonical(settings)),
    }


def start(folder: Path) -> int:
    """Say when a measurement starts, in ms since 1970, by the clock of the file system that keeps its record."""
    mark = folder / f"{TRACE}.partial"
    mark.write_bytes(b"")
    return mark.stat().st_mtime_ns // 1_000_000


def write(
    folder: Path, described: Mapping[str, object], samples: Sequence[Sample], found: Sequence[Knob], concurrency: int
) -> None:
    """Write trace and knobs."""
    lines = [{"meta": dict(described)}, *(_line(sample, concurrency) for sample in samples)]
    _place(folder / TRACE, "".join(json.dumps(line) + "\n" for line in lines).encode("utf-8"))
    summary = {
        "v": 1,
        "trace_id": described["trace_id"],
        "knobs": {knob.name: knob.value for knob in found},
        "samples": {knob.name: knob.samples for knob in found},
    }
    _place(folder / KNOBS, (json.dumps(summary, indent=1) + "\n").encode("utf-8"))


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
    partial = path.with_name(f"{path.name}.partial")
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
