"""Long polls wait here: a bounded number of threads, no connection held, each look short.

Above the bound a poll is answered at once, so that polls cannot take every thread from those who ask and cancel.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

MOST_WAITING: Final = 16
LOOK_SECONDS: Final = 0.25
GONE: Final = "gitops_bot.gone"
"""Key of an environ: tells, when called, whether nobody waits for the answer any longer, or this process is to end."""


class Waiting:
    """The seats of long polls in this process."""

    def __init__(self, most: int = MOST_WAITING, look: float = LOOK_SECONDS) -> None:
        self._seats = threading.BoundedSemaphore(most)
        self._look = look

    def until(self, happened: Callable[[], bool], seconds: float, gone: Callable[[], bool]) -> None:
        """Sleep until something happened, the time is over, or whoever waits is gone; at once when no seat is free."""
        with self._seat() as seated:
            end = time.monotonic() + seconds if seated else 0.0
            while (left := end - time.monotonic()) > 0 and not gone():
                time.sleep(min(self._look, left))
                if happened():
                    return

    @contextmanager
    def _seat(self) -> Iterator[bool]:
        seated = self._seats.acquire(blocking=False)
        try:
            yield seated
        finally:
            if seated:
                self._seats.release()
