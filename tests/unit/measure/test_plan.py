"""What is sent follows from the regime alone, and a regime that cannot be driven is not replaced by another."""

from dataclasses import replace

import pytest

from gitops_bot.core.captures import Regime
from gitops_bot.core.errors import ConfigError
from gitops_bot.measure.plan import MAX_CONCURRENCY, MAX_REQUESTS, OWN_WORDS, PREFIX_WORDS, Round, lengths, plan, prompt

REGIME = Regime("m", 4, 2, 8, 0, "0.0000")
LOAD = Round("load", 4, 24, 8)
PREFILL = Round("prefill", 1, 24, 1)


@pytest.mark.parametrize(
    ("concurrency", "loads"),
    [
        (1, [(1, 24), (2, 24), (3, 24)]),
        (2, [(1, 24), (2, 24), (3, 24)]),
        (3, [(1, 24), (2, 24), (3, 24)]),
        (8, [(1, 24), (4, 24), (8, 24)]),
        (48, [(1, 24), (24, 72), (48, 144)]),
        (256, [(1, 24), (128, 384), (256, MAX_REQUESTS)]),
    ],
)
def test_rounds_follow_the_concurrency_within_bounds(concurrency: int, loads: list[tuple[int, int]]) -> None:
    """The accepting twin: warm-up, prefill alone, then at least three loads of three rounds each, never without end."""
    warm_up, prefill, *rest = plan(replace(REGIME, concurrency=concurrency), timeout=1).rounds
    assert (warm_up.kind, prefill.kind, prefill.concurrency) == ("warm_up", "prefill", 1)
    assert [(one.concurrency, one.requests) for one in rest] == loads


def test_the_warm_up_sends_every_prefix_once() -> None:
    """Else the first records of a load would hold prefills that the later ones do not."""
    warm_up = plan(replace(REGIME, prefixes=20), timeout=1).rounds[0]
    assert {prompt(replace(REGIME, prefixes=20), index, warm_up).split()[0] for index in range(warm_up.requests)} == {
        f"p{prefix}w0" for prefix in range(20)
    }


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
    words = [prompt(REGIME, index, LOAD).split() for index in range(6)]
    assert len({tuple(text[:PREFIX_WORDS]) for text in words}) == 2
    assert len({tuple(text[PREFIX_WORDS:]) for text in words}) == 6
    assert {len(text) for text in words} == {PREFIX_WORDS + OWN_WORDS}
    assert len(prompt(replace(REGIME, prefixes=0), 0, LOAD).split()) == OWN_WORDS


def test_no_prompt_of_one_round_is_cached_by_another() -> None:
    """What a request has of its own, no earlier one has sent."""
    rounds = plan(replace(REGIME, prefixes=0), timeout=1).rounds
    words = [prompt(replace(REGIME, prefixes=0), index, one).split()[0] for one in rounds for index in range(8)]
    assert len(set(words)) == len(words)


def test_prompts_of_the_prefill_round_have_several_lengths_and_nothing_in_common() -> None:
    """A line through one length says nothing, and a shared word may be cached."""
    texts = [prompt(REGIME, index, PREFILL).split() for index in range(12)]
    assert sorted({len(text) for text in texts}) == list(lengths(REGIME))
    assert len({text[0] for text in texts}) == 12
    assert lengths(replace(REGIME, long_tokens=1000))[-1] == 1000


@pytest.mark.parametrize(("share", "long"), [("0.0000", 0), ("0.2500", 25), ("0.1235", 12), ("1.0000", 100)])
def test_the_long_share_is_exact_and_spread(share: str, long: int) -> None:
    """`long_frac` of the requests carry `long_tokens` more words, from the first hundred on."""
    regime = replace(REGIME, long_tokens=500, long_frac=share)
    sizes = [len(prompt(regime, index, LOAD).split()) for index in range(100)]
    assert sum(size > 500 for size in sizes) == long
