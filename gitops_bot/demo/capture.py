"""The main job as a demo: a loop asks for a new regime and parks, a person approves on a pull request, the trace is
measured, the loop goes on in a new segment, asks for more in `continue` mode, and is told no in the workspace. There
a plain question waits as well, and a transfer that nobody can answer there. Everything runs as its own process on
loopback; nothing is special here.
"""

import contextlib
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gitops_bot.authority.sealing import verify
from gitops_bot.bootstrap import trust
from gitops_bot.core.errors import Unavailable
from gitops_bot.demo import aside, files, scores, telling
from gitops_bot.demo.aside import Aside
from gitops_bot.demo.desk import Desk
from gitops_bot.demo.files import Layout
from gitops_bot.demo.plot import draw
from gitops_bot.demo.stage import COMMAND, Stage, free_port
from gitops_bot.demo.watch import Tell, Timeline, Watch
from gitops_bot.process import run
from gitops_bot.store import schema
from gitops_bot.store.engine import Database
from gitops_bot.store.roles import Role

ITERATIONS: Final = 12
THINK: Final = {True: 0.7, False: 15.0}
"""Seconds that a turn lasts while a person is asked, so that there is time to answer: with `auto`, and without."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a demo went: in order with an intact ledger or not, what happened, what the loop scored, where to look."""

    ok: bool
    timeline: Timeline
    segments: tuple[Mapping[str, Any], ...]
    plots: tuple[Path, ...]
    addresses: tuple[tuple[str, str], ...]
    problem: str = ""

    def document(self) -> dict[str, Any]:
        """Give the outcome as one JSON document."""
        return {
            "ok": self.ok,
            "scenario": "capture",
            "timeline": list(self.timeline),
            "segments": list(self.segments),
            "plots": [str(path) for path in self.plots],
            "addresses": dict(self.addresses),
            "problem": self.problem,
        }

    def lines(self) -> list[str]:
        """Lay the outcome out for a terminal."""
        shown = ["", "segments (scores compare inside one segment only; p99 in ms, lower is better)", ""]
        shown += [f"  {line}" for line in telling.table(self.segments)]
        shown += ["", *telling.plot(self.segments), ""]
        shown += [f"{name:<16} {address}" for name, address in self.addresses]
        shown += [f"{'plot':<16} {path}" for path in self.plots]
        return [*shown, "", "in order, ledger intact" if self.ok else f"FAILED: {self.problem}"]


def play(root: Path, tell: Tell, *, auto: bool, shown: Callable[[Outcome], None] | None = None) -> Outcome:
    """Run the main job in an empty folder; with `auto` a scripted alice answers.

    With `shown` the outcome is shown when the loop has ended, and everything runs on until Ctrl-C.

    Raises:
        Unavailable: a process of the demo does not start or ends early.
    """
    layout = Layout(root)
    files.write(layout)
    with contextlib.ExitStack() as ended:
        ended.callback(aside.end, layout)
        stage = ended.enter_context(Stage(root))
        tell("starting a sandbox forge, an inference server, the broker and the workspace on loopback")
        forge, endpoint, port, beside = _outside(stage, layout)
        url = f"sqlite:///{root / '.gitops-bot' / 'gitops-bot.db'}"
        _prepare(layout, url)
        config = ("--config", str(layout.config))
        stage.start("broker", (*COMMAND, "broker", *config))
        workspace, _ = stage.start("workspace", (*COMMAND, "workspace", *config))
        beside.add_agent()
        stage.answers(workspace, "127.0.0.1", port)
        origin = f"http://localhost:{port}"
        addresses = [
            ("workspace", origin),
            ("forge", f"{forge}/{files.REPOSITORY}"),
            ("endpoint", f"{endpoint}/v1/completions"),
        ]
        for name, address in addresses:
            tell(f"{name:<28} {address}")
        beside.ask(origin)
        desk = _come_in(layout, origin, tell, auto=auto)
        loop, _ = stage.start("loop", _loop(layout, port, THINK[auto]))
        database = Database.open(url, Role.HOST)
        try:
            watch = Watch(stage, database, loop, layout, forge, tell, desk=desk)
            problem = watch.until_done()
            timeline = watch.timeline(complete=not problem)
            faults = verify(database).faults
        finally:
            database.close()
        segments = scores.segments(layout)
        problem = problem or "; ".join(fault.what for fault in faults) or watch.problem() or scores.shortfall(segments)
        addresses += [(f"pull request {number}", place) for number, place in enumerate(watch.pull_requests, 1)]
        outcome = Outcome(not problem, timeline, segments, _plots(layout, segments), tuple(addresses), problem)
        if shown is not None:
            shown(outcome)
            _linger(stage)
        return outcome


def _come_in(layout: Layout, origin: str, tell: Tell, *, auto: bool) -> Desk | None:
    """Print the code by which alice comes in; with `auto` she does, by a software passkey."""
    code = aside.code(layout, "alice")
    if not auto:
        tell(f"{'come in as alice':<28} {origin}/enrol")
        tell(f"{'with this code':<28} {code} (good once, for ten minutes)")
        return None
    desk = Desk(origin)
    tell(f"{'alice comes in':<28} by the host's code {code[:4]}…, with a software passkey: {desk.come_in(code)}")
    return desk


def _outside(stage: Stage, layout: Layout) -> tuple[str, str, int, Aside]:
    """Start forge, inference server and payee, and write policy and settings; gives the addresses of the first two, the
    workspace's port, and what waits beside the main job."""
    seed = ["--root", str(layout.root / "forge"), "--seed", str(layout.seed)]
    _, forge = stage.start("forge", (sys.executable, "-m", "gitops_bot.sandbox", *seed), says_url=True)
    _, endpoint = stage.start("inference", (sys.executable, "-m", "gitops_bot.demo.inference"), says_url=True)
    port, beside = free_port(), aside.begin(layout, stage)
    (layout.root / "policies" / "policy.toml").write_text(beside.policy(files.POLICY), "utf-8")
    signed = beside.settings(files.REPOSITORY_ID)
    files.settings(layout, forge_url=forge, endpoint=endpoint, port=port, signed=signed)
    return forge, endpoint, port, beside


def _plots(layout: Layout, segments: Sequence[Mapping[str, Any]]) -> tuple[Path, ...]:
    captured = sorted((layout.root / ".gitops-bot" / "captures").glob("*/out/plot.svg"))
    return (*draw(layout.root, segments), *captured)


def _linger(stage: Stage) -> None:
    """Let everything run on, to be looked at, until the person has seen enough."""
    try:
        while True:
            stage.check()
            time.sleep(0.5)
    except KeyboardInterrupt:
        return


def _prepare(layout: Layout, url: str) -> None:
    """Do on this host what a person does before the first start: database, pin, the loop's agent."""
    state = layout.root / ".gitops-bot"
    owner = Database.open(url, Role.OWNER)
    schema.upgrade(owner.engine)
    owner.close()
    trust.pin(layout.root / "policies", state / "trust.json")
    agent = ("demo-loop", "--loop", "--principal", "demo-agent", "--owner", "alice")
    argv = (*COMMAND, "agent", "add", *agent, "--config", str(layout.config), "--token-file", str(layout.loop_token))
    added = run(argv, cwd=layout.root, timeout=30)
    if added.returncode != 0:
        raise Unavailable(f"the agent was not added: {added.stderr.decode('utf-8', 'replace')[-300:]}")


def _loop(layout: Layout, port: int, think: float) -> Sequence[str]:
    judge = f"{sys.executable} -m gitops_bot.demo.judge --workspace {layout.workspace} --calibration-dir"
    return (
        *(*COMMAND, "loop", "run", "--workspace", str(layout.workspace)),
        *("--goal", "Lower the p99 latency of the endpoint picker by changing picker.json."),
        *("--judge", f"{judge} {layout.calibrations}"),
        *("--control-port", "0", "--max-iterations", str(ITERATIONS), "--broker"),
        *("--broker-url", f"http://127.0.0.1:{port}", "--loop-token-file", str(layout.loop_token)),
        *("--id", "demo", "--", sys.executable, "-m", "gitops_bot.demo.agent", "--think", str(think)),
    )
