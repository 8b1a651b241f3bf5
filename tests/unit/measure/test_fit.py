"""Knobs say what was observed, with how many observations, and nothing that was not."""

from gitops_bot.measure.client import Sample
from gitops_bot.measure.fit import Knob, knobs
from gitops_bot.measure.grammar import Usage

FAILED = Sample(0.0, Usage(), ttft_ms=9999.0, itl_ms=(9999.0,), error="HTTP 500")


def test_knobs_are_means_and_deviations_with_their_counts() -> None:
    """Values that a person can check by hand; a failed request counts nowhere."""
    samples = (Sample(0, Usage(), 10.0, (1.0, 3.0)), Sample(1, Usage(), 14.0, (2.0,)), FAILED)
    assert knobs(samples, 48) == (
        Knob("MOCK_TTFT_MS", "12.000", 2),
        Knob("MOCK_TTFT_STDDEV_MS", "2.828", 2),
        Knob("MOCK_ITL_MS", "2.000", 3),
        Knob("MOCK_ITL_STDDEV_MS", "1.000", 3),
        Knob("MOCK_MAX_NUM_SEQS", "48", 2),
    )


def test_what_was_not_observed_is_left_out() -> None:
    """One token a request has no gap between tokens, and one observation has no deviation."""
    names = [knob.name for knob in knobs((Sample(0, Usage(), 10.0),), 1)]
    assert names == ["MOCK_TTFT_MS", "MOCK_MAX_NUM_SEQS"]
