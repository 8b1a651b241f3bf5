"""A fuzzer that keeps what behaves in a new way: bytes and structure of known inputs are changed, and changed again.

A subject takes any bytes and gives a word for what it did with them; raising anything is a failure. A behaviour is such
a word. What is fuzzed runs in this process, so a change of its behaviour is all that is seen of it, not its lines.
"""

import hashlib
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

FOUND: Final = Path(__file__).parents[2] / ".run" / "fuzz"
MOST: Final = 128 * 1024
"""Bytes of an input; every reader's cap is below, so that what is above one is tried too."""
SLOW: Final = 5.0
"""Seconds of processor time that no input of that size may take."""
_CORPUS: Final = 2_000
_NUMBERS: Final = (0, 1, 2, 0x7F, 0x80, 0xFF, 0xFFFF, 0x7FFF_FFFF, 0xFFFF_FFFF)
_SAID: Final = re.compile(r"'[^']*'|\"[^\"]*\"|[0-9A-Fa-f]{6,}|\d+")


@dataclass(frozen=True, slots=True)
class Subject:
    """What is fuzzed. `parts` takes an input apart where its structure is, so that parts are dropped, doubled and
    moved; joined they are the input again. `words` are put in anywhere."""

    name: str
    corpus: Sequence[bytes]
    run: Callable[[bytes], str]
    parts: Callable[[bytes], list[bytes]]
    words: Sequence[bytes] = ()


@dataclass(slots=True)
class Tally:
    """What a run did."""

    executions: int = 0
    seconds: float = 0.0
    behaviours: dict[str, int] = field(default_factory=dict)


class Broken(AssertionError):
    """An input that raised something, or took too long; it is kept in a file."""


def word_of(value: object) -> str:
    """Give a word for a value or an error: its type, and its words without what was quoted or counted."""
    return f"{type(value).__name__} {_SAID.sub('#', str(value))[:160]}"


def fuzz(subject: Subject, seed: str, enough: Callable[[Tally], bool]) -> Tally:
    """Run a subject on its corpus and on changes of it until it is enough.

    Raises:
        Broken: an input raised or took too long.
    """
    rng, corpus, tally = Random(seed), list(subject.corpus), Tally()
    begun = time.monotonic()
    for content in subject.corpus:
        _once(subject, content, tally)
    while not enough(tally):
        content = _changed(rng.choice(corpus), corpus, subject, rng)[:MOST]
        if _once(subject, content, tally) and len(corpus) < _CORPUS:
            corpus.append(content)
        tally.seconds = time.monotonic() - begun
    return tally


def _once(subject: Subject, content: bytes, tally: Tally) -> bool:
    """Run it once; tell whether it behaved in a new way."""
    begun = time.process_time()
    try:
        said = subject.run(content)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a panic of native code is no Exception
        raise Broken(f"{subject.name}: {error!r} of the input in {_kept(subject, content)}") from error
    took = time.process_time() - begun
    if took > SLOW:
        raise Broken(f"{subject.name}: {took:.1f} s for the input in {_kept(subject, content)}")
    tally.executions += 1
    tally.behaviours[said] = tally.behaviours.get(said, 0) + 1
    return tally.behaviours[said] == 1


def _kept(subject: Subject, content: bytes) -> Path:
    FOUND.mkdir(parents=True, exist_ok=True)
    path = FOUND / f"{subject.name.replace(' ', '-')}-{hashlib.sha256(content).hexdigest()[:16]}"
    path.write_bytes(content)
    return path


def _changed(content: bytes, corpus: Sequence[bytes], subject: Subject, rng: Random) -> bytes:
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        if rng.random() < 0.4:
            content = _restructured(subject.parts(content), corpus, subject, rng)
        else:
            content = _rewritten(content, subject, rng)
    return content


def _restructured(parts: list[bytes], corpus: Sequence[bytes], subject: Subject, rng: Random) -> bytes:
    """Drop, double, move, take in or change whole parts."""
    if not parts:
        return rng.choice(corpus)
    at, to = rng.randrange(len(parts)), rng.randrange(len(parts) + 1)
    how = rng.randrange(6)
    if how == 0:
        del parts[at]
    elif how == 1:
        parts[at:at] = [parts[at]] * rng.choice((1, 1, 2, 50))
    elif how == 2:
        parts.insert(to, parts.pop(at))
    elif how == 3:
        others = subject.parts(rng.choice(corpus))
        parts[to:to] = others[rng.randrange(len(others) + 1) :][: rng.randrange(1, 4)]
    elif how == 4:
        others = subject.parts(rng.choice(corpus))
        parts[at:] = others[min(at, len(others)) :]
    else:
        parts[at] = _rewritten(parts[at], subject, rng)
    return b"".join(parts)


def _rewritten(content: bytes, subject: Subject, rng: Random) -> bytes:
    """Change, put in or take out octets, numbers and words."""
    at = rng.randrange(len(content) + 1)
    end = min(len(content), at + rng.choice((1, 1, 2, 4, 16, 64)))
    how = rng.randrange(7)
    if how == 0 and at < len(content):
        return content[:at] + bytes([content[at] ^ (1 << rng.randrange(8))]) + content[at + 1 :]
    if how == 1:
        return content[:at] + content[end:]
    if how == 2:
        return content[:at] + content[at:end] * 2 + content[end:]
    if how == 3:
        width = rng.choice((1, 2, 4))
        number = (rng.choice(_NUMBERS) + rng.randrange(-1, 2)) % (1 << 8 * width)
        return content[:at] + number.to_bytes(width, "big") + content[at + width :]
    if how == 4 and subject.words:
        over = rng.choice((at, end))
        return content[:at] + rng.choice(subject.words) + content[over:]
    if how == 5:
        return content[:at]
    return content[:at] + rng.randbytes(rng.choice((1, 2, 5))) + content[rng.choice((at, end)) :]
