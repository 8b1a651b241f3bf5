"""Tells linear from worse by a ratio of processor times, never by an absolute time."""

import time
from collections.abc import Callable


def seconds(call: Callable[[], object], rounds: int = 7) -> float:
    """Give the least processor time of this thread over some rounds; other work of the machine does not count."""
    best = float("inf")
    for _ in range(rounds):
        start = time.thread_time()
        call()
        best = min(best, time.thread_time() - start)
    return best


def assert_linear(build: Callable[[int], Callable[[], object]], cap: int) -> None:
    """Hold the work at a size cap against that at a quarter: linear costs 4 times as much, quadratic 16 times.

    Twice the linear factor, and a tenth of a millisecond, are slack for caches; a busy moment gets further tries.
    """
    small, large = build(cap // 4), build(cap)
    for _ in range(5):
        if seconds(large) < 8 * seconds(small) + 1e-4:
            return
    raise AssertionError("more than linear")
