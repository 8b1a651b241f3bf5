"""Knobs were read off the samples of one concurrency, each with the number of observations behind it.

These are plain means and sample standard deviations of what was observed under load; they separate neither queueing
from prefill nor load from base time. A fit over several concurrencies adds knobs here without changing these.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from gitops_bot.measure.client import Sample


@dataclass(frozen=True, slots=True)
class Knob:
    """A setting of a mock endpoint: a decimal string in the unit that its name says, and its sample count."""

    name: str
    value: str
    samples: int


def knobs(samples: Sequence[Sample], concurrency: int) -> tuple[Knob, ...]:
    """Compute the knobs from the requests that succeeded; one without enough observations is left out, not guessed.

    A mean needs one observation, a deviation two.
    """
    good = [sample for sample in samples if sample.error is None and sample.ttft_ms is not None]
    first = [sample.ttft_ms for sample in good if sample.ttft_ms is not None]
    gaps = [gap for sample in good for gap in sample.itl_ms]
    found = [*_moments("MOCK_TTFT", first), *_moments("MOCK_ITL", gaps)]
    return (*found, Knob("MOCK_MAX_NUM_SEQS", str(concurrency), len(good)))


def _moments(name: str, values: Sequence[float]) -> list[Knob]:
    found: list[Knob] = []
    if values:
        found.append(Knob(f"{name}_MS", f"{statistics.fmean(values):.3f}", len(values)))
    if len(values) > 1:
        found.append(Knob(f"{name}_STDDEV_MS", f"{statistics.stdev(values):.3f}", len(values)))
    return found
