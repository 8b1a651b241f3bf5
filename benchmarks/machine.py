"""What a measurement was taken on, and how its numbers are shown: medians, and ratios within one run."""

import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path


def describe() -> str:
    """Name the machine: processor, its cores that this process may use, kernel, Python."""
    model = platform.machine()
    with_name = Path("/proc/cpuinfo")
    if with_name.exists():
        for line in with_name.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{model}, {cores} cores, {platform.system()} {platform.release()}, Python {platform.python_version()}"


def timed(action: Callable[[], object]) -> float:
    """Give the milliseconds that an action takes."""
    started = time.perf_counter()
    action()
    return (time.perf_counter() - started) * 1000


def median(values: Sequence[float]) -> float:
    """Give the median."""
    return statistics.median(values)
