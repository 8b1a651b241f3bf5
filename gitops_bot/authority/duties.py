"""Duties: pieces of due work over the one claiming statement, with leases, back-off and a fence.

A handler does its own transactions and says what becomes of the row: finished, or again at a time. `Unavailable` counts
towards the back-off and is tried again; anything else is our bug and ends the process, whose leases run out.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gitops_bot.core.errors import Unavailable
from gitops_bot.store import due
from gitops_bot.store.due import Claimed
from gitops_bot.store.engine import Database

IDLE_SECONDS: Final = 1.0
"""Polling each second is the truth; hints only shorten it."""


@dataclass(frozen=True, slots=True)
class Finished:
    """Nothing is left to do for this row (a nudge meanwhile makes it due again)."""


@dataclass(frozen=True, slots=True)
class Again:
    """Look at this row again after so many milliseconds; no failure. Work that came meanwhile makes it due at once,
    unless the wait is `firm`: then only a time that somebody sets does (`store.due`)."""

    after_ms: int
    firm: bool = False


Outcome = Finished | Again
FINISHED: Final = Finished()


@dataclass(frozen=True, slots=True)
class Pace:
    """How a duty claims and backs off: rows at a time, lease and back-off in ms."""

    batch: int = 20
    lease_ms: int = 60_000
    first_ms: int = 1_000
    most_ms: int = 900_000


class RowDuty:
    """A duty whose work is rows of `due`; implements `ports.Duty`."""

    looks_at_own_rows: Final = True
    """It needs no waking but for rows under its own name."""

    def __init__(
        self, name: str, database: Database, handle: Callable[[Claimed], Outcome], pace: Pace | None = None
    ) -> None:
        self.name = name
        self._database = database
        self._handle = handle
        self._pace = pace or Pace()

    def step(self) -> float:
        """Claim one batch and handle each row. Gives the seconds until there may be more."""
        try:
            # Looking costs no turn at the database; claiming does, and most looks find nothing.
            wait = self._until_due()
            if wait > 0:
                return wait
            with self._database.write() as tx:
                batch = due.claim(tx, self.name, self._pace.batch, self._pace.lease_ms)
            begun = time.monotonic()
            for claimed in batch:
                # A row that waited behind slow ones gets a whole lease before it begins, or is left to who has it now.
                if (time.monotonic() - begun) * 4_000 < self._pace.lease_ms or self._renewed(claimed):
                    self._one(claimed)
            return self._until_due()
        except Unavailable:
            return IDLE_SECONDS

    def _until_due(self) -> float:
        with self._database.read() as tx:
            soonest = due.next_due(tx, self.name)
        wait = IDLE_SECONDS if soonest is None else (soonest - tx.now) / 1000
        return min(max(wait, 0.0), IDLE_SECONDS)

    def _renewed(self, claimed: Claimed) -> bool:
        with self._database.write() as tx:
            return due.renew(tx, claimed, self._pace.lease_ms)

    def _one(self, claimed: Claimed) -> None:
        try:
            outcome = self._handle(claimed)
        except Unavailable as error:
            wait = due.back_off(claimed.attempts, first_ms=self._pace.first_ms, most_ms=self._pace.most_ms)
            if error.retry_after is not None:
                wait = max(wait, int(error.retry_after * 1000))
            with self._database.write() as tx:
                due.again(tx, claimed, tx.now + wait, error=str(error))
            return
        with self._database.write() as tx:
            match outcome:
                case Finished():
                    due.done(tx, claimed)
                case Again(after_ms, firm):
                    due.again(tx, claimed, tx.now + after_ms, firm=firm)
