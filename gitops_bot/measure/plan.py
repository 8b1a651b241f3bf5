"""What is sent follows from the regime alone: rounds of requests, and the words of each prompt. Pure.

Whoever knows the regime can say what was driven; a regime that this program cannot drive is refused, not replaced.
"""

from dataclasses import dataclass
from typing import Final

from gitops_bot.core.captures import Regime
from gitops_bot.core.errors import ConfigError

MAX_CONCURRENCY: Final = 256
MAX_REQUESTS: Final = 768
MAX_PROMPT: Final = 131_072
WARM_UP: Final = 8
MAX_WARM_UP: Final = 64
PREFIX_WORDS: Final = 24
OWN_WORDS: Final = 8
LENGTHS: Final = 6
"""How many lengths of prompt the prefill round has; two tell a line, more tell how well it fits."""
A_LENGTH: Final = 4
SHORTEST: Final = 16
LONGEST: Final = 256
MAX_LONGEST: Final = 4096


@dataclass(frozen=True, slots=True)
class Round:
    """Requests sent at one concurrency. `kind` ∈ warm_up (not recorded), prefill, load; `max_tokens` of each."""

    kind: str
    concurrency: int
    requests: int
    max_tokens: int


@dataclass(frozen=True, slots=True)
class Plan:
    """The rounds in their order, the regime's own concurrency last, and the seconds one request may take."""

    rounds: tuple[Round, ...]
    timeout: float


def plan(regime: Regime, *, timeout: float) -> Plan:
    """Decide what a regime takes: a warm-up, prompts of several lengths one at a time, then at least three loads.

    A load has three requests for each concurrent one, at least 24, at most `MAX_REQUESTS`.

    Raises:
        ConfigError: a regime that this program cannot drive; measuring another one instead would be a lie.
    """
    if not 1 <= regime.concurrency <= MAX_CONCURRENCY:
        raise ConfigError(f"regime: concurrency must be from 1 to {MAX_CONCURRENCY} here")
    if regime.max_tokens < 1:
        raise ConfigError("regime: max_tokens must be at least 1, or there is nothing to time")
    if regime.long_tokens > MAX_PROMPT:
        raise ConfigError(f"regime: long_tokens must be at most {MAX_PROMPT} here")
    # Every prefix is sent once before anything is measured: what is cached then is cached from the first record on.
    warm = max(min(regime.concurrency, WARM_UP), min(regime.prefixes, MAX_WARM_UP))
    loads = tuple(
        Round("load", level, min(max(3 * level, 24), MAX_REQUESTS), regime.max_tokens)
        for level in levels(regime.concurrency)
    )
    warm_up = Round("warm_up", min(regime.concurrency, WARM_UP), warm, regime.max_tokens)
    return Plan((warm_up, Round("prefill", 1, LENGTHS * A_LENGTH, 1), *loads), timeout)


def levels(concurrency: int) -> tuple[int, ...]:
    """Give the concurrencies that are driven: one, the middle, and the regime's own as the last.

    A regime of one or two has no three levels below it: it is driven above its own too, which then is not the last.
    """
    if concurrency < 3:
        return (1, 2, 3)
    return (1, (1 + concurrency) // 2, concurrency)


def lengths(regime: Regime) -> tuple[int, ...]:
    """Give the prompt lengths of the prefill round, in words, evenly apart."""
    longest = min(max(LONGEST, regime.long_tokens), MAX_LONGEST)
    return tuple(SHORTEST + (longest - SHORTEST) * step // (LENGTHS - 1) for step in range(LENGTHS))


def prompt(regime: Regime, index: int, sent: Round) -> str:
    """Write the prompt of a request of a round.

    A load's prompt has one of the regime's shared prefixes and words of its own; a share `long_frac` of the requests,
    spread evenly, carries `long_tokens` more words. A prompt of the prefill round shares nothing with any other. A
    word is meant as a token; what the endpoint counted is in the record.
    """
    name = f"{sent.kind[0]}{sent.concurrency}n{index}"
    if sent.kind == "prefill":
        return " ".join(f"{name}w{word}" for word in range(lengths(regime)[index % LENGTHS]))
    parts: list[str] = []
    if regime.prefixes:
        parts += [f"p{index % regime.prefixes}w{word}" for word in range(PREFIX_WORDS)]
    parts += [f"{name}w{word}" for word in range(OWN_WORDS)]
    share = min(round(float(regime.long_frac) * 10_000), 10_000)
    if (index + 1) * share // 10_000 > index * share // 10_000:
        parts += [f"{name}l{word}" for word in range(regime.long_tokens)]
    return " ".join(parts)
