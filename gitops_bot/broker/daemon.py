"""Runs the duties it is handed, one thread each, until it is told to stop; knows none of them.

A duty that raises what is no `Unavailable` is our bug: the whole process ends, and its leases run out.
"""

import threading
import traceback
from collections.abc import Callable, Collection, Sequence

from gitops_bot.ports import Duty, Hint


class Bell:
    """Wakes waiting duties of this process: all, or those of some names alone; implements `ports.Hint`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[str | None, threading.Condition] = {}
        self._rung = 0
        self._rung_for_all = 0
        self._rung_for: dict[str, int] = {}

    def notify(self) -> None:
        """Wake all who wait."""
        with self._lock:
            self._rung += 1
            self._rung_for_all += 1
            for condition in self._waiting.values():
                condition.notify_all()

    def notify_of(self, duties: Collection[str]) -> None:
        """Wake who waits for one of these duties, and who waits for anything."""
        with self._lock:
            self._rung += 1
            for duty in duties:
                self._rung_for[duty] = self._rung_for.get(duty, 0) + 1
            for name in (None, *duties):
                if name in self._waiting:
                    self._waiting[name].notify_all()

    def wait(self, seconds: float) -> None:
        """Sleep until somebody rings."""
        with self._lock:
            self._condition(None).wait(seconds)

    def count(self, of: str | None = None) -> int:
        """Count the rings so far (those for the duty `of`, and for all), so that one between a look and the wait is not
        slept over."""
        with self._lock:
            return self._count(of)

    def wait_since(self, rung: int, seconds: float, of: str | None = None) -> None:
        """Sleep unless somebody rang (for the duty `of`, or for all) since `rung`."""
        with self._lock:
            self._condition(of).wait_for(lambda: self._count(of) != rung, seconds)

    def _count(self, of: str | None) -> int:
        return self._rung if of is None else self._rung_for_all + self._rung_for.get(of, 0)

    def _condition(self, of: str | None) -> threading.Condition:
        return self._waiting.setdefault(of, threading.Condition(self._lock))


class Daemon:
    """Threads over duties. `fatal` is the traceback of the first duty that failed by a bug of ours."""

    def __init__(self, duties: Sequence[Duty], bell: Bell, outside: Hint | None = None) -> None:
        self._duties = duties
        self._bell = bell
        self._outside = outside
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self.fatal: str | None = None

    def start(self) -> None:
        """Start every duty."""
        for duty in self._duties:
            self._thread(f"duty {duty.name}", lambda duty=duty: self._run(duty))  # type: ignore[misc] # bound now
        if self._outside is not None:
            self._thread("hints", self._listen)

    def _thread(self, name: str, run: Callable[[], None]) -> None:
        thread = threading.Thread(target=run, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _run(self, duty: Duty) -> None:
        ended = False
        of = duty.name if getattr(duty, "looks_at_own_rows", False) else None
        try:
            while not self._stop.is_set():
                rung = self._bell.count(of)
                wait = duty.step()
                if wait > 0 and not self._stop.is_set():
                    self._bell.wait_since(rung, wait, of)
            ended = True
        finally:
            if not ended:
                self.fatal = traceback.format_exc()
                self.stop()

    def _listen(self) -> None:
        assert self._outside is not None
        while not self._stop.is_set():
            self._outside.wait(1.0)
            self._bell.notify()

    def stop(self) -> None:
        """Ask every duty to end after the step it is in."""
        self._stop.set()
        self._bell.notify()

    def join(self, seconds: float | None = None) -> bool:
        """Wait for the end; with `seconds` (shared by all threads) tell whether all ended in time."""
        for thread in self._threads:
            thread.join(seconds)
        return not any(thread.is_alive() for thread in self._threads)

    def wait(self) -> None:
        """Wait until somebody stops it."""
        self._stop.wait()
