"""A batch of sequences advances one token a step, and a step costs real CPU time for every sequence in it.

The arithmetic is a small pure-Python stack of matrix products over fixed weights. It is no language model: the text
is one letter a token, the same for the same prompt. What is real is what a capture measures: a bounded queue, a cap on
running sequences, a prefix cache, prefill that costs by the uncached token, and tokens that come slower the more
sequences run. HTTP is `demo.inference`'s.
"""

import queue
import threading
import zlib
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from operator import mul
from typing import Final

WIDTH: Final = 24
PREFILL_SHARE: Final = 8
"""So many prompt tokens cost as much as one generated token: prompts are computed in parallel, output is not."""
CACHED_PREFIXES: Final = 32
PREFIX_TOKENS: Final = 24


@dataclass(frozen=True, slots=True)
class Settings:
    """Sequences that run at once, requests that may wait, and matrix products a token costs."""

    running: int = 16
    waiting: int = 256
    layers: int = 12


@dataclass(slots=True)
class Sequence:
    """A request under way. The engine puts one text a token into `output`, then None; its reader may set `gone`."""

    prompt: tuple[str, ...]
    max_tokens: int
    cached: int = 0
    gone: bool = False
    output: "queue.SimpleQueue[str | None]" = field(default_factory=queue.SimpleQueue)


class Engine:
    """One thread that computes; `submit` from any thread."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._waiting: deque[Sequence] = deque()
        self._wake = threading.Condition()
        self._closed = False
        self._cache: OrderedDict[tuple[str, ...], None] = OrderedDict()
        self._matrix = [
            [(((row * 31 + column * 17) % 23) - 11) / 64 for column in range(WIDTH)] for row in range(WIDTH)
        ]
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

    def start(self) -> None:
        """Begin to compute."""
        self._thread.start()

    def close(self) -> None:
        """Stop after the current step; what still waits gets its end."""
        with self._wake:
            self._closed = True
            self._wake.notify()
        self._thread.join()

    def submit(self, sequence: Sequence) -> bool:
        """Queue a sequence; False when the queue is full or the engine closed."""
        with self._wake:
            if self._closed or len(self._waiting) >= self._settings.waiting:
                return False
            self._waiting.append(sequence)
            self._wake.notify()
            return True

    def _run(self) -> None:
        running: list[tuple[Sequence, list[float], int]] = []
        while True:
            with self._wake:
                while not running and not self._waiting and not self._closed:
                    self._wake.wait()
                if self._closed:
                    break
                room = self._settings.running - len(running)
                admitted = [self._waiting.popleft() for _ in range(min(room, len(self._waiting)))]
            running += [(sequence, self._prefill(sequence), 0) for sequence in admitted]
            running = self._step(running)
        for sequence in (*(entry[0] for entry in running), *self._waiting):
            sequence.output.put(None)

    def _step(self, running: list[tuple[Sequence, list[float], int]]) -> list[tuple[Sequence, list[float], int]]:
        """Compute the next token of each sequence, and hand them out together, as a batch ends together."""
        advanced = [
            (sequence, self._layers(state, self._settings.layers), made + 1)
            for sequence, state, made in running
            if not sequence.gone
        ]
        for sequence, state, made in advanced:
            sequence.output.put(chr(ord("a") + int(abs(state[made % WIDTH]) * 1e6) % 26))
            if made >= sequence.max_tokens:
                sequence.output.put(None)
        return [entry for entry in advanced if entry[2] < entry[0].max_tokens]

    def _prefill(self, sequence: Sequence) -> list[float]:
        prefix = sequence.prompt[:PREFIX_TOKENS]
        if prefix in self._cache:
            sequence.cached = len(prefix)
        self._cache[prefix] = None
        self._cache.move_to_end(prefix)
        if len(self._cache) > CACHED_PREFIXES:
            self._cache.popitem(last=False)
        seed = zlib.crc32(" ".join(sequence.prompt).encode())
        state = [((seed >> (index % 24)) & 0xFF) / 256 + 0.01 for index in range(WIDTH)]
        uncached = len(sequence.prompt) - sequence.cached
        return self._layers(state, self._settings.layers * uncached // PREFILL_SHARE)

    def _layers(self, state: list[float], count: int) -> list[float]:
        for _ in range(count):
            product = [sum(map(mul, row, state)) for row in self._matrix]
            norm = 1e-9 + max(map(abs, product))
            state = [value / norm for value in product]
        return state
