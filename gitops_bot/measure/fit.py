"""Knobs were read off what was driven, each with its error and the number of observations behind it. Pure.

The model is that of a mock endpoint: alone, a request's first token comes after MOCK_TTFT_MS, which is
MOCK_PREFILL_OVERHEAD_MS and MOCK_PREFILL_TIME_PER_TOKEN_MS for each prompt token that was not cached, and each later
one after MOCK_ITL_MS; with all of MOCK_MAX_NUM_SEQS running, each of these times is MOCK_TIME_FACTOR_UNDER_LOAD times
as long, and in between as many times as lies on the line. So waiting for a place is never taken for prefill, nor load
for a slow endpoint. What was not observed often enough is left out, not guessed.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gitops_bot.measure.client import Sample
from gitops_bot.measure.drive import Driven

WIDTH: Final = 1.96
"""Standard errors on each side of a knob that make its 95 % interval."""
FULL: Final = 0.9
"""An endpoint that kept this share of what it was given running had a place for all of it."""
PARTS: Final = 5
MOSTLY: Final = 0.4
"""Requests that stream for this share of their running time are counted by their streams."""


@dataclass(frozen=True, slots=True)
class Knob:
    """A setting of a mock endpoint in the unit that its name says, its standard error (None: unknown), its count."""

    name: str
    value: float
    error: float | None
    samples: int


@dataclass(frozen=True, slots=True)
class Line:
    """A least-squares line over `samples` points, with the standard errors of both parts."""

    intercept: float
    slope: float
    intercept_error: float
    slope_error: float
    samples: int


@dataclass(frozen=True, slots=True)
class _Level:
    """One load: the concurrency it was driven at, its samples and gaps, the mean number of requests running, the most
    streams open at one instant, and the share of its running time that a request streams."""

    concurrency: int
    samples: tuple[Sample, ...]
    gaps: tuple[float, ...]
    running: float = 0.0
    running_error: float = 0.0
    streams: int = 1
    streaming: float = 0.0


def knobs(driven: Sequence[Driven]) -> tuple[Knob, ...]:
    """Compute the knobs from the requests that succeeded."""
    loads = {one.round.concurrency: _good(one.samples) for one in driven if one.round.kind == "load"}
    alone = loads.get(1, ())
    line = prefill(driven)
    found = [*_first(alone, line)]
    if line is not None:
        found.append(Knob("MOCK_PREFILL_OVERHEAD_MS", max(line.intercept, 0.0), line.intercept_error, line.samples))
        found.append(Knob("MOCK_PREFILL_TIME_PER_TOKEN_MS", max(line.slope, 0.0), line.slope_error, line.samples))
    found += _moments("MOCK_ITL", _gaps(alone))
    seen = [_level(level, samples, alone, line) for level, samples in sorted(loads.items()) if samples]
    places = _places(seen)
    factor = _factor(seen, None if places is None else places.value)
    return (*found, *([factor] if factor else []), *([places] if places else []))


def prefill(driven: Sequence[Driven]) -> Line | None:
    """Fit the first token's time over the prompt tokens that were not cached, of all that was sent one at a time."""
    points = [
        (float(uncached), sample.ttft_ms)
        for one in driven
        if one.round.concurrency == 1
        for sample in _good(one.samples)
        if (uncached := _uncached(sample)) is not None and sample.ttft_ms is not None
    ]
    return line_through(points)


def line_through(points: Sequence[tuple[float, float]]) -> Line | None:
    """Fit a line by least squares; None without three points at two places."""
    if len(points) < 3:
        return None
    mean_x, mean_y = (statistics.fmean(point[axis] for point in points) for axis in (0, 1))
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    if spread == 0:
        return None
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread
    intercept = mean_y - slope * mean_x
    variance = sum((y - intercept - slope * x) ** 2 for x, y in points) / (len(points) - 2)
    slope_error = math.sqrt(variance / spread)
    intercept_error = math.sqrt(variance * (1 / len(points) + mean_x**2 / spread))
    return Line(intercept, slope, intercept_error, slope_error, len(points))


def _good(samples: Sequence[Sample]) -> tuple[Sample, ...]:
    return tuple(sample for sample in samples if sample.error is None and sample.ttft_ms is not None)


def _gaps(samples: Sequence[Sample]) -> tuple[float, ...]:
    return tuple(gap for sample in samples for gap in sample.itl_ms)


def _uncached(sample: Sample) -> int | None:
    prompt = sample.usage.prompt_tokens
    return None if prompt is None else max(prompt - (sample.usage.cached_tokens or 0), 0)


def _first(alone: Sequence[Sample], line: Line | None) -> list[Knob]:
    """The first token's time when nothing else runs; its deviation is what prompt lengths do not explain."""
    times = [sample.ttft_ms for sample in alone if sample.ttft_ms is not None]
    if not times:
        return []
    slope = 0.0 if line is None else line.slope
    rest = [time - slope * (_uncached(sample) or 0) for time, sample in zip(times, alone, strict=True)]
    return [_mean("MOCK_TTFT_MS", times), *_deviation("MOCK_TTFT_STDDEV_MS", rest)]


def _moments(name: str, values: Sequence[float]) -> list[Knob]:
    return [_mean(f"{name}_MS", values), *_deviation(f"{name}_STDDEV_MS", values)] if values else []


def _mean(name: str, values: Sequence[float]) -> Knob:
    error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None
    return Knob(name, statistics.fmean(values), error, len(values))


def _deviation(name: str, values: Sequence[float]) -> list[Knob]:
    if len(values) < 2:
        return []
    found = statistics.stdev(values)
    return [Knob(name, found, found / math.sqrt(2 * (len(values) - 1)), len(values))]


def _level(concurrency: int, samples: tuple[Sample, ...], alone: Sequence[Sample], line: Line | None) -> _Level:
    """See how many requests ran at once, apart from those that waited: a request runs from its prefill on."""
    gaps, base = _gaps(samples), _gaps(alone)
    slower = statistics.fmean(gaps) / statistics.fmean(base) if gaps and base and statistics.fmean(base) > 0 else 1.0
    plain = statistics.fmean([sample.ttft_ms or 0.0 for sample in alone]) if alone else 0.0
    runs: list[tuple[float, float]] = []
    streams: list[tuple[float, float]] = []
    for sample in samples:
        uncached = _uncached(sample)
        own = plain if line is None or uncached is None else max(line.intercept + line.slope * uncached, 0.0)
        first = sample.arrival_ms + (sample.ttft_ms or 0.0)
        end = first + sum(sample.itl_ms)
        runs.append((max(first - own * slower, sample.arrival_ms), end))
        streams.append((first, end))
    arrivals = sorted(sample.arrival_ms for sample in samples)
    # From when all places of the crowd are taken until nobody comes after: as many requests are there all the time.
    begin, end = arrivals[min(concurrency, len(arrivals)) - 1], arrivals[-1]
    ran, streamed = (sum(stop - start for start, stop in spans) for spans in (runs, streams))
    share = streamed / ran if ran > 0 else 0.0
    if end <= begin:
        return _Level(concurrency, samples, gaps, float(min(concurrency, len(samples))), 0.0, _peak(streams), share)
    step = (end - begin) / PARTS
    parts = [_busy(runs, begin + step * part, begin + step * (part + 1)) for part in range(PARTS)]
    error = statistics.stdev(parts) / math.sqrt(PARTS)
    return _Level(concurrency, samples, gaps, statistics.fmean(parts), error, _peak(streams), share)


def _busy(runs: Sequence[tuple[float, float]], begin: float, end: float) -> float:
    return sum(max(min(stop, end) - max(start, begin), 0.0) for start, stop in runs) / (end - begin)


def _peak(streams: Sequence[tuple[float, float]]) -> int:
    """Count the most streams that were open at one instant; each had its first token and not yet its last."""
    edges = sorted([(first, 1) for first, _ in streams] + [(end, -1) for _, end in streams])
    open_now = most = 0
    for _, change in edges:
        open_now += change
        most = max(most, open_now)
    return most


def _places(seen: Sequence[_Level]) -> Knob | None:
    """How many run at once: what was seen running where some had to wait, else all that were ever sent at once.

    Where requests mostly stream, the most streams at one instant tell it: no fewer places can have been there, and few
    more, or more streams would have been seen once. Elsewhere the mean number of requests running does, which
    depends on how long a prefill takes under load.
    """
    if not seen:
        return None
    top = seen[-1]
    given = min(top.concurrency, len(top.samples))
    found = float(max(round(top.running), 1))
    if top.streaming >= MOSTLY:
        found = float(next(most for most in range(top.streams, given + 1) if _most_seen(most, top) >= top.streams))
    if found >= FULL * given:
        found = float(given)
    return Knob("MOCK_MAX_NUM_SEQS", min(found, float(given)), top.running_error, len(top.samples))


def _most_seen(places: int, level: _Level) -> float:
    """Expect the most streams of a number of places, each streaming its share of the time, over as many instants as
    there were requests (binomial, normal approximation); never more than there are places."""
    share = level.streaming
    spread = math.sqrt(2 * math.log(max(len(level.samples), 2)) * places * share * (1 - share))
    return places if places == min(level.concurrency, len(level.samples)) else min(places, places * share + spread)


def _factor(seen: Sequence[_Level], places: float | None) -> Knob | None:
    """The line from one request alone to all places taken, through the mean gaps of at least three concurrencies."""
    levels = [level for level in seen if level.gaps]
    if places is None or places < 2 or len(levels) < 3 or levels[0].concurrency != 1:
        return None
    base = statistics.fmean(levels[0].gaps)
    if base <= 0:
        return None
    points = [
        ((min(level.concurrency, places) - 1) / (places - 1), statistics.fmean(level.gaps) / base, len(level.gaps))
        for level in levels[1:]
    ]
    weight = sum(count * x * x for x, _, count in points)
    slope = sum(count * x * (y - 1) for x, y, count in points) / weight
    rest = [
        (gap / base - 1 - slope * x) ** 2
        for (x, _, _), level in zip(points, levels[1:], strict=True)
        for gap in level.gaps
    ]
    own = math.sqrt(sum(rest) / max(len(rest) - 1, 1) / weight)
    anchor = statistics.stdev(levels[0].gaps) / base / math.sqrt(len(levels[0].gaps)) if len(levels[0].gaps) > 1 else 0
    error = math.hypot(own, (1 + slope) * anchor)
    return Knob("MOCK_TIME_FACTOR_UNDER_LOAD", max(1 + slope, 1.0), error, sum(len(level.gaps) for level in levels))
