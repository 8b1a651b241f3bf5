"""Knobs say what was observed, each with its error, and nothing that was not; known knobs come back."""

import heapq
import random
from collections.abc import Sequence

import pytest

from gitops_bot.measure.client import Sample
from gitops_bot.measure.drive import Driven
from gitops_bot.measure.fit import knobs, line_through
from gitops_bot.measure.grammar import Usage
from gitops_bot.measure.plan import Round

FAILED = Sample(0.0, Usage(), ttft_ms=9999.0, itl_ms=(9999.0,), error="HTTP 500")


def load(concurrency: int, samples: Sequence[Sample], kind: str = "load") -> Driven:
    return Driven(Round(kind, concurrency, len(samples), 8), tuple(samples))


class Endpoint:
    """A mock endpoint in virtual time, driven in a closed loop: known knobs, a queue, a seeded source of chance."""

    def __init__(self, seed: int, *, places: int, factor: float) -> None:
        self.chance = random.Random(seed)
        self.places, self.factor, self.slows_prefill = places, factor, True

    def drive(self, concurrency: int, requests: int, *, tokens: int, lengths: Sequence[int]) -> list[Sample]:
        running = min(concurrency, self.places)
        slower = 1.0 if self.places == 1 else 1 + (self.factor - 1) * (running - 1) / (self.places - 1)
        free = [0.0] * running
        clients = [0.0] * concurrency
        samples = []
        for index in range(requests):
            arrival = heapq.heappop(clients)
            begin = max(arrival, heapq.heappop(free))
            uncached = lengths[index % len(lengths)]
            first = self.chance.gauss(50 + 0.4 * uncached, 8) * (slower if self.slows_prefill else 1.0)
            gaps = tuple(self.chance.gauss(20, 4) * slower for _ in range(tokens - 1))
            end = begin + first + sum(gaps)
            heapq.heappush(free, end)
            heapq.heappush(clients, end)
            samples.append(Sample(arrival, Usage(uncached + 24, 24, tokens), begin + first - arrival, gaps))
        return samples

    def all(self, top: int) -> list[Driven]:
        return [
            load(1, self.drive(1, 240, tokens=1, lengths=range(16, 257, 48)), "prefill"),
            load(1, self.drive(1, 240, tokens=8, lengths=(8,))),
            load(top // 2, self.drive(top // 2, 3 * top, tokens=8, lengths=(8,))),
            load(top, self.drive(top, 6 * top, tokens=8, lengths=(8,))),
        ]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("places", "factor", "top"), [(16, 2.5, 48), (48, 1.6, 48), (6, 1.0, 24)])
def test_known_knobs_come_back_within_a_tenth(seed: int, places: int, factor: float, top: int) -> None:
    """Waiting is not taken for prefill and load not for slowness, whether or not requests had to queue."""
    found = {knob.name: knob.value for knob in knobs(Endpoint(seed, places=places, factor=factor).all(top))}
    known = {
        "MOCK_TTFT_MS": 50 + 0.4 * 8,
        "MOCK_TTFT_STDDEV_MS": 8.0,
        "MOCK_PREFILL_OVERHEAD_MS": 50.0,
        "MOCK_PREFILL_TIME_PER_TOKEN_MS": 0.4,
        "MOCK_ITL_MS": 20.0,
        "MOCK_ITL_STDDEV_MS": 4.0,
        "MOCK_TIME_FACTOR_UNDER_LOAD": factor,
        "MOCK_MAX_NUM_SEQS": float(places),
    }
    assert found.keys() == known.keys()
    assert {name: value for name, value in found.items() if abs(value / known[name] - 1) > 0.1} == {}


@pytest.mark.parametrize("seed", range(5))
def test_places_are_counted_where_a_prefill_is_not_slowed_by_load(seed: int) -> None:
    """An engine that batches decodes slows tokens and not prefills; its places come back all the same."""

    endpoint = Endpoint(seed, places=16, factor=4.0)
    endpoint.slows_prefill = False
    found = {knob.name: knob.value for knob in knobs(endpoint.all(48))}
    assert abs(found["MOCK_MAX_NUM_SEQS"] / 16 - 1) <= 0.1


def test_an_error_covers_what_is_known_about_as_often_as_it_says() -> None:
    """The 95 % interval of each time holds the known value in most of 40 measurements."""
    known = {"MOCK_TTFT_MS": 53.2, "MOCK_ITL_MS": 20.0, "MOCK_PREFILL_TIME_PER_TOKEN_MS": 0.4}
    held = dict.fromkeys(known, 0)
    for seed in range(40):
        for knob in knobs(Endpoint(seed, places=8, factor=2).all(16)):
            if knob.name in known:
                assert knob.error is not None
                held[knob.name] += abs(knob.value - known[knob.name]) < 1.96 * knob.error
    assert all(count >= 34 for count in held.values()), held


def test_a_line_is_what_a_person_computes_by_hand() -> None:
    """Exact points have no error; too few, or all at one place, no line."""
    line = line_through([(0, 1.0), (1, 3.0), (2, 5.0)])
    assert line is not None
    assert (line.intercept, line.slope, line.slope_error, line.intercept_error, line.samples) == (1, 2, 0, 0, 3)
    assert line_through([(0, 1.0), (1, 3.0)]) is None
    assert line_through([(1, 1.0), (1, 3.0), (1, 5.0)]) is None


def test_a_failed_request_counts_nowhere() -> None:
    """One good sample among failed ones is one observation."""
    alone = [Sample(0, Usage(10, 0), 10.0, (1.0, 3.0)), FAILED, FAILED]
    found = {knob.name: knob for knob in knobs([load(1, alone)])}
    assert (found["MOCK_TTFT_MS"].value, found["MOCK_TTFT_MS"].samples, found["MOCK_TTFT_MS"].error) == (10.0, 1, None)
    assert (found["MOCK_ITL_MS"].value, found["MOCK_ITL_MS"].samples) == (2.0, 2)


def test_what_was_not_observed_is_left_out() -> None:
    """One token a request has no gap, one observation no deviation, no counts no line, two loads no factor."""
    names = [knob.name for knob in knobs([load(1, [Sample(0, Usage(), 10.0)])])]
    assert names == ["MOCK_TTFT_MS", "MOCK_MAX_NUM_SEQS"]
    two = Endpoint(1, places=4, factor=2).all(8)[1:3]
    assert "MOCK_TIME_FACTOR_UNDER_LOAD" not in {knob.name for knob in knobs(two)}
    assert knobs([]) == ()


def test_cached_tokens_cost_nothing_in_the_line() -> None:
    """The line is over what had to be computed; the same prompt lengths with other caches must not bend it."""
    samples = [
        Sample(0, Usage(200, 200 - uncached), 30 + 0.5 * uncached) for uncached in (10, 20, 50, 100, 150, 200) * 2
    ]
    found = {knob.name: knob.value for knob in knobs([load(1, samples, "prefill")])}
    assert found["MOCK_PREFILL_OVERHEAD_MS"] == pytest.approx(30)
    assert found["MOCK_PREFILL_TIME_PER_TOKEN_MS"] == pytest.approx(0.5)
