"""The demo's problem: two weights decide which of four replicas serves a request, and a simulation gives the p99.

A discrete-event simulation with a fixed seed, so that the same weights and knobs always score the same, and all
weights meet the same requests. What a replica is comes from a capture: its places, the times of first and later
tokens and their deviations, how much slower it is with all places taken, and what a prefix costs that is not cached.
How unequal the replicas are, how many prefixes each keeps and how busy they are is this model's own, and not measured.
"""

import heapq
import random
from collections import OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gitops_bot.core.captures import Regime
from gitops_bot.core.errors import ConfigError
from gitops_bot.demo.grammar import Weights

REQUESTS: Final = 2000
SPEEDS: Final = (1.0, 1.0, 0.8, 1.4)
"""How long each replica takes for the same work; unequal, or round robin would be hard to beat."""
UTILISATION: Final = 0.85
PREFIX_TOKENS: Final = 24
"""Tokens of a shared prefix: what a capture sends as one."""
SEED: Final = 20240229
ROUND_ROBIN: Final = Weights(0.0, 0.0)
DEFAULT_REGIME: Final = Regime("Qwen/Qwen3-0.6B", 8, 8, 16, 0, "0.0000")


@dataclass(frozen=True, slots=True)
class Knobs:
    """How one replica behaves: times in ms of a request alone with its prefix cached, the sequences it runs at once,
    how many times as long everything takes with all of them running, and the ms of a prompt token not cached."""

    ttft: float
    ttft_deviation: float
    itl: float
    itl_deviation: float
    slots: int
    factor: float = 1.0
    per_token: float = 0.0


DEFAULT_KNOBS: Final = Knobs(20.0, 4.0, 5.0, 1.0, 8, 1.5, 0.6)


def knobs(values: Mapping[str, str], regime: Regime) -> Knobs:
    """Take the simulation's knobs from a capture's; a deviation or a prefill that was not measured is none.

    Raises:
        ConfigError: one that the regime needs is missing or impossible.
    """
    more = ["MOCK_ITL_MS", "MOCK_TIME_FACTOR_UNDER_LOAD"] if regime.max_tokens > 1 else []
    missing = [name for name in ("MOCK_TTFT_MS", "MOCK_MAX_NUM_SEQS", *more) if name not in values]
    if missing:
        raise ConfigError(f"the calibration lacks {', '.join(missing)}", fix="capture this regime again")
    found = Knobs(
        float(values["MOCK_TTFT_MS"]),
        float(values.get("MOCK_TTFT_STDDEV_MS", "0")),
        float(values.get("MOCK_ITL_MS", "0")),
        float(values.get("MOCK_ITL_STDDEV_MS", "0")),
        int(float(values["MOCK_MAX_NUM_SEQS"])),
        float(values.get("MOCK_TIME_FACTOR_UNDER_LOAD", "1")),
        float(values.get("MOCK_PREFILL_TIME_PER_TOKEN_MS", "0")),
    )
    times = (found.ttft_deviation, found.itl, found.itl_deviation, found.per_token)
    sound = found.ttft > 0 and min(times) >= 0 and max(found.ttft, *times) <= 1e9
    if not sound or not 1 <= found.slots <= 4096 or not 1 <= found.factor <= 1000:
        raise ConfigError("the calibration's knobs are no times or slots", fix="capture this regime again")
    return found


@dataclass(frozen=True, slots=True)
class _Arrival:
    """A request: when it comes (ms), its prefix, and its work alone in ms, and what of it a warm prefix saves."""

    at: float
    prefix: int
    work: float
    saved: float


@dataclass(slots=True)
class _Replica:
    speed: float
    slots: int
    factor: float
    cache: int
    running: int = 0
    waiting: "deque[_Arrival]" = field(default_factory=deque)
    warm: "OrderedDict[int, None]" = field(default_factory=OrderedDict)

    def start(self, arrival: _Arrival) -> float:
        """Begin a request; give how long it takes, in ms."""
        work = arrival.work - (arrival.saved if arrival.prefix in self.warm else 0.0)
        self.warm[arrival.prefix] = None
        self.warm.move_to_end(arrival.prefix)
        if len(self.warm) > self.cache:
            self.warm.popitem(last=False)
        self.running += 1
        slower = 1 + (self.factor - 1) * (self.running - 1) / max(self.slots - 1, 1)
        return work * self.speed * slower


def p99(weights: Weights, measured: Knobs, regime: Regime, *, seed: int = SEED) -> float:
    """Simulate and give the 99th percentile of latency in ms; lower is better."""
    arrivals = _arrivals(measured, regime, random.Random(seed))  # noqa: S311 # a simulation; no secret
    cache = max(1, regime.prefixes // 2)
    replicas = [_Replica(speed, measured.slots, measured.factor, cache) for speed in SPEEDS]
    latencies: list[float] = []
    ends: list[tuple[float, int]] = []

    def begin(index: int, arrival: _Arrival, now: float) -> None:
        end = now + replicas[index].start(arrival)
        latencies.append(end - arrival.at)
        heapq.heappush(ends, (end, index))

    def finish() -> None:
        now, index = heapq.heappop(ends)
        replicas[index].running -= 1
        if replicas[index].waiting:
            begin(index, replicas[index].waiting.popleft(), now)

    for number, arrival in enumerate(arrivals):
        while ends and ends[0][0] <= arrival.at:
            finish()
        index = _pick(weights, replicas, arrival.prefix, number)
        if replicas[index].running < measured.slots:
            begin(index, arrival, arrival.at)
        else:
            replicas[index].waiting.append(arrival)
    while ends:
        finish()
    return round(sorted(latencies)[REQUESTS * 99 // 100], 3)


def _pick(weights: Weights, replicas: list[_Replica], prefix: int, number: int) -> int:
    """Choose by score; among equals the one whose turn it is, so that no weights at all are round robin."""

    def score(index: int) -> tuple[float, int]:
        replica = replicas[index]
        load = (replica.running + len(replica.waiting)) / replica.slots
        liked = weights.prefix * (prefix in replica.warm) - weights.load * load
        return liked, -((index - number) % len(replicas))

    return max(range(len(replicas)), key=score)


def _arrivals(measured: Knobs, regime: Regime, chance: random.Random) -> list[_Arrival]:
    tokens = max(regime.max_tokens - 1, 0)
    cold = measured.per_token * PREFIX_TOKENS if regime.prefixes else 0.0
    # As many arrivals as keep the replicas busy to UTILISATION when half of the prefixes are warm.
    alone = measured.ttft + tokens * measured.itl + cold / 2
    loaded = alone * (1 + (measured.factor - 1) * UTILISATION)
    gap = loaded / (UTILISATION * measured.slots * sum(1 / speed for speed in SPEEDS))
    prefixes = range(max(regime.prefixes, 1))
    popular = [1 / (rank + 1) for rank in prefixes]
    now = 0.0
    arrivals: list[_Arrival] = []
    for _ in range(REQUESTS):
        now += chance.expovariate(1 / gap)
        first = max(chance.gauss(measured.ttft, measured.ttft_deviation), measured.ttft / 10)
        rest = max(chance.gauss(tokens * measured.itl, tokens**0.5 * measured.itl_deviation), 0.0)
        prefix = chance.choices(prefixes, popular)[0] if regime.prefixes else len(arrivals)
        arrivals.append(_Arrival(now, prefix, cold + first + rest, cold))
    return arrivals
