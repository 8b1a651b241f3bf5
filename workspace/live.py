"""What was sealed, told to everybody who watches, in sealed order and without a gap; nothing happens while nobody does.

One reader follows the ledger and keeps the newest messages in one bounded ring that all watches share; each watch is no
more than a place in that order, and reads from the database itself what the ring no longer has. So a slow watch costs
what a quick one costs, and no watch ever skips. In the same rounds one look asks for all of them whether their sessions
still stand; a watch whose session does not, or of which that is not known for `UNKNOWN_SECONDS`, ends.
"""

import asyncio
import contextlib
import json
import logging
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Final, Protocol, TypeVar

from gitops_bot.core.errors import Unavailable

LOOK_SECONDS: Final = 0.2
RECHECK_SECONDS: Final = 1.5
UNKNOWN_SECONDS: Final = 3.5
"""How long streams stay open while the database does not say whether their sessions stand."""
BATCH: Final = 500
RING: Final = 4_096
MOST_WATCHES: Final = 600
MOST_OF_SESSION: Final = 8
_log: Final = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Told:
    """One sealed entry as watches are told it: its place and ids, nothing of what is in it."""

    seq: int
    kind: str
    ask: str | None
    agent: str | None
    capture: str | None

    def message(self) -> bytes:
        """Give it as one server-sent event."""
        names = ("seq", "kind", "ask", "agent", "capture")
        document = json.dumps({name: getattr(self, name) for name in names}, separators=(",", ":"))
        return f"id: {self.seq}\ndata: {document}\n\n".encode("ascii")


class Source(Protocol):
    """Where a hub reads, in one thread of its own."""

    def head(self) -> int:
        """Give the place of the newest sealed entry."""

    def after(self, seq: int, limit: int) -> list[Told]:
        """Read sealed entries after a place, in order."""

    def still(self, sessions: Collection[str]) -> Collection[str]:
        """Tell which sessions still stand for a person."""


class Full(Exception):
    """There are as many watches as may be, of this session or in all."""


class Watch:
    """One reader's place in the sealed order. `begun` is the place it started after; `reset`: it asked for a later one
    than there is."""

    def __init__(self, hub: "Hub", session: str, place: int, *, reset: bool) -> None:
        self.session = session
        self.begun = place
        self.reset = reset
        self.ended: str | None = None
        self._hub = hub
        self._place = place
        self._wake = asyncio.Event()

    def wake(self) -> None:
        """Let it look again."""
        self._wake.set()

    def end(self, why: str) -> None:
        """Let it end; the first reason stays."""
        self.ended = self.ended or why
        self._wake.set()

    def _over(self) -> bool:
        return self.ended is not None

    async def next(self, seconds: float) -> bytes | None:
        """Give what was sealed since, as messages; empty when nothing was for so many seconds, None at the end."""
        while not self._over():
            self._wake.clear()
            self._place, found = await self._hub.since(self._place)
            if found and not self._over():
                return found
            try:
                async with asyncio.timeout(seconds):
                    await self._wake.wait()
            except TimeoutError:
                return b""
        return None


class Hub:
    """The one reader and all who watch. Lives in one event loop."""

    def __init__(self, source: Source, *, look: float = LOOK_SECONDS, recheck: float = RECHECK_SECONDS) -> None:
        self._source = source
        self._look, self._recheck = look, recheck
        self._thread = ThreadPoolExecutor(1, "live")
        self._ring: deque[tuple[int, bytes]] = deque(maxlen=RING)
        self._newest = 0
        self._watches: set[Watch] = set()
        self._of: Counter[str] = Counter()
        self._following: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self._closed = False

    async def run(self, work: Callable[[], T]) -> T:
        """Do a short piece of reading in the hub's thread."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def watch(self, session: str, after: int | None) -> Watch:
        """Begin to watch after a place, None: what is sealed from now on. The caller calls `leave` in the end.

        Raises:
            Full: too many watch.
            Unavailable: the database does not say where the ledger is.
        """
        if len(self._watches) >= MOST_WATCHES or self._of[session] >= MOST_OF_SESSION:
            raise Full
        # Counted from here on, so that no more than may be wait for the first look either.
        watch = Watch(self, session, 0, reset=False)
        self._watches.add(watch)
        self._of[session] += 1
        with contextlib.ExitStack() as undo:
            undo.callback(self.leave, watch)
            async with self._starting:
                if self._following is None or self._following.done():
                    self._newest = await self.run(self._source.head)
                    self._ring.clear()
                    self._following = asyncio.get_running_loop().create_task(self._follow(), name="live")
                    self._following.add_done_callback(self._over)
            head = self._newest
            if after is not None and after > head:
                # The ring is behind by a look; whoever comes with what another process told them is not ahead.
                head = await self.run(self._source.head)
            undo.pop_all()
        watch.reset = after is not None and after > head
        watch.begun = watch._place = head if after is None or watch.reset else after
        if self._closed:
            watch.end("stopping")
        return watch

    def leave(self, watch: Watch) -> None:
        """Forget a watch."""
        if watch in self._watches:
            self._watches.discard(watch)
            self._of[watch.session] -= 1
            if not self._of[watch.session]:
                del self._of[watch.session]

    async def since(self, place: int) -> tuple[int, bytes]:
        """Give what is after a place, from the ring where it is there, and the place that it leads to."""
        if place >= self._newest:
            return place, b""
        if self._ring and self._ring[0][0] <= place + 1:
            found = list(islice(self._ring, place + 1 - self._ring[0][0], place + 1 - self._ring[0][0] + BATCH))
        else:
            try:
                told = await self.run(lambda: self._source.after(place, BATCH))
            except Unavailable:
                return place, b""
            found = [(one.seq, one.message()) for one in told]
        if not found:
            return place, b""
        return found[-1][0], b"".join(message for _, message in found)

    async def _follow(self) -> None:
        loop = asyncio.get_running_loop()
        checked = known = loop.time()
        while self._watches and not self._closed:
            behind = False
            try:
                behind = self._tell(await self.run(lambda: self._source.after(self._newest, BATCH)))
                if loop.time() - checked >= self._recheck:
                    # The time before the look: what is true afterwards may have ended during it.
                    checked = loop.time()
                    await self._check()
                    known = checked
            except Unavailable as error:
                _log.warning("event streams: %s", error)
            if loop.time() - known > UNKNOWN_SECONDS:
                self._end_all("unknown")
            if not behind:
                await asyncio.sleep(self._look)

    def _tell(self, told: list[Told]) -> bool:
        for one in told:
            self._ring.append((one.seq, one.message()))
            self._newest = one.seq
        if told:
            for watch in self._watches:
                watch.wake()
        return len(told) == BATCH

    async def _check(self) -> None:
        asked = set(self._of)
        standing = await self.run(lambda: self._source.still(asked))
        for watch in self._watches:
            if watch.session in asked and watch.session not in standing:
                watch.end("signed_out")

    def _end_all(self, why: str) -> None:
        for watch in self._watches:
            watch.end(why)

    def _over(self, task: "asyncio.Task[None]") -> None:
        if self._following is task:
            self._following = None
        if not task.cancelled() and (bug := task.exception()) is not None:
            _log.error("the reader of the ledger ended", exc_info=bug)
            self._end_all("failed")

    def close(self) -> None:
        """End every watch, and begin no more."""
        self._closed = True
        self._end_all("stopping")
        self._thread.shutdown(wait=False, cancel_futures=True)


def told_of(seq: int, document: Mapping[str, object]) -> Told:
    """Take the ids out of a sealed entry's document."""

    def text(name: str) -> str | None:
        found = document[name]
        return found if isinstance(found, str) else None

    return Told(seq, text("kind") or "", text("ask"), text("agent"), text("capture"))
