"""Forks a process for each order that it reads, and says how that process ended; the children die as they are told.

An order is a JSON line: database URL, folder of the outside, name of the work, `before` or `after`, and the number of
the commit at which to die (0: live). The product has no hook for this: the child listens to SQLAlchemy's own events.
The nursery itself opens nothing and has one thread, so that its fork is a fresh process without the cost of a start.
"""

import json
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

from sqlalchemy import event

from gitops_bot.store.engine import Database
from tests.crash.warmed import open_broker, warm
from tests.crash_works import WORKS, stage_of


class Reaper:
    """Counts the commits of writing transactions, and ends the process at one of them as a power cut would."""

    def __init__(self, moment: str, number: int) -> None:
        self.moment = moment
        self.number = number
        self.commits = 0
        self._due = False

    def listen(self, database: Database) -> None:
        """Listen to the engine: `commit` comes before the commit itself, the pool's `checkin` after it."""
        event.listen(database.engine, "commit", self._before)
        event.listen(database.engine, "checkin", self._after)

    def _before(self, connection: Any) -> None:
        if not connection.get_execution_options().get("gitops_bot_write"):
            return
        self.commits += 1
        if self.commits == self.number:
            if self.moment == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            self._due = True

    def _after(self, *_: Any) -> None:
        if self._due:
            os.kill(os.getpid(), signal.SIGKILL)


def child(order: dict[str, Any], pipe: int) -> None:
    """Do the work of an order, and report how many commits it took."""
    database = open_broker(order["url"])
    reaper = Reaper(order["moment"], order["number"])
    reaper.listen(database)
    WORKS[order["work"]].do(stage_of(database, Path(order["folder"])))
    os.write(pipe, str(reaper.commits).encode())


def main() -> None:
    """Fork for each order until the input ends."""
    warm()
    for line in sys.stdin:
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                os.close(read)
                child(json.loads(line), write)
                status = 0
            except Exception:  # noqa: BLE001 # a forked child must not run into its parent's loop
                traceback.print_exc()
            finally:
                os._exit(status)
        os.close(write)
        commits = os.read(read, 32)
        os.close(read)
        _, status = os.waitpid(pid, 0)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        code = None if killed else os.waitstatus_to_exitcode(status)
        print(json.dumps({"killed": killed, "code": code, "commits": int(commits or 0)}), flush=True)


if __name__ == "__main__":
    main()
