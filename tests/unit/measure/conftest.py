"""A ratio that tells linear from worse, without any absolute time."""

import time
from collections.abc import Callable

import pytest


@pytest.fixture
def linear() -> Callable[..., None]:
    def cost(call: Callable[[], object]) -> float:
        best = float("inf")
        for _ in range(7):
            start = time.perf_counter()
            call()
            best = min(best, time.perf_counter() - start)
        return best

    def check(build: Callable[[int], Callable[[], object]], cap: int) -> None:
        # Quadratic work would cost 16 times as much; twice the linear factor is slack for a busy machine.
        small, large = build(cap // 4), build(cap)
        for _ in range(3):
            if cost(large) < 8 * cost(small) + 1e-4:
                return
        raise AssertionError("more than linear")

    return check
