"""The scores of a demo's segments as a picture: `python -m gitops_bot.demo.plot FOLDER`, the segments on stdin.

`draw` runs it as a process of its own, as `measure.plot` is, and for the same reasons.
"""

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from gitops_bot.process import run

PLOTS: Final = ("scores.png", "scores.svg")
SECONDS: Final = 60.0


def draw(folder: Path, segments: Sequence[Mapping[str, Any]]) -> tuple[Path, ...]:
    """Write the pictures into a folder and give them; none where the library is not installed.

    Raises:
        Unavailable: it takes too long.
    """
    argv = [sys.executable, "-I", "-m", "gitops_bot.demo.plot", str(folder.absolute())]
    with tempfile.TemporaryDirectory(prefix="gitops-bot-plot-") as settings:
        alone = {"MPLCONFIGDIR": settings, "MPLBACKEND": "Agg", "OPENBLAS_NUM_THREADS": "1"}
        run(argv, cwd=folder, env=alone, stdin=json.dumps(list(segments)).encode("utf-8"), timeout=SECONDS)
    return tuple(folder / name for name in PLOTS if (folder / name).exists())


def main(arguments: Sequence[str]) -> int:
    """Draw. Gives the exit status."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        return 3
    segments = json.load(sys.stdin)
    figure = Figure(figsize=(11, 4.6), layout="constrained")
    axes = figure.subplots()
    begin = 0
    for number, one in enumerate(segments):
        scores = [(one["baseline"], True), *((score, kept) for score, kept in one["scores"])]
        places = range(begin, begin + len(scores))
        best: list[float] = []
        for score, _ in scores:
            best.append(min([score, *best[-1:]]))
        line = axes.plot(places, best, drawstyle="steps-post", label=f"{number + 1}. {one['regime']}")[0]
        for place, (score, kept) in zip(places, scores, strict=True):
            axes.plot(place, score, "o" if kept else "x", color=line.get_color(), alpha=1.0 if kept else 0.4)
        if one.get("round_robin"):
            axes.hlines(one["round_robin"], begin, places[-1], linestyles="dotted", color=line.get_color())
        begin += len(scores) + 1
        axes.axvline(begin - 1.5, color="grey", linewidth=0.8)
    axes.set(title="picker's p99 by turn; dotted: round robin", xlabel="turn", ylabel="p99 (ms)", yscale="log")
    axes.legend(fontsize=8)
    for name in PLOTS:
        figure.savefig(Path(arguments[0]) / name, dpi=110)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
