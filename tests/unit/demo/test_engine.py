"""The demo's model computes what a transformer computes: a cache changes nothing, and a batch is its members."""

import time
import zlib
from collections.abc import Iterator

import numpy as np
import pytest

from gitops_bot.demo.engine import Engine, Sequence, Settings
from gitops_bot.demo.transformer import Transformer

WORDS = [f"w{number}" for number in range(40)]


@pytest.fixture(scope="module")
def model() -> Transformer:
    return Transformer(2)


@pytest.fixture
def engine() -> Iterator[Engine]:
    made = Engine(Settings(running=2, waiting=3, layers=1))
    made.start()
    yield made
    made.close()


def text(sequence: Sequence) -> str:
    found = ""
    while (letter := sequence.output.get(timeout=10)) is not None:
        found += letter
    return found


def test_a_cached_prefix_gives_the_same_keys_values_and_token(model: Transformer) -> None:
    """What is not computed again is what was computed before."""
    whole = model.cache(50)
    token = model.prefill(WORDS, whole)
    prefix = model.cache(24)
    model.prefill(WORDS[:24], prefix)
    rest = model.cache(50, prefix)
    assert rest.length == 24
    assert model.prefill(WORDS, rest) == token
    assert np.allclose(rest.keys[:, :40], whole.keys[:, :40], atol=1e-4)
    assert np.allclose(rest.values[:, :40], whole.values[:, :40], atol=1e-4)


def test_a_step_computes_what_a_prefill_of_one_more_word_would(model: Transformer) -> None:
    """The KV cache holds all of the past: a position computed alone is as if computed with the others."""
    stepped, whole = model.cache(50), model.cache(50)
    model.prefill(WORDS[:-1], stepped)
    token = zlib.crc32(WORDS[-1].encode()) % 512
    assert model.step([token], [stepped]) == [model.prefill(WORDS, whole)]
    assert np.allclose(stepped.keys[:, :40], whole.keys[:, :40], atol=1e-4)


def test_a_batch_is_its_members(model: Transformer) -> None:
    """Who else runs changes how long a token takes, never which."""
    alone, together = [], [model.cache(50) for _ in range(3)]
    tokens = [model.prefill(WORDS[: 10 + number], cache) for number, cache in enumerate(together)]
    for number in range(3):
        cache = model.cache(50)
        first = model.prefill(WORDS[: 10 + number], cache)
        alone += model.step([first], [cache])
    assert model.step(tokens, together) == alone


def test_sequences_end_after_their_tokens_and_prefixes_are_cached(engine: Engine) -> None:
    """One letter a token, the same for the same prompt; the second time the prefix is not computed."""
    first, second = Sequence(tuple(WORDS), 5), Sequence(tuple(WORDS), 5)
    for sequence in (first, second):
        assert engine.submit(sequence)
    assert len(text(first)) == 5
    assert text(second) == text_again(engine)
    assert (first.cached, second.cached) == (0, 24)


def text_again(engine: Engine) -> str:
    sequence = Sequence(tuple(WORDS), 5)
    assert engine.submit(sequence)
    return text(sequence)


def test_a_full_queue_refuses_and_a_closed_engine_ends_who_waits() -> None:
    """Bounded work: three wait, the fourth is told no; nobody waits for ever."""
    made = Engine(Settings(running=1, waiting=3, layers=1))
    sequences = [Sequence(("a",), 3) for _ in range(4)]
    assert [made.submit(sequence) for sequence in sequences] == [True, True, True, False]
    made.start()
    assert len(text(sequences[0])) == 3
    made.close()
    assert not made.submit(Sequence(("a",), 1))
    for sequence in sequences[1:3]:
        assert len(text(sequence)) <= 3


def test_a_reader_that_left_frees_its_place(engine: Engine) -> None:
    """A client that closed its connection is not computed for any longer."""
    gone = [Sequence(("a", "b"), 400) for _ in range(2)]
    for sequence in gone:
        assert engine.submit(sequence)
        sequence.output.get(timeout=10)
        sequence.gone = True
    began = time.monotonic()
    next_one = Sequence(("c",), 2)
    assert engine.submit(next_one)
    assert len(text(next_one)) == 2
    assert time.monotonic() - began < 10
