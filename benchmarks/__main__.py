"""Runs every benchmark of this folder (`bench_*.py`, each with a `main`), or those that are named; `make bench`.

Exits 1 when a bound of the design does not hold.
"""

import importlib
import sys
from pathlib import Path

from benchmarks import machine


def run(names: list[str]) -> int:
    """Run the benchmarks; each `main` prints what it measured and tells whether its bound holds."""
    known = sorted(path.stem for path in Path(__file__).parent.glob("bench_*.py"))
    wanted = [f"bench_{name.removeprefix('bench_')}" for name in names] or known
    unknown = [name for name in wanted if name not in known]
    if unknown:
        print(f"no such benchmark: {', '.join(unknown)}; there are {', '.join(known)}")
        return 64
    print(machine.describe())
    held = True
    for name in wanted:
        print(f"\n{name}", flush=True)
        held = bool(importlib.import_module(f"benchmarks.{name}").main()) and held
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
