"""As `nursery`, for the signed channel: a broker that dies, or stands still, at a commit, push, trust file or call.

An order is a JSON line: folder of the host (with its settings), what to do at the point (`kill` or `stop`), and the
point's number (0: live). The child builds the broker as the product does, looks at the branches, spends and carries
out until nothing is due; the points that it passed are in `points.json` of the folder. A child that stands still is
told of at once (`stopped`, with its process id) and left alone; whoever asked lets it go on and asks for `wait`.
"""

import gc
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import git
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, padding, rsa, utils
from sqlalchemy import event

from gitops_bot.authority.duties import RowDuty
from gitops_bot.bootstrap import gate
from gitops_bot.bootstrap.broker import Broker, build
from gitops_bot.config import load
from gitops_bot.signed import adopting, announcing, executing, looking, mint, spend
from gitops_bot.signed.openpgp import certificates, engine, gpg, selfsigs
from gitops_bot.signed.repository import Repository
from gitops_bot.signed.sshsig import keygen, verifier
from gitops_bot.store import schema
from gitops_bot.verbs.http import AddressExecutor
from gitops_bot.verbs.process import ProgramExecutor

# A fork inherits what is loaded.
PRELOADED = (adopting, announcing, certificates, engine, git, gpg, keygen, looking, mint, schema, selfsigs, verifier)
ALGORITHMS = (ec, ed448, ed25519, hashes, padding, rsa, utils)
Point = Callable[[str], None]


class Points:
    """Counts the points that a process passes, and ends or stops it at one of them."""

    def __init__(self, number: int, how: str) -> None:
        self.number = number
        self.seen: list[str] = []
        self._signal = signal.SIGSTOP if how == "stop" else signal.SIGKILL
        self._committing = self._begun = False

    def __call__(self, name: str) -> None:
        """Pass a point."""
        if not self._begun:
            return  # the broker is still being built
        self.seen.append(name)
        if len(self.seen) == self.number:
            os.kill(os.getpid(), self._signal)

    def listen(self, engine: Any) -> None:
        """Begin, and listen to the commits of writing transactions: `commit` comes before one, the pool's `checkin`
        after it."""
        self._begun = True
        event.listen(engine, "commit", self._before)
        event.listen(engine, "checkin", self._after)

    def _before(self, connection: Any) -> None:
        if connection.get_execution_options().get("gitops_bot_write"):
            self("before commit")
            self._committing = True

    def _after(self, *_: Any) -> None:
        if self._committing:
            self._committing = False
            self("after commit")


def around(owner: Any, name: str, point: Point, what: str, when: Callable[..., bool] = lambda *_: True) -> None:
    """Pass a point before and after each call of a function."""
    plain = getattr(owner, name)

    def passed(*arguments: Any, **named: Any) -> Any:
        if not when(*arguments):
            return plain(*arguments, **named)
        point(f"before {what}")
        result = plain(*arguments, **named)
        point(f"after {what}")
        return result

    setattr(owner, name, passed)


def work(broker: Broker) -> None:
    """Look, spend and carry out until nothing is due."""
    assert broker.signed is not None
    broker.signed.looker.look()
    duties = {duty.name: duty for duty in broker.signed.granting if isinstance(duty, RowDuty)}
    for _ in range(2):
        for name in (spend.SPEND, spend.EXECUTE):
            for _ in range(20):
                if duties[name].step() > 0:
                    break


def child(order: dict[str, Any]) -> None:
    """Do the work of an order."""
    folder = Path(order["folder"])
    points = Points(order["number"], order["how"])
    around(Repository, "run", points, "push", lambda _self, verb, *_: verb == "push")
    around(gate, "write_trust", points, "trust file")
    around(spend.Spender, "_verified", points, "verification")
    around(executing.Executing, "_mark", points, "marking")
    around(gate.Gate, "note", points, "note")
    for executor in (AddressExecutor, ProgramExecutor):
        around(executor, "execute", points, "call")
    broker = build(load(folder / "gitops-bot.toml"))
    points.listen(broker.database.engine)
    work(broker)
    (folder / "points.json").write_text(json.dumps(points.seen))


def ended(pid: int, *, untraced: bool) -> dict[str, Any]:
    """Wait until a child ends, or stands still, and say so."""
    _, status = os.waitpid(pid, os.WUNTRACED if untraced else 0)
    if os.WIFSTOPPED(status):
        return {"stopped": pid, "killed": False, "code": None}
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    return {"stopped": 0, "killed": killed, "code": None if killed else os.waitstatus_to_exitcode(status)}


def main() -> None:
    """Fork for each order until the input ends; with `go on`, let a child that stands still go on to its end."""
    # Collections of a child would walk over all that was loaded, and copy the pages that they touch.
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        order = json.loads(line)
        if "go on" in order:
            os.kill(order["go on"], signal.SIGCONT)
            print(json.dumps(ended(order["go on"], untraced=False)), flush=True)
            continue
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                child(order)
                status = 0
            except Exception:  # noqa: BLE001 # a forked child must not run into its parent's loop
                traceback.print_exc()
            finally:
                os._exit(status)
        print(json.dumps(ended(pid, untraced=order["how"] == "stop")), flush=True)


if __name__ == "__main__":
    main()
