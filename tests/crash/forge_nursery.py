"""As `nursery`, with a local GitHub in another process: dies at a commit, or with an answer in hand that it never used.

An order is a JSON line: database URL, folder of the outside, address and token of the forge, repository, `before` or
`after` a commit or `answered`, and its number (0: live).
"""

import json
import os
import signal
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from gitops_bot.forge import transport
from gitops_bot.store.engine import Database
from tests.crash.nursery import Reaper
from tests.crash.warmed import open_broker, warm
from tests.decisions import rules_of
from tests.forge_stage import WITH_WRITE, ForgeStage


def stage_of(database: Database, order: dict[str, Any], github: Any = None) -> ForgeStage:
    """Make the stage of an order; leases of a millisecond, so that the next process need not wait."""
    stage = ForgeStage(
        database,
        rules_of(WITH_WRITE),
        folder=Path(order["folder"]),
        github=github or SimpleNamespace(url=order["forge"]),
        token=order["token"],
        names=(order["repository"],),
        lease_ms=1,
    )
    stage.place = type(stage.place)("test", order["repository"])
    return stage


def die_with_answer(number: int) -> list[int]:
    """End the process with the answer to a request in hand; gives a count of the requests."""
    count = [0]
    plain = transport._Connection.getresponse

    def getresponse(self: Any) -> Any:
        answer = plain(self)
        count[0] += 1
        if count[0] == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    transport._Connection.getresponse = getresponse  # type: ignore[method-assign] # this process is about to die
    return count


def child(order: dict[str, Any]) -> int:
    """Look once and do what follows; give how many commits or answers that took."""
    database = open_broker(order["url"])
    answered = order["moment"] == "answered"
    reaper = Reaper(order["moment"], 0 if answered else order["number"])
    reaper.listen(database)
    count = die_with_answer(order["number"] if answered else 0)
    stage_of(database, order).look()
    return count[0] if answered else reaper.commits


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
                os.write(write, str(child(json.loads(line))).encode())
                status = 0
            finally:
                os._exit(status)
        os.close(write)
        steps = os.read(read, 32)
        os.close(read)
        _, status = os.waitpid(pid, 0)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        code = None if killed else os.waitstatus_to_exitcode(status)
        print(json.dumps({"killed": killed, "code": code, "steps": int(steps or 0)}), flush=True)


if __name__ == "__main__":
    main()
