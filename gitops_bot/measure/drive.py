"""A regime was driven against an endpoint: one thread a concurrent request, closed loop, warm-up left out.

Gives the samples of one concurrency; what they mean is `measure.fit`'s. An endpoint where not most requests succeed
raises `Unavailable`, and no sample of it leaves.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from gitops_bot.core.captures import Regime
from gitops_bot.core.errors import ConfigError, Unavailable
from gitops_bot.measure.client import Sample, request
from gitops_bot.measure.grammar import Endpoint

MAX_CONCURRENCY: Final = 256
MAX_REQUESTS: Final = 768
MAX_PROMPT: Final = 131_072
WARM_UP: Final = 8
PREFIX_WORDS: Final = 24
OWN_WORDS: Final = 8


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is sent: measured requests, warm-up requests, and the seconds one request may take."""

    requests: int
    warm_up: int
    timeout: float


def plan(regime: Regime, *, timeout: float) -> Plan:
    """Decide how many requests a regime takes: three rounds of its concurrency, at least 24, at most `MAX_REQUESTS`.

    Raises:
        ConfigError: a regime that this program cannot drive; measuring another one instead would be a lie.
    """
    if not 1 <= regime.concurrency <= MAX_CONCURRENCY:
        raise ConfigError(f"regime: concurrency must be from 1 to {MAX_CONCURRENCY} here")
    if regime.max_tokens < 1:
        raise ConfigError("regime: max_tokens must be at least 1, or there is nothing to time")
    if regime.long_tokens > MAX_PROMPT:
        raise ConfigError(f"regime: long_tokens must be at most {MAX_PROMPT} here")
    count = min(max(3 * regime.concurrency, 24), MAX_REQUESTS)
    return Plan(count, min(regime.concurrency, WARM_UP), timeout)


def prompt(regime: Regime, index: int, kind: str) -> str:
    """Write the prompt of a request: one of the regime's shared prefixes, then words of its own.

    A word is meant as a token; what the endpoint counted is in the record. A share `long_frac` of the requests, spread
    evenly, carries `long_tokens` more words.
    """
    parts: list[str] = []
    if regime.prefixes:
        name = index % regime.prefixes
        parts += [f"p{name}w{word}" for word in range(PREFIX_WORDS)]
    parts += [f"{kind}{index}w{word}" for word in range(OWN_WORDS)]
    share = min(round(float(regime.long_frac) * 10_000), 10_000)
    if (index + 1) * share // 10_000 > index * share // 10_000:
        parts += [f"l{index}w{word}" for word in range(regime.long_tokens)]
    return " ".join(parts)


def drive(
    endpoint: Endpoint, regime: Regime, planned: Plan, progress: Callable[[int, int], None]
) -> tuple[Sample, ...]:
    """Send the warm-up, then the measured requests at the regime's concurrency; samples in order of arrival.

    Raises:
        Unavailable: at least half of the requests failed (or all of the warm-up).
    """
    warm = _Round(endpoint, regime, planned, "u", planned.warm_up, lambda _done, _all: None).run()
    if all(sample.error is not None for sample in warm):
        raise Unavailable(_complaint(endpoint, warm))
    samples = _Round(endpoint, regime, planned, "m", planned.requests, progress).run()
    if 2 * sum(sample.error is None for sample in samples) <= planned.requests:
        raise Unavailable(_complaint(endpoint, samples))
    return samples


def _complaint(endpoint: Endpoint, samples: tuple[Sample, ...]) -> str:
    errors = Counter(sample.error for sample in samples if sample.error is not None)
    often, _times = errors.most_common(1)[0]
    return f"{endpoint.url}: {errors.total()} of {len(samples)} requests failed, most often: {often}"


class _Round:
    """A number of requests shared by as many threads as the concurrency; stops early once half of them failed."""

    def __init__(
        self,
        endpoint: Endpoint,
        regime: Regime,
        planned: Plan,
        kind: str,
        count: int,
        progress: Callable[[int, int], None],
    ) -> None:
        self._endpoint, self._regime, self._planned = endpoint, regime, planned
        self._kind, self._count, self._progress = kind, count, progress
        self._lock = threading.Lock()
        self._next = 0
        self._failed = 0
        self._samples: list[Sample] = []

    def run(self) -> tuple[Sample, ...]:
        """Send all and wait for the last."""
        threads = min(self._regime.concurrency, self._count)
        origin = time.perf_counter()
        with ThreadPoolExecutor(threads) as pool:
            for ended in [pool.submit(self._work, origin) for _ in range(threads)]:
                ended.result()
        return tuple(sorted(self._samples, key=lambda sample: sample.arrival_ms))

    def _work(self, origin: float) -> None:
        while (index := self._take()) is not None:
            text = prompt(self._regime, index, self._kind)
            sample = request(
                self._endpoint,
                self._regime.model,
                text,
                self._regime.max_tokens,
                origin=origin,
                timeout=self._planned.timeout,
            )
            with self._lock:
                self._samples.append(sample)
                self._failed += sample.error is not None
                done = len(self._samples)
            self._progress(done, self._count)

    def _take(self) -> int | None:
        with self._lock:
            if self._next >= self._count or 2 * self._failed >= self._count:
                return None
            self._next += 1
            return self._next - 1
