"""Deliveries, committed in groups by one thread: what comes within a few milliseconds shares one transaction.

A delivery is answered for once its transaction is durable, and never before. How many wait is bounded.
"""

import asyncio
import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from gitops_bot.core.errors import Unavailable
from gitops_bot.forge.hooks.grammar import Hint

MOST_WAITING: Final = 2_048
MOST_TOGETHER: Final = 128
COLLECT_SECONDS: Final = 0.002
MOST_TRIES: Final = 3
_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Delivery:
    """One delivery that was signed: the forge's id for it, the digest of its bytes, the event's name, what it told."""

    guid: str
    digest: str
    event: str
    hint: Hint


Commit = Callable[[Sequence[Delivery]], None]
"""Commits deliveries in one transaction; raises `Unavailable`."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    delivery: Delivery
    loop: asyncio.AbstractEventLoop
    done: "asyncio.Future[bool]"


class Writer:
    """The thread and its queue."""

    def __init__(self, commit: Commit, *, most: int = MOST_WAITING, collect: float = COLLECT_SECONDS) -> None:
        self._commit = commit
        self._collect = collect
        self._queue: queue.Queue[_Waiting | None] = queue.Queue(most)
        self._thread = threading.Thread(target=self._run, name="webhooks", daemon=True)
        self._thread.start()

    def put(self, delivery: Delivery) -> "asyncio.Future[bool] | None":
        """Queue a delivery; gives what tells whether it was committed, None where too many wait or nobody writes."""
        if not self._thread.is_alive():
            return None
        loop = asyncio.get_running_loop()
        waiting = _Waiting(delivery, loop, loop.create_future())
        try:
            self._queue.put_nowait(waiting)
        except queue.Full:
            return None
        return waiting.done

    def close(self, seconds: float = 5.0) -> None:
        """Commit what waits and end the thread."""
        self._queue.put(None)
        self._thread.join(seconds)

    def _run(self) -> None:
        while (first := self._queue.get()) is not None:
            time.sleep(self._collect)
            together, is_last = [first], False
            while len(together) < MOST_TOGETHER and not is_last:
                try:
                    following = self._queue.get_nowait()
                except queue.Empty:
                    break
                if following is None:
                    is_last = True
                else:
                    together.append(following)
            committed = False
            try:
                committed = self._try([one.delivery for one in together])
            finally:
                _tell(together, committed)
            if is_last:
                return

    def _try(self, deliveries: Sequence[Delivery]) -> bool:
        for _ in range(MOST_TRIES):
            try:
                self._commit(deliveries)
            except Unavailable as error:
                _log.warning("webhooks: %s", error)
            else:
                return True
        return False


def _tell(together: Sequence[_Waiting], committed: bool) -> None:
    def tell() -> None:
        for one in together:
            if not one.done.done():
                one.done.set_result(committed)

    try:
        together[0].loop.call_soon_threadsafe(tell)
    except RuntimeError:
        return  # the loop ended; nobody waits for an answer
