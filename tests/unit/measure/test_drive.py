"""What is sent follows from the regime alone, and a regime that cannot be driven is not replaced by another."""

from dataclasses import replace

import pytest

from gitops_bot.core.captures import Regime
from gitops_bot.core.errors import ConfigError
from gitops_bot.measure.drive import MAX_CONCURRENCY, MAX_REQUESTS, OWN_WORDS, PREFIX_WORDS, plan, prompt

REGIME = Regime("m", 4, 2, 8, 0, "0.0000")


@pytest.mark.parametrize(("concurrency", "requests"), [(1, 24), (8, 24), (48, 144), (256, MAX_REQUESTS)])
def test_requests_follow_the_concurrency_within_bounds(concurrency: int, requests: int) -> None:
    """The accepting twin: three rounds, at least 24, never without end."""
    assert plan(replace(REGIME, concurrency=concurrency), timeout=1).requests == requests


@pytest.mark.parametrize(
    "change",
    [{"concurrency": 0}, {"concurrency": MAX_CONCURRENCY + 1}, {"max_tokens": 0}, {"long_tokens": 9_999_999}],
)
def test_a_regime_that_cannot_be_driven_is_refused(change: dict[str, int]) -> None:
    """A capture under half of the asked concurrency would carry the name of the whole."""
    with pytest.raises(ConfigError, match="regime"):
        plan(replace(REGIME, **change), timeout=1)


def test_prompts_share_as_many_prefixes_as_the_regime_has() -> None:
    """Prefixes repeat in turn; the rest of each prompt is its own."""
    words = [prompt(REGIME, index, "m").split() for index in range(6)]
    assert len({tuple(text[:PREFIX_WORDS]) for text in words}) == 2
    assert len({tuple(text[PREFIX_WORDS:]) for text in words}) == 6
    assert {len(text) for text in words} == {PREFIX_WORDS + OWN_WORDS}
    assert len(prompt(replace(REGIME, prefixes=0), 0, "m").split()) == OWN_WORDS


@pytest.mark.parametrize(("share", "long"), [("0.0000", 0), ("0.2500", 25), ("0.1235", 12), ("1.0000", 100)])
def test_the_long_share_is_exact_and_spread(share: str, long: int) -> None:
    """`long_frac` of the requests carry `long_tokens` more words, from the first hundred on."""
    regime = replace(REGIME, long_tokens=500, long_frac=share)
    sizes = [len(prompt(regime, index, "m").split()) for index in range(100)]
    assert sum(size > 500 for size in sizes) == long
