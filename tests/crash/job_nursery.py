"""Forks the actors of a whole job, each a process of its own without the cost of a start, and says how they ended.

Before the first fork it has imported what they import, and has done one capture on rows of its own, so that statements
are compiled and expressions too; it has one thread and no file open.

An order is a JSON line: `{"start": actor, "log": file, …}` is answered with a pid, `{"poll": pid}` with how that ended
(None: it lives). The product has no hook for this: a broker dies at a commit that SQLAlchemy tells of, a loop at an
fsync of its own, a forge at a line of its journal. Broker and outside are hurried, so that a job of seconds takes less
than one; nothing else differs.
"""

import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import flask
import github
import requests
import waitress.server  # type: ignore[import-untyped] # waitress ships no types

import workspace.__main__
from gitops_bot.authority import sealing
from gitops_bot.authority.duties import Pace
from gitops_bot.bootstrap import broker, joining
from gitops_bot.bootstrap import loop as loops
from gitops_bot.bootstrap.hints import DatagramHint
from gitops_bot.broker.advance import Measuring
from gitops_bot.config import load
from gitops_bot.forge import client
from gitops_bot.sandbox import http as forges
from gitops_bot.sandbox import page, remote, state
from gitops_bot.sandbox.seed import plant
from gitops_bot.store import due, schema
from gitops_bot.store.engine import Database
from tests.crash.nursery import Reaper
from tests.crash.warmed import SECRET, known, warm

PRELOADED = (client, flask, forges.routes(), github, page, remote, requests, schema, waitress.server)
COMMENTS_MS = 80
PULLS_MS = 300
LISTEN_MS = 100
SEAL_MS = 120
LEASE_MS = 150
FIRST_MS, MOST_MS = 20, 100
POLL_MS = 20


def with_shelf(opened: Callable[..., Database]) -> Callable[..., Database]:
    """Let databases that are opened know the statements that the nursery prepared."""

    def open_(*given: Any, **named: Any) -> Database:
        return known(opened(*given, **named))

    return open_


class Promised:
    """Stands for a forge, or its world, that is not there yet."""

    def __init__(self, **known: object) -> None:
        vars(self).update(known)

    def become(self, there: object) -> None:
        """Be that one from now on."""
        vars(self)["_there"] = there

    def __getattr__(self, name: str) -> Any:
        return getattr(vars(self)["_there"], name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(vars(self)["_there"], name, value)


CONTROL = Promised(world=Promised())
ROUTED = forges.application(CONTROL, SECRET)  # type: ignore[arg-type] # it is a forge by the first request
"""The forge's web application before its forge: its hundreds of rules are compiled once."""


def routed(control: Any, _secret: str | None) -> flask.Flask:
    """Give the application to the one forge of a process."""
    CONTROL.become(control)
    CONTROL.world.become(control.world)
    return ROUTED


def run_forge(order: dict[str, Any]) -> int:
    """Run a local GitHub that dies at a line of its journal; 0: it lives. Its address is then in `forge.url`."""
    folder, write, count = Path(order["folder"]), state.write, [0]
    forges.application = routed  # type: ignore[assignment] # as above

    def counted(file: int, line: bytes) -> None:
        count[0] += 1
        if count[0] == order["number"] and order["moment"] == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        write(file, line)
        if count[0] == order["number"]:
            os.kill(os.getpid(), signal.SIGKILL)

    state.write = counted
    forge = forges.Sandbox.start(folder / "forge", order["forge_port"], secret=SECRET, state=folder / "forge-state")
    if order["wire"]:
        forge.world.url = order["wire"]
    forge.set_up_once(lambda: plant(forge, folder / "forge" / "seed.json"))
    address = f"http://127.0.0.1:{forge.world.model.facts['port']}"
    (folder / "forge.url.new").write_text(address)
    (folder / "forge.url.new").replace(folder / "forge.url")
    while True:
        time.sleep(3600)


def run_broker(order: dict[str, Any]) -> int:
    """Run a broker that dies at a commit; 0: it lives."""
    settings = load(Path(order["config"]))
    forge = replace(settings.forge, poll_fast=COMMENTS_MS, poll_slow=PULLS_MS)
    settings = replace(settings, forge=forge)
    reaper = Reaper(order["moment"], order["number"])
    opened = Database.open

    def listened(*given: Any, **named: Any) -> Database:
        database = opened(*given, **named)
        reaper.listen(database)
        return database

    def hurried(batch: int = 20, lease_ms: int = 0, first_ms: int = 0, most_ms: int = 0) -> Pace:
        return Pace(batch, LEASE_MS, FIRST_MS, MOST_MS)

    def measuring(capturer: Any, attempts: int, poll_ms: int, publish: Any) -> Measuring:
        return Measuring(capturer, attempts, POLL_MS, publish)

    waits = due.back_off

    def hurried_back_off(attempts: int, *, first_ms: int = 0, most_ms: int = 0) -> int:
        return waits(attempts, first_ms=min(first_ms, FIRST_MS), most_ms=min(most_ms, MOST_MS))

    due.back_off = hurried_back_off  # type: ignore[assignment] # this process is in a hurry
    Database.open = with_shelf(listened)  # type: ignore[method-assign] # this process tells of its commits
    broker.Pace, broker.Measuring = hurried, measuring  # type: ignore[assignment,misc] # this process is in a hurry
    broker.loops.LISTEN_MS = LISTEN_MS  # type: ignore[misc] # as above
    sealing.PERIOD_MS = SEAL_MS  # type: ignore[misc] # as above
    with DatagramHint(settings.state / "hints") as hint:
        return broker.run(settings, outside=hint)


def run_workspace(order: dict[str, Any]) -> int:
    """Run the workspace."""
    Database.open = with_shelf(Database.open)  # type: ignore[method-assign] # as the broker's
    return workspace.__main__.main(["--config", order["config"]])


def run_loop(order: dict[str, Any]) -> int:
    """Run a loop that dies at an fsync; 0: it lives."""
    fsync, count = os.fsync, [0]

    def counted(file: int) -> None:
        count[0] += 1
        if count[0] == order["number"] and order["moment"] == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        fsync(file)
        if count[0] == order["number"]:
            os.kill(os.getpid(), signal.SIGKILL)

    os.fsync = counted  # type: ignore[assignment] # its parameter has another name
    joining.PAUSE_SECONDS = 0.02  # type: ignore[misc] # this process is in a hurry
    folder = Path(order["folder"])
    options = loops.LoopOptions(
        workspace=folder / "problem",
        goal="lower it",
        judge=f"/bin/sh {folder / 'judge.sh'}",
        agent=("/bin/sh", str(folder / "agent.sh"), sys.executable, str(folder / "agent.py")),
        control_port=0,
        max_iterations=2,
        broker=True,
        resume=order["resume"],
        loop_id="job",
        broker_url=order["url"],
        loop_token_file=folder / "loop.token",
    )
    return loops.run_loop(options)


ACTORS: dict[str, Callable[[dict[str, Any]], int]] = {
    "broker": run_broker,
    "workspace": run_workspace,
    "loop": run_loop,
    "forge": run_forge,
}


def start(order: dict[str, Any]) -> int:
    """Fork an actor into a session of its own, its output into its log."""
    pid = os.fork()
    if pid:
        return pid
    status = 70
    try:
        os.setsid()
        log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for descriptor in (1, 2):
            os.dup2(log, descriptor)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.chdir(order["folder"])
        status = ACTORS[order["start"]](order)
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 0
    except BaseException:  # noqa: BLE001 # a forked child must not run into its parent's loop
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)
    return 0


def main() -> None:
    """Take orders until the input ends."""
    warm()
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        if "start" in order:
            print(json.dumps(start(order)), flush=True)
        else:
            pid, status = os.waitpid(order["poll"], os.WNOHANG)
            print(json.dumps(None if pid == 0 else os.waitstatus_to_exitcode(status)), flush=True)


if __name__ == "__main__":
    main()
