"""A small decoder-only transformer over fixed random weights: real matrix products, attention and a KV cache, no sense.

A word is a token. `prefill` computes the positions of a prompt that a copied prefix does not hold; `step` computes one
more position of each of several sequences, their matrices multiplied together, as an inference engine does.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

WIDTH: Final = 256
HEADS: Final = 4
VOCABULARY: Final = 512
_HEAD: Final = WIDTH // HEADS

Array = NDArray[np.float32]


@dataclass(slots=True)
class Cache:
    """Keys and values of a sequence, `[layer, position, width]`; the first `length` positions are computed."""

    keys: Array
    values: Array
    length: int = 0


class Transformer:
    """The weights; the same for the same number of layers."""

    def __init__(self, layers: int) -> None:
        chance = np.random.default_rng(20240229)

        def weights(*shape: int) -> Array:
            found: Array = (chance.standard_normal(shape) / np.sqrt(shape[-2])).astype(np.float32)
            return found

        self._layers = layers
        self._embedding = weights(VOCABULARY, WIDTH)
        self._output = np.ascontiguousarray(self._embedding.T)
        self._projected = weights(layers, WIDTH, 3 * WIDTH)
        self._joined = weights(layers, WIDTH, WIDTH)
        self._widened = weights(layers, WIDTH, 4 * WIDTH)
        self._narrowed = weights(layers, 4 * WIDTH, WIDTH)

    def cache(self, positions: int, prefix: Cache | None = None) -> Cache:
        """Make room for a sequence, with the computed positions of a prefix copied in."""
        shape = (self._layers, positions, WIDTH)
        made = Cache(np.empty(shape, np.float32), np.empty(shape, np.float32))
        if prefix is not None:
            made.keys[:, : prefix.length] = prefix.keys[:, : prefix.length]
            made.values[:, : prefix.length] = prefix.values[:, : prefix.length]
            made.length = prefix.length
        return made

    def prefill(self, words: Sequence[str], cache: Cache) -> int:
        """Compute the positions that the cache lacks; give the next token. At least the last word must be lacking."""
        state = self._embedding[[zlib.crc32(word.encode()) % VOCABULARY for word in words[cache.length :]]]
        begin, end = cache.length, len(words)
        future = np.arange(end)[None, :] > np.arange(begin, end)[:, None]
        for layer in range(self._layers):
            queries, keys, values = np.split(_normed(state) @ self._projected[layer], 3, axis=1)
            cache.keys[layer, begin:end], cache.values[layer, begin:end] = keys, values
            seen = np.empty_like(state)
            for head in range(HEADS):
                part = slice(head * _HEAD, (head + 1) * _HEAD)
                scores = queries[:, part] @ cache.keys[layer, :end, part].T / np.float32(_HEAD**0.5)
                scores[future] = -np.inf
                seen[:, part] = _shares(scores) @ cache.values[layer, :end, part]
            state = self._rest(layer, state, seen)
        cache.length = end
        return int(np.argmax(_normed(state[-1:]) @ self._output))

    def step(self, tokens: Sequence[int], caches: Sequence[Cache]) -> list[int]:
        """Compute one more position of each sequence, of its last token; give the next tokens."""
        state = self._embedding[list(tokens)]
        for layer in range(self._layers):
            queries, keys, values = np.split(_normed(state) @ self._projected[layer], 3, axis=1)
            seen = np.empty_like(state)
            for place, cache in enumerate(caches):
                end = cache.length + 1
                cache.keys[layer, end - 1], cache.values[layer, end - 1] = keys[place], values[place]
                held = cache.keys[layer, :end].reshape(end, HEADS, _HEAD).transpose(1, 0, 2)
                scores = held @ queries[place].reshape(HEADS, _HEAD, 1) / np.float32(_HEAD**0.5)
                worth = cache.values[layer, :end].reshape(end, HEADS, _HEAD).transpose(1, 0, 2)
                seen[place] = (_shares(scores[:, :, 0])[:, None, :] @ worth).reshape(WIDTH)
            state = self._rest(layer, state, seen)
        for cache in caches:
            cache.length += 1
        return [int(token) for token in np.argmax(_normed(state) @ self._output, axis=1)]

    def _rest(self, layer: int, state: Array, seen: Array) -> Array:
        state = state + seen @ self._joined[layer]
        wide = np.maximum(_normed(state) @ self._widened[layer], 0)
        found: Array = state + wide @ self._narrowed[layer]
        return found


def _normed(state: Array) -> Array:
    found: Array = state / np.sqrt((state * state).mean(axis=1, keepdims=True) + np.float32(1e-6))
    return found


def _shares(scores: Array) -> Array:
    raised = np.exp(scores - scores.max(axis=-1, keepdims=True))
    found: Array = raised / raised.sum(axis=-1, keepdims=True)
    return found
