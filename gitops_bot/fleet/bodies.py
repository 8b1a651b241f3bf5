"""Bodies of agents run here, one thread each: what one says is kept and lands while it speaks, its end is settled.

What a body said is in the database within a second, and with the first marker of it that lands, so that a reconciler
can go on where this process was killed. Nothing is settled twice: who finds a dispatch ended lets its body go. A bug in
a body's thread is raised by the next `watch`. Which agents run, and how many, is the tick's work; what their words mean
is the grammar's and `settle`'s.
"""

import codecs
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from gitops_bot.authority.rules import Rules
from gitops_bot.core.errors import Unavailable
from gitops_bot.fleet import landing, settle
from gitops_bot.fleet.grammar import Ended, Informational, Reader
from gitops_bot.fleet.turn import Turn
from gitops_bot.ports import BodyEnd, BodyOrder, BodyStop, Harness
from gitops_bot.store import dispatches
from gitops_bot.store.due_agents import Opened
from gitops_bot.store.engine import Database, Tx
from gitops_bot.store.states import HarnessKind

FLUSH_SECONDS: Final = 1.0
FLUSH_CHARACTERS: Final = 64 * 1024
MAX_TEXT: Final = 1024 * 1024
"""Characters that are kept of one dispatch's text; markers land from what comes after them too."""
_DESKS: Final = 4
"""Bodies that write at one time: each takes a connection of the pool that duties share."""
_STOP_SECONDS: Final = 8.0
"""What a harness may take to end a body that it is told to end."""


@dataclass(frozen=True, slots=True)
class Ground:
    """What every body is run on: the database, the rules, the harnesses, where the broker's own API is, and who holds
    the leases, for how long (ms)."""

    database: Database
    rules: Rules
    harnesses: Mapping[HarnessKind, Harness]
    url: str
    holder: str
    lease: int


class Bodies:
    """The bodies that run in this process. `freed` is called when one has ended and its place is free."""

    def __init__(self, ground: Ground, freed: Callable[[], None]) -> None:
        self._ground, self._freed = ground, freed
        self._desks = threading.BoundedSemaphore(_DESKS)
        self._lock = threading.Condition()
        self._bodies: dict[tuple[str, int], _Body] = {}
        self._failed: BaseException | None = None
        self._beaten = time.monotonic()

    def count(self) -> int:
        """Count the bodies that run here."""
        with self._lock:
            return len(self._bodies)

    def start(self, opened: Opened) -> None:
        """Run a body for a run that was opened, in a thread of its own."""
        body = _Body(self._ground, self._desks, opened)
        key = (opened.dispatch.run, opened.dispatch.version)
        with self._lock:
            self._bodies[key] = body
        name = f"body {opened.dispatch.slug}"
        threading.Thread(target=self._run, args=(key, body), name=name, daemon=True).start()

    def _run(self, key: tuple[str, int], body: "_Body") -> None:
        try:
            body.live()
        finally:
            # Nothing is caught: what is no end of a body is our bug, and ends the process by the duty that watches.
            failed = sys.exc_info()[1]
            with self._lock:
                self._failed = self._failed or failed
                del self._bodies[key]
                self._lock.notify_all()
            self._freed()

    def watch(self) -> float:
        """Keep the leases of what runs here, and end what is not ours any more or whose agent was retired. Gives the
        seconds until it has to be called again.

        Raises:
            Unavailable: the database cannot be reached; the leases go on as they are.
            RuntimeError: a body's thread ended by a bug of ours.
        """
        if self._failed is not None:
            raise RuntimeError("a body's thread failed") from self._failed
        every = self._ground.lease / 3_000
        with self._lock:
            bodies = dict(self._bodies)
        if not bodies:
            self._beaten = time.monotonic()
            return every
        with self._ground.database.read() as tx:
            held = dispatches.held(tx, self._ground.holder)
        for key, body in bodies.items():
            if held.get(key, True):
                body.stop()
        if time.monotonic() - self._beaten >= every:
            with self._ground.database.write() as tx:
                dispatches.beat(tx, self._ground.holder, self._ground.lease)
            self._beaten = time.monotonic()
        return min(every, 1.0)

    def drain(self, seconds: float) -> bool:
        """Let what runs end by itself for so long, then end it; tell whether all of it has ended and was settled."""
        until = time.monotonic() + seconds
        while self.count() and time.monotonic() < until:
            try:
                self.watch()
            except Unavailable:
                break
            self._wait(min(1.0, until - time.monotonic()))
        with self._lock:
            for body in self._bodies.values():
                body.stop(at_once=True)
        self._wait(_STOP_SECONDS)
        return not self.count()

    def _wait(self, seconds: float) -> None:
        with self._lock:
            self._lock.wait_for(lambda: not self._bodies, max(seconds, 0.0))


class _Body:
    """One body: its order, what it said so far, what of that is not written yet."""

    def __init__(self, ground: Ground, desks: threading.BoundedSemaphore, opened: Opened) -> None:
        dispatch = opened.dispatch
        self._ground, self._desks, self._opened = ground, desks, opened
        self._turn = Turn(
            opened.agent,
            dispatch.run,
            dispatch.version,
            dispatch.wake_seq,
            dispatch.depth,
            dispatch.lane,
            dispatch.holder,
        )
        self._reader = Reader()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._unkept: list[str] = []
        # Parts are never cut anew: of a write that failed nobody knows whether it was done.
        self._parts: list[tuple[int, str]] = []
        self._unlanded: list[Informational] = []
        self._kept, self._part = 0, 0
        self._flushed = time.monotonic()
        self._stopping, self._hurried = threading.Event(), threading.Event()

    def stop(self, *, at_once: bool = False) -> None:
        """Let the harness end the body. `at_once`: the process ends, so that a database that is away is not waited
        for."""
        self._stopping.set()
        if at_once:
            self._hurried.set()

    def live(self) -> None:
        """Run the body to its end, and settle."""
        opened, dispatch = self._opened, self._opened.dispatch
        order = BodyOrder(
            agent=dispatch.slug,
            run=dispatch.run,
            version=dispatch.version,
            argv=opened.setup.command,
            folder=Path(opened.setup.folder),
            session=opened.session,
            prompt=dispatch.capsule.encode("utf-8"),
            env={"GITOPS_BOT_URL": self._ground.url, "GITOPS_BOT_TOKEN": opened.token},
            limit=opened.setup.turn_limit / 1_000,
        )
        harness = self._ground.harnesses.get(opened.setup.harness)
        if harness is None:
            end = BodyEnd(BodyStop.NOT_STARTED, detail=f"this broker has no harness {opened.setup.harness.value}")
        else:
            end = self._ended(harness, order)
        # The last line of a text that was torn off in the middle is no marker.
        self._settle(end, self._reader.end(whole=end.stop is BodyStop.ENDED))

    def _ended(self, harness: Harness, order: BodyOrder) -> BodyEnd:
        try:
            return harness.run(order, self._heard, self._asked)
        except Unavailable as error:
            return BodyEnd(BodyStop.FAILED, detail=str(error))

    def _heard(self, piece: bytes) -> None:
        found = self._reader.feed(piece)
        self._unlanded += found
        self._keep(self._decoder.decode(piece))
        if found or self._is_time() or sum(map(len, self._unkept)) >= FLUSH_CHARACTERS:
            self._flush()

    def _asked(self) -> bool:
        if (self._unkept or self._parts or self._unlanded) and self._is_time():
            self._flush()
        return self._stopping.is_set()

    def _is_time(self) -> bool:
        return time.monotonic() - self._flushed >= FLUSH_SECONDS

    def _keep(self, text: str) -> None:
        text = text[: MAX_TEXT - self._kept]
        self._kept += len(text)
        if text:
            self._unkept.append(text)

    def _flush(self) -> None:
        """Write what was said, and land what of it lands at once; where that fails, all of it stays for later."""
        self._flushed = time.monotonic()
        self._close_part()
        try:
            with self._desks, self._ground.database.write() as tx:
                self._write_text(tx)
                goes_on = not self._unlanded or landing.inform(tx, self._ground.rules, self._turn, self._unlanded)
        except Unavailable:
            return
        self._parts, self._unlanded = [], []
        if not goes_on:
            self.stop()

    def _write_text(self, tx: Tx) -> None:
        dispatch = self._opened.dispatch
        dispatches.began(tx, dispatch.run, dispatch.version)
        for part, text in self._parts:
            dispatches.append_text(tx, dispatch.run, dispatch.version, part, text)

    def _close_part(self) -> None:
        if self._unkept:
            self._parts.append((self._part, "".join(self._unkept)))
            self._part, self._unkept = self._part + 1, []

    def _settle(self, end: BodyEnd, ended: Ended) -> None:
        """Settle, however long the database is away; but not past the end of the lease, when others do."""
        ended = replace(ended, late=(*self._unlanded, *ended.late))
        self._keep(self._decoder.decode(b"", final=True))
        self._close_part()
        until = time.monotonic() + self._ground.lease / 1_000
        pause = 0.1
        while True:
            try:
                with self._desks, self._ground.database.write() as tx:
                    self._write_text(tx)
                    settle.settle(tx, self._ground.rules, self._turn, end, ended)
                return
            except Unavailable:
                if self._hurried.is_set() or time.monotonic() >= until:
                    return
            time.sleep(pause)
            pause = min(2 * pause, 2.0)
