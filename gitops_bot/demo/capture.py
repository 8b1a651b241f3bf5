"""The main job as a demo: a loop asks for a new regime and parks, a person approves on a pull request, the trace is
measured, the loop goes on in a new segment. Everything runs as its own process on loopback; nothing is special here.
"""

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib import request as http

from gitops_bot.authority.sealing import verify
from gitops_bot.bootstrap import trust
from gitops_bot.core.errors import Unavailable
from gitops_bot.demo import files
from gitops_bot.demo.files import Layout
from gitops_bot.demo.stage import COMMAND, Actor, Stage, free_port
from gitops_bot.process import run
from gitops_bot.store import captures, ledger, schema
from gitops_bot.store.engine import Database
from gitops_bot.store.roles import Role

WANTED: Final = (
    {"ask.opened"},
    {"forge.pull_request_opened", "loop.parked"},
    {"forge.comment_seen"},
    {"ask.answered"},
    {"capture.submitted"},
    {"capture.ready"},
    {"bridge.rescope_acknowledged"},
    {"loop.segment"},
)
"""What must have happened, in this order."""

SHOWN: Final = frozenset({*(name for group in WANTED for name in group), "loop.registered", "capture.rescoped"})
AUTO_SECONDS: Final = 120.0
ITERATIONS: Final = 5

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a demo went: in order and with an intact ledger or not, what happened, what the loop scored."""

    ok: bool
    timeline: tuple[Mapping[str, Any], ...]
    segments: tuple[Mapping[str, Any], ...]
    problem: str = ""

    def document(self) -> dict[str, Any]:
        """Give the outcome as one JSON document."""
        return {
            "ok": self.ok,
            "scenario": "capture",
            "timeline": list(self.timeline),
            "segments": list(self.segments),
            "problem": self.problem,
        }


def play(root: Path, tell: Tell, *, auto: bool, shown: Callable[[Outcome], None] | None = None) -> Outcome:
    """Run the main job in an empty folder; with `auto` a scripted alice approves.

    With `shown` the outcome is shown when the loop has ended, and everything runs on until Ctrl-C.

    Raises:
        Unavailable: a process of the demo does not start or ends early.
    """
    layout = Layout(root)
    files.write(layout)
    with Stage(root) as stage:
        tell("starting a sandbox forge and an inference server on loopback")
        seed = ["--root", str(root / "forge"), "--seed", str(layout.seed)]
        _, forge = stage.start("forge", (sys.executable, "-m", "gitops_bot.sandbox", *seed), says_url=True)
        _, endpoint = stage.start("inference", (sys.executable, "-m", "gitops_bot.demo.inference"), says_url=True)
        port = free_port()
        files.settings(layout, forge_url=forge, endpoint=endpoint, port=port)
        url = f"sqlite:///{root / '.gitops-bot' / 'gitops-bot.db'}"
        _prepare(layout, url)
        config = ("--config", str(layout.config))
        stage.start("broker", (*COMMAND, "broker", *config))
        workspace, _ = stage.start("workspace", (*COMMAND, "workspace", *config))
        stage.answers(workspace, "127.0.0.1", port)
        tell(f"workspace: http://localhost:{port}")
        tell(f"forge: {forge}/{files.REPOSITORY}")
        loop, _ = stage.start("loop", _loop(layout, port))
        database = Database.open(url, Role.HOST)
        try:
            watch = _Watch(stage, database, loop, layout, forge, tell, auto=auto)
            problem = watch.until_done()
            timeline = watch.timeline(wait_for_sealer=not problem)
            faults = verify(database).faults
        finally:
            database.close()
        problem = problem or ("; ".join(fault.what for fault in faults)) or missing(timeline)
        outcome = Outcome(not problem, timeline, segments(layout), problem)
        if shown is not None:
            shown(outcome)
            _linger(stage)
        return outcome


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
    state.mkdir(mode=0o700)
    owner = Database.open(url, Role.OWNER)
    schema.upgrade(owner.engine)
    owner.close()
    trust.pin(layout.root / "policies", state / "trust.json")
    agent = ("demo-loop", "--loop", "--principal", "demo-agent", "--owner", "alice")
    argv = (*COMMAND, "agent", "add", *agent, "--config", str(layout.config), "--token-file", str(layout.loop_token))
    added = run(argv, cwd=layout.root, timeout=30)
    if added.returncode != 0:
        raise Unavailable(f"the agent was not added: {added.stderr.decode('utf-8', 'replace')[-300:]}")


def _loop(layout: Layout, port: int) -> Sequence[str]:
    judge = f"{sys.executable} -m gitops_bot.demo.judge --workspace {layout.workspace} --calibration-dir"
    return (
        *(*COMMAND, "loop", "run", "--workspace", str(layout.workspace)),
        *("--goal", "Lower the p99 latency of the endpoint picker by changing picker.json."),
        *("--judge", f"{judge} {layout.calibrations}"),
        *("--control-port", "0", "--max-iterations", str(ITERATIONS), "--broker"),
        *("--broker-url", f"http://127.0.0.1:{port}", "--loop-token-file", str(layout.loop_token)),
        *("--id", "demo", "--", sys.executable, "-m", "gitops_bot.demo.agent"),
    )


class _Watch:
    """Follows the ledger, tells what happens, plays the person when nobody is there."""

    def __init__(
        self,
        stage: Stage,
        database: Database,
        loop: Actor,
        layout: Layout,
        forge: str,
        tell: Tell,
        *,
        auto: bool,
    ) -> None:
        self._stage = stage
        self._database = database
        self._loop = loop
        self._layout = layout
        self._forge = forge
        self._tell = tell
        self._auto = auto
        self._seen: list[Mapping[str, Any]] = []
        self._seq = 0
        self._answered = False

    def until_done(self) -> str:
        """Follow until the loop ends; gives what went wrong, or ''."""
        began = time.monotonic()
        while self._loop.process.poll() is None:
            self._stage.check()
            self._read()
            if self._auto and time.monotonic() - began > AUTO_SECONDS:
                return f"not done after {AUTO_SECONDS:g} s"
            time.sleep(0.1)
        if self._loop.process.returncode not in (0, 1):
            return f"the loop ended with {self._loop.process.returncode}: {self._stage.tail(self._loop)}"
        return ""

    def timeline(self, *, wait_for_sealer: bool) -> tuple[Mapping[str, Any], ...]:
        """Give what happened, in sealed order, once the broker has read the loop's last lines."""
        until = time.monotonic() + 10
        while wait_for_sealer and missing(tuple(self._seen)) and time.monotonic() < until:
            self._read()
            time.sleep(0.1)
        self._read()
        return tuple(self._seen)

    def _read(self) -> None:
        with self._database.read() as tx:
            entries = ledger.sealed(tx, self._seq, 500)
        for entry in entries:
            self._seq = entry.seq
            document = entry.document
            self._seen.append(
                {"at": document["at"], "event": document["kind"], "seq": entry.seq, "facts": document["facts"]}
            )
            if document["kind"] in SHOWN:
                self._tell(_line(document))
            if document["kind"] == "forge.pull_request_opened":
                self._opened(document)

    def _opened(self, document: Mapping[str, Any]) -> None:
        with self._database.read() as tx:
            capture = captures.get(tx, str(document["capture"]))
        assert capture is not None
        number, line = document["facts"]["number"], f"/approve-capture {capture.trace_id}"
        if self._auto and not self._answered:
            self._answered = True
            comment(self._forge, self._layout.person_token("alice"), number, line)
            self._tell(f"alice comments: {line}")
        elif not self._auto:
            self._tell(f"decide here: {self._forge}/{files.REPOSITORY}/pull/{number}")
            self._tell(f"by a comment whose first line is: {line}")


def comment(forge: str, token: str, number: int, body: str) -> None:
    """Write a comment on the sandbox forge as a person would, through its API."""
    asked = http.Request(  # noqa: S310 # the address is our own sandbox's on loopback
        f"{forge}/repos/{files.REPOSITORY}/issues/{number}/comments",
        data=json.dumps({"body": body}).encode("utf-8"),
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    )
    with http.urlopen(asked, timeout=10):  # noqa: S310 # as above
        return


def _line(document: Mapping[str, Any]) -> str:
    facts = document["facts"]
    shown = " ".join(
        f"{name}={facts[name]}" for name in ("trace_id", "number", "regime", "baseline_score") if name in facts
    )
    who = f" by {document['principal']}" if document["kind"] == "ask.answered" else ""
    return f"{document['kind']}{who} {shown}".rstrip()


def missing(timeline: Sequence[Mapping[str, Any]]) -> str:
    """Name what of `WANTED` did not happen in its order; '' when all did."""
    names, place = [entry["event"] for entry in timeline], 0
    for group in WANTED:
        rest = names[place:]
        absent = [name for name in group if name not in rest]
        if absent:
            return f"{', '.join(sorted(absent))} did not happen in order"
        place += max(rest.index(name) for name in group) + 1
    return ""


def segments(layout: Layout) -> tuple[Mapping[str, Any], ...]:
    """Read the segments of the loop and the best score of each out of its session log."""
    log = layout.workspace / "state" / "session.jsonl"
    found: list[dict[str, Any]] = []
    for raw in log.read_text("utf-8").splitlines() if log.exists() else ():
        line = json.loads(raw)
        if line.get("kind") == "segment":
            baseline = line.get("baseline_score")
            found.append({"regime": line.get("regime"), "baseline": baseline, "best": baseline, "turns": 0})
        if line.get("kind") == "row" and found:
            found[-1]["turns"] += 1
            score = line["row"].get("score") if isinstance(line.get("row"), dict) else None
            if isinstance(score, int | float) and (found[-1]["best"] is None or score < found[-1]["best"]):
                found[-1]["best"] = score
    return tuple(found)
