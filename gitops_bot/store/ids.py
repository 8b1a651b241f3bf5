"""Ids are lower-case ULIDs: they sort by the time of their transaction and, made by one process, by their order.

Within one millisecond each is the one before plus a random step of up to 2**56 (ULID specification, "Monotonicity"), so
that what an agent asks in one turn keeps its order and nobody counts from one id to the next. They are no secret.
"""

import os
import threading
from typing import Final

_LETTERS: Final = "0123456789abcdefghjkmnpqrstvwxyz"
_TWO: Final = tuple(first + second for first in _LETTERS for second in _LETTERS)
_RANDOM: Final = 1 << 80
_STEP: Final = 7
"""Random bytes of a step: over a million ids fit behind the smallest half of first ones, in one millisecond."""
_REMEMBERED: Final = 256
"""Milliseconds whose last id is kept: transactions of several threads make theirs by turns."""

_lock = threading.Lock()
_last: dict[int, tuple[str, int]] = {}


def new_id(now: int) -> str:
    """Make an id for something that happens at `now` (milliseconds since 1970 UTC)."""
    with _lock:
        found = _last.get(now)
        if found is None:
            while len(_last) >= _REMEMBERED:
                del _last[next(iter(_last))]
            # The upper half of a millisecond is left to those that follow.
            written, last = _written(now, 10), int.from_bytes(os.urandom(10), "big") >> 1
        else:
            written, last = found[0], found[1] + 1 + int.from_bytes(os.urandom(_STEP), "big")
        if last >= _RANDOM:
            raise RuntimeError("more ids in one millisecond than it has")
        _last[now] = (written, last)
    return written + _written(last, 16)


def _written(number: int, letters: int) -> str:
    two = _TWO
    return "".join([two[number >> shift & 1023] for shift in range((letters - 2) * 5, -1, -10)])
