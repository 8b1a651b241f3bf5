"""A plan was carried out against an endpoint: one thread a concurrent request, closed loop, round after round.

Gives the samples of each recorded round; what they mean is `measure.fit`'s. An endpoint where not most requests succeed
raises `Unavailable`, as does a stop from outside, and no sample leaves then. Threads are daemons: a request that hangs
keeps nobody from ending.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gitops_bot.core.captures import Regime
from gitops_bot.core.errors import Unavailable
from gitops_bot.measure.client import Sample, request
from gitops_bot.measure.grammar import Endpoint
from gitops_bot.measure.plan import Plan, Round, prompt

LOOK_SECONDS: Final = 0.05

Progress = Callable[[Round, int], None]
"""Told a round and how many of its requests are done; from any thread, one at a time."""


@dataclass(frozen=True, slots=True)
class Driven:
    """A round and its samples, in order of arrival."""

    round: Round
    samples: tuple[Sample, ...]


def drive(
    endpoint: Endpoint, regime: Regime, planned: Plan, progress: Progress, stop: threading.Event
) -> tuple[Driven, ...]:
    """Carry out the rounds; arrivals count from the first one's start. The warm-up is left out of what is given.

    Raises:
        Unavailable: at least half of a round's requests failed (or all of the warm-up), or `stop` was set.
    """
    origin = time.perf_counter()
    driven: list[Driven] = []
    for one in planned.rounds:
        samples = _Crowd(endpoint, regime, one, planned.timeout, origin, progress).run(stop)
        failed = sum(sample.error is not None for sample in samples)
        if failed == len(samples) or (one.kind != "warm_up" and 2 * failed >= one.requests):
            raise Unavailable(_complaint(endpoint, samples))
        if one.kind != "warm_up":
            driven.append(Driven(one, samples))
    return tuple(driven)


def _complaint(endpoint: Endpoint, samples: tuple[Sample, ...]) -> str:
    errors = Counter(sample.error for sample in samples if sample.error is not None)
    often, _times = errors.most_common(1)[0]
    return f"{endpoint.url}: {errors.total()} of {len(samples)} requests failed, most often: {often}"


class _Crowd:
    """A round's requests, shared by as many threads as its concurrency; ends early once half of them failed."""

    def __init__(
        self, endpoint: Endpoint, regime: Regime, one: Round, timeout: float, origin: float, progress: Progress
    ) -> None:
        self._endpoint, self._regime, self._round = endpoint, regime, one
        self._timeout, self._origin, self._progress = timeout, origin, progress
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._next = 0
        self._failed = 0
        self._working = 0
        self._samples: list[Sample] = []

    def run(self, stop: threading.Event) -> tuple[Sample, ...]:
        """Send all and wait for the last."""
        self._working = min(self._round.concurrency, self._round.requests)
        for number in range(self._working):
            threading.Thread(target=self._work, args=(stop,), name=f"request-{number}", daemon=True).start()
        while not self._ended.wait(LOOK_SECONDS):
            if stop.is_set():
                raise Unavailable("it was told to stop")
        if stop.is_set():
            raise Unavailable("it was told to stop")
        return tuple(sorted(self._samples, key=lambda sample: sample.arrival_ms))

    def _work(self, stop: threading.Event) -> None:
        while (index := self._take(stop)) is not None:
            sample = request(
                self._endpoint,
                self._regime.model,
                prompt(self._regime, index, self._round),
                self._round.max_tokens,
                origin=self._origin,
                timeout=self._timeout,
            )
            with self._lock:
                self._samples.append(sample)
                self._failed += sample.error is not None
                self._progress(self._round, len(self._samples))
        with self._lock:
            self._working -= 1
            if self._working == 0:
                self._ended.set()

    def _take(self, stop: threading.Event) -> int | None:
        with self._lock:
            if stop.is_set() or self._next >= self._round.requests or 2 * self._failed >= self._round.requests:
                return None
            self._next += 1
            return self._next - 1
