"""A batch of sequences advances one token a step, and a step costs real CPU time for every sequence in it.

One thread computes (`demo.transformer`); others wait on it. What a capture measures is real: a bounded queue, a cap on
running sequences, a prefix cache of keys and values, prefill that costs by the uncached token, and tokens that come
slower the more sequences run. The text means nothing: one letter a token. HTTP is `demo.inference`'s.
"""

import os
import queue
import threading
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from gitops_bot.demo.transformer import Cache

CACHED_PREFIXES: Final = 32
PREFIX_TOKENS: Final = 24
MAX_CONTEXT: Final = 4096
"""Positions of one sequence; bounds the memory and the work of a request."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Sequences that run at once, requests that may wait, and layers of the transformer."""

    running: int = 16
    waiting: int = 256
    layers: int = 3


@dataclass(slots=True)
class Sequence:
    """A request under way. The engine puts one text a token into `output`, then None; its reader may set `gone`.

    Prompt and `max_tokens` together take at most `MAX_CONTEXT`; the prompt has a word."""

    prompt: tuple[str, ...]
    max_tokens: int
    cached: int = 0
    gone: bool = False
    output: "queue.SimpleQueue[str | None]" = field(default_factory=queue.SimpleQueue)


@dataclass(slots=True)
class _Running:
    sequence: Sequence
    cache: "Cache"
    token: int
    made: int = 1


class Engine:
    """One thread that computes; `submit` from any thread."""

    def __init__(self, settings: Settings) -> None:
        # Read by the library when it is loaded: more threads than the one that computes would measure each other.
        os.putenv("OPENBLAS_NUM_THREADS", "1")
        from gitops_bot.demo.transformer import Transformer

        self._settings = settings
        self._model = Transformer(settings.layers)
        self._waiting: deque[Sequence] = deque()
        self._wake = threading.Condition()
        self._closed = False
        self._prefixes: OrderedDict[tuple[str, ...], Cache] = OrderedDict()
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
        running: list[_Running] = []
        while True:
            with self._wake:
                while not running and not self._waiting and not self._closed:
                    self._wake.wait()
                if self._closed:
                    break
                room = self._settings.running - len(running)
                admitted = [self._waiting.popleft() for _ in range(min(room, len(self._waiting)))]
            running += [self._prefill(sequence) for sequence in admitted]
            running = self._step([entry for entry in running if not self._ended(entry)])
        for sequence in (*(entry.sequence for entry in running), *self._waiting):
            sequence.output.put(None)

    def _step(self, running: list[_Running]) -> list[_Running]:
        """Compute the next token of each sequence, and hand them out together, as a batch ends together."""
        if not running:
            return running
        tokens = self._model.step([entry.token for entry in running], [entry.cache for entry in running])
        for entry, token in zip(running, tokens, strict=True):
            entry.token = token
            entry.made += 1
            entry.sequence.output.put(_letter(token))
        return [entry for entry in running if not self._ended(entry)]

    @staticmethod
    def _ended(entry: _Running) -> bool:
        over = entry.made >= entry.sequence.max_tokens
        if over:
            entry.sequence.output.put(None)
        return over or entry.sequence.gone

    def _prefill(self, sequence: Sequence) -> _Running:
        """Compute a prompt, all but a prefix that is cached, and hand out the first token."""
        words = sequence.prompt
        prefix = words[:PREFIX_TOKENS] if len(words) > PREFIX_TOKENS else ()
        known = self._prefixes.get(prefix)
        cache = self._model.cache(len(words) + sequence.max_tokens, known)
        sequence.cached = cache.length
        token = self._model.prefill(words, cache)
        if prefix:
            self._remember(prefix, cache)
        sequence.output.put(_letter(token))
        return _Running(sequence, cache, token)

    def _remember(self, prefix: tuple[str, ...], cache: "Cache") -> None:
        if prefix not in self._prefixes:
            held = self._model.cache(PREFIX_TOKENS)
            held.keys[:], held.values[:] = cache.keys[:, :PREFIX_TOKENS], cache.values[:, :PREFIX_TOKENS]
            held.length = PREFIX_TOKENS
            self._prefixes[prefix] = held
        self._prefixes.move_to_end(prefix)
        if len(self._prefixes) > CACHED_PREFIXES:
            self._prefixes.popitem(last=False)


def _letter(token: int) -> str:
    return chr(ord("a") + token % 26)
