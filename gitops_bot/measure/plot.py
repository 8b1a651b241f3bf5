"""Latencies and what was fitted to them, as a picture: `python -m gitops_bot.measure.plot`, the numbers on stdin.

`draw` runs that as a process of its own: its library takes memory, threads and a settings folder, and none of this may
touch a measurement. It draws what it is given and checks none of it; the numbers come from `measure.fit`.
"""

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gitops_bot.core.errors import Unavailable
from gitops_bot.measure.drive import Driven
from gitops_bot.measure.fit import Knob, prefill
from gitops_bot.measure.record import PLOTS
from gitops_bot.process import run

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SECONDS: Final = 60.0
MISSING: Final = 3


def draw(folder: Path, title: str, driven: Sequence[Driven], found: Sequence[Knob]) -> None:
    """Write `plot.png` and `plot.svg` into a folder.

    Raises:
        Unavailable: they could not be drawn; the reason says whether the library is missing.
    """
    argv = [sys.executable, "-I", "-m", "gitops_bot.measure.plot", str(folder.absolute())]
    given = json.dumps(numbers(title, driven, found)).encode("utf-8")
    with tempfile.TemporaryDirectory(prefix="gitops-bot-plot-") as settings:
        alone = {"MPLCONFIGDIR": settings, "MPLBACKEND": "Agg", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        done = run(argv, cwd=folder, env=alone, stdin=given, timeout=SECONDS)
    if done.returncode == MISSING:
        raise Unavailable("matplotlib is not installed (the extra `measure`)")
    if done.returncode != 0:
        last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        raise Unavailable("; ".join(last) or f"the plot ended with status {done.returncode}")


def numbers(title: str, driven: Sequence[Driven], found: Sequence[Knob]) -> dict[str, Any]:
    """Give what is drawn: points of prefill, gaps and first tokens by concurrency, and the fit."""
    line = prefill(driven)
    alone = [one for one in driven if one.round.concurrency == 1]
    loads = [one for one in driven if one.round.kind == "load"]
    return {
        "title": title,
        "prefill": [
            [sample.usage.prompt_tokens - (sample.usage.cached_tokens or 0), sample.ttft_ms]
            for one in alone
            for sample in one.samples
            if sample.error is None and sample.usage.prompt_tokens is not None
        ],
        "line": None if line is None else [line.intercept, line.slope],
        "gaps": {one.round.concurrency: [gap for sample in one.samples for gap in sample.itl_ms] for one in loads},
        "first": {one.round.concurrency: [s.ttft_ms for s in one.samples if s.ttft_ms is not None] for one in loads},
        "knobs": {knob.name: [knob.value, knob.error] for knob in found},
    }


def main(arguments: Sequence[str]) -> int:
    """Draw. Gives the exit status."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        return MISSING
    given: Mapping[str, Any] = json.load(sys.stdin)
    figure = Figure(figsize=(13, 4.2), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    figure.suptitle(given["title"], fontsize=11)
    _prefill(left, given)
    _gaps(middle, given)
    _first(right, given)
    for name in PLOTS:
        partial = Path(arguments[0]) / f"{name}.partial"
        figure.savefig(partial, format=name.rpartition(".")[2], dpi=110)
        partial.replace(Path(arguments[0]) / name)
    return 0


def _prefill(axes: "Axes", given: Mapping[str, Any]) -> None:
    points = given["prefill"]
    axes.scatter([x for x, _ in points], [y for _, y in points], s=12, alpha=0.6)
    if given["line"] is not None and points:
        intercept, slope = given["line"]
        ends = [0, max(x for x, _ in points)]
        axes.plot(ends, [intercept + slope * x for x in ends], label=f"{intercept:.2f} ms + {slope:.3f} ms a token")
        axes.legend(fontsize=8)
    axes.set(title="prefill, one at a time", xlabel="prompt tokens not cached", ylabel="first token (ms)")


def _gaps(axes: "Axes", given: Mapping[str, Any]) -> None:
    levels = sorted((int(level), gaps) for level, gaps in given["gaps"].items() if gaps)
    if levels:
        axes.boxplot([gaps for _, gaps in levels], positions=range(len(levels)), widths=0.5, showfliers=False)
        axes.set_xticks(range(len(levels)), [str(level) for level, _ in levels])
    base, factor, places = (
        given["knobs"].get(name, (None, None))[0]
        for name in ("MOCK_ITL_MS", "MOCK_TIME_FACTOR_UNDER_LOAD", "MOCK_MAX_NUM_SEQS")
    )
    if None not in (base, factor, places) and places > 1:
        fitted = [base * (1 + (factor - 1) * (min(level, places) - 1) / (places - 1)) for level, _ in levels]
        axes.plot(range(len(levels)), fitted, "o-", label=f"{base:.2f} ms, times {factor:.2f} at {places:.0f} running")
        axes.legend(fontsize=8)
    axes.set(title="between tokens", xlabel="concurrency", ylabel="gap (ms)")


def _first(axes: "Axes", given: Mapping[str, Any]) -> None:
    for level, times in sorted((int(level), sorted(times)) for level, times in given["first"].items() if times):
        axes.step(times, [(place + 1) / len(times) for place in range(len(times))], where="post", label=f"c={level}")
    if axes.has_data():
        axes.legend(fontsize=8)
        axes.set_xscale("log")
    axes.set(title="first token, with the wait for a place", xlabel="ms", ylabel="share of requests", ylim=(0, 1.02))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
