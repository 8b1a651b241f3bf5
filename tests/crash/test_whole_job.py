"""The whole job with real processes, and one of them killed at a point of it: asked, approved, measured, rescoped.

However it was killed there is in the end one capture, one rescope, one pull request and an intact ledger. The broker
dies at commits, the loop at fsyncs, the forge at lines of its journal and at requests, the capture's program and its
keeper at each of their steps. Instant captures and a stub judge make a job a matter of a second; a few more runs
measure a real endpoint, which is killed too.
`HYPOTHESIS_PROFILE=long` kills at every point instead of every few.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
from sqlalchemy import select

from gitops_bot.authority.sealing import verify
from gitops_bot.bootstrap import trust
from gitops_bot.core.asks import AskState
from gitops_bot.core.captures import Regime, slug
from gitops_bot.core.errors import Unavailable
from gitops_bot.demo.files import REPOSITORY, Layout, write
from gitops_bot.sandbox.remote import RemoteControl
from gitops_bot.store import asks, captures, ledger, schema
from gitops_bot.store.engine import Database
from gitops_bot.store.roles import Role
from gitops_bot.store.work_tables import due, effects
from tests.crash.cut_wire import CutWire
from tests.crash.warmed import SECRET, short
from tests.ports import free_port

__all__ = ["short"]

pytestmark = pytest.mark.slow

REGIME: Final = Regime("Qwen/Qwen3-0.6B", 4, 2, 4, 0, "0.0000")
SECONDS: Final = 120.0
PAUSE: Final = 0.015
EVERY: Final = os.environ.get("HYPOTHESIS_PROFILE") == "long"
COMMITS, FSYNCS, LINES, REQUESTS = 96, 24, 16, 48
"""About so many points a job has; those beyond its end kill nothing, and the job must end well all the same."""
SURE: Final = {"broker": 40, "loop": 14, "forge": 10}
JUDGE: Final = '[ "$LOOP_REGIME" = default ] && echo \'{"score": 9}\' || echo \'{"score": 5}\'\n'
AGENT: Final = """
import json, os, socket
regime, name = json.loads(%r), %r
place = os.environ["GITOPS_BOT_URL"].split("//")[1].rstrip("/")
wish = json.dumps({**regime, "why": "to see more", "mode": "block", "idempotency_key": "job"})
head = ["POST /api/v1/captures HTTP/1.1", "Host: " + place, "Connection: close", "Content-Type: application/json",
        "Authorization: Bearer " + os.environ["GITOPS_BOT_TOKEN"], "Content-Length: " + str(len(wish))]
host, port = place.split(":")
with socket.create_connection((host, int(port)), 60) as wire:
    wire.sendall(("\\r\\n".join(head) + "\\r\\n\\r\\n" + wish).encode())
    said = json.loads(wire.makefile("rb").read().partition(b"\\r\\n\\r\\n")[2])
marker = {"trace_id": name, "regime": {**regime, "long_frac": 0.0}, "handle": said["handle"], "mode": "block"}
open("PROVISIONING_PENDING.json", "w").write(json.dumps(marker))
"""
AGENT_TURN: Final = '[ "$LOOP_REGIME" = default ] && exec "$1" -I -S "$2"; echo better > CANDIDATE.md\n'
# What the program does at its first run; at the second it measures. KEEPER is its parent.
DEATHS: Final = {
    "at once": "kill -9 $$",
    "between its files": "echo x > trace.jsonl; kill -9 $$",
    "after its files": "measure; kill -9 $$",
    "keeper at once": "kill -9 $PPID; sleep 60",
    "keeper after its files": "measure; kill -9 $PPID; sleep 60",
}
PROGRAM: Final = """
measure() {
  echo '{"meta": {}}' > trace.jsonl
  echo '{"v": 1, "knobs": {"MOCK_TTFT_MS": "5.0", "MOCK_MAX_NUM_SEQS": "4"}}' > knobs.json
}
[ -e "$1/died" ] || { : > "$1/died"; %s; }
measure
"""


class Nursery:
    """The process that forks actors."""

    def __init__(self) -> None:
        argv = [sys.executable, "-m", "tests.crash.job_nursery"]
        self.process = subprocess.Popen(
            argv,
            cwd=Path(__file__).parents[2],
            env={"PATH": os.environ["PATH"]},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._answer()

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def order(self, **order: Any) -> Any:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(10)
        self.process.stdout.close()


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    made = Nursery()
    yield made
    made.close()


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A set-up before its first start: policy, pin, database, the loop's agent; copied for each job."""
    layout = Layout(tmp_path_factory.mktemp("prepared") / "job")
    layout.root.mkdir(mode=0o700)
    write(layout)
    state = layout.root / ".gitops-bot"
    state.mkdir(mode=0o700)
    owner = Database.open(f"sqlite:///{state / 'gitops-bot.db'}", Role.OWNER)
    schema.upgrade(owner.engine)
    owner.close()
    trust.pin(layout.root / "policies", state / "trust.json")
    layout.config.write_text(f'repository = "github.com/{REPOSITORY}"\n[signed]\nenvironment = "demo"\n')
    words = ("agent", "add", "job-loop", "--loop", "--principal", "demo-agent", "--owner", "alice")
    argv = [sys.executable, "-m", "gitops_bot.cli", *words, "--config", str(layout.config), "--token-file"]
    subprocess.run([*argv, str(layout.loop_token)], check=True, capture_output=True, cwd=layout.root)
    (layout.root / "judge.sh").write_text(JUDGE)
    (layout.root / "agent.sh").write_text(AGENT_TURN)
    (layout.root / "agent.py").write_text(AGENT % (json.dumps(REGIME.params()), REGIME.trace_id))
    return layout.root


@pytest.fixture(scope="module")
def seeded(nursery: Nursery, prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same set-up with a forge that was set up already, and is started again where no forge is to die."""
    root = tmp_path_factory.mktemp("seeded") / "job"
    shutil.copytree(prepared, root)
    made = Job(nursery, Layout(root), None, free_port())
    made.start("forge")
    made.await_forge()
    made.close()
    for left in ("forge.url", "forge.log"):
        (root / left).unlink()
    return root


@dataclass
class Job:
    """One job under way: its actors, started again whenever one has died."""

    nursery: Nursery
    layout: Layout
    wire: CutWire | None
    port: int
    forge: RemoteControl | None = None
    forge_port: int = field(default_factory=free_port)
    between: Callable[[], None] = lambda: None
    pids: dict[str, int] = field(default_factory=dict)
    deaths: list[str] = field(default_factory=list)
    reaped: set[int] = field(default_factory=set)
    _database: Database | None = None

    @property
    def forge_url(self) -> str:
        """Where the job finds its forge: at its port, or at the wire that is cut."""
        return f"http://127.0.0.1:{self.forge_port}" if self.wire is None else self.wire.url

    def await_forge(self) -> None:
        """Wait until the forge answers, started again if it dies before."""
        address = self.layout.root / "forge.url"
        until = time.monotonic() + SECONDS
        while not address.exists():
            assert time.monotonic() < until, self.logs()
            time.sleep(0.005)
            self.raise_again("forge")
        own = address.read_text()
        self.forge = RemoteControl(own, SECRET)
        if self.wire is not None:
            self.wire.upstream = urlsplit(own)

    def raise_again(self, actor: str) -> int | None:
        """Start an actor again where it was killed; give the status of one that ended otherwise."""
        status: int | None = self.nursery.order(poll=self.pids[actor])
        if status is None:
            return None
        self.reaped.add(self.pids[actor])
        if actor == "loop" and status in (0, 1) and self.loop_ended():
            del self.pids[actor]
            return status
        self.deaths.append(actor)
        assert status == -signal.SIGKILL, (actor, status, self.logs())
        self.start(actor, resume=True)
        return None

    def start(self, actor: str, moment: str = "before", number: int = 0, *, resume: bool = False) -> None:
        """Start an actor that is to die at a point; 0: live."""
        root = self.layout.root
        self.pids[actor] = self.nursery.order(
            start=actor,
            log=str(root / f"{actor}.log"),
            folder=str(root),
            config=str(self.layout.config),
            url=f"http://127.0.0.1:{self.port}",
            moment=moment,
            number=number,
            resume=resume,
            forge_port=self.forge_port,
            wire="" if self.wire is None else self.wire.url,
        )

    def run(self, victim: str, moment: str, number: int) -> None:
        """Play the job to the loop's end, answer as alice, start again what dies."""
        for actor in ("workspace", "loop"):
            self.start(actor, moment, number if actor == victim else 0)
        self.await_forge()
        self.start("broker", moment, number if victim == "broker" else 0)
        until, answered = time.monotonic() + SECONDS, False
        while True:
            assert time.monotonic() < until, self.logs()
            time.sleep(PAUSE)
            self.between()
            answered = answered or self.answer()
            for actor in list(self.pids):
                if self.raise_again(actor) is not None:
                    return self.wait_until_told(until)

    def answer(self) -> bool:
        """Approve as alice once the pull request is there; whether that is done."""
        opened = [capture.pull_request for capture in self.rows() if capture.pull_request is not None]
        if not opened:
            return False
        body = f"/approve-capture {REGIME.trace_id}"
        assert self.forge is not None
        try:
            said = self.forge.call("comments", full_name=REPOSITORY, number=opened[0])
            if all(comment["body"] != body for comment in said):
                self.forge.call("comment", full_name=REPOSITORY, number=opened[0], login="alice", body=body)
        except Unavailable:
            return False  # it is away, or died with the comment in hand
        return True

    def wait_until_told(self, until: float) -> None:
        """Wait until the broker has put everything on record that follows from the loop's end."""
        while not self.done():
            assert time.monotonic() < until, f"{self.kinds()}\n{self.due()}\n{self.rows()}\n{self.logs()}"
            for actor in ("broker", "forge"):
                self.raise_again(actor)
            time.sleep(PAUSE)

    def session(self) -> list[dict[str, Any]]:
        log = self.layout.workspace / "state" / "session.jsonl"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    def loop_ended(self) -> bool:
        return self.session()[-1]["kind"] == "shutdown"

    def rows(self) -> list[captures.Capture]:
        with self.database.read() as tx:
            return captures.page(tx, "", 100)

    def kinds(self) -> list[str]:
        """List what the ledger has sealed."""
        with self.database.read() as tx:
            return [entry.document["kind"] for entry in ledger.sealed(tx, 0, 1000)]

    def due(self) -> list[str]:
        """List what is due, with what went wrong with it, and the effects under way: for the word of a failure."""
        with self.database.read() as tx:
            rows = [*tx.execute(select(due)), *tx.execute(select(effects).where(effects.c.ended_at.is_(None)))]
        return [str(row)[:300] for row in rows]

    def done(self) -> bool:
        """Tell whether the job is over on record: everybody told, the calibration committed, all of it sealed."""
        if not {"capture.rescoped", "forge.pull_request_ready", "bridge.rescope_acknowledged"} <= set(self.kinds()):
            return False
        with contextlib.suppress(Unavailable):
            return not any(thread["pull"]["draft"] for thread in self.threads())
        return False

    def threads(self) -> list[dict[str, Any]]:
        """List the pull requests as the forge has them."""
        assert self.forge is not None
        found: list[dict[str, Any]] = self.forge.call("threads", full_name=REPOSITORY)
        return found

    @property
    def database(self) -> Database:
        """The database as somebody on the host reads it; opened once."""
        if self._database is None:
            self._database = Database.open(f"sqlite:///{self.layout.root / '.gitops-bot' / 'gitops-bot.db'}", Role.HOST)
        return self._database

    def logs(self) -> str:
        texts = [f"{path.name}: {path.read_text()[-1500:]}" for path in sorted(self.layout.root.glob("*.log"))]
        return "\n".join([*texts, *(str(line) for line in self.session()[-6:])])

    def close(self) -> None:
        for pid in self.pids.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            while pid not in self.reaped and self.nursery.order(poll=pid) is None:
                time.sleep(0.005)
        if self.wire is not None:
            self.wire.stop()
        if self._database is not None:
            self._database.close()


def job(
    nursery: Nursery,
    before: Path,
    root: Path,
    program: list[str],
    *,
    cut: tuple[str, int] | None = None,
    forge: tuple[str, int] = ("before", 0),
) -> Job:
    """Copy a set-up, start its forge, write its settings. `cut` is where requests to the forge are cut, `forge` where
    it dies itself."""
    shutil.copytree(before, root, dirs_exist_ok=True)
    layout = Layout(root)
    port = free_port()
    made = Job(nursery, layout, None if cut is None else CutWire("", *cut), port)
    made.start("forge", *forge)
    layout.config.unlink()
    layout.config.write_text(
        f"""repository = "github.com/{REPOSITORY}"
[forge]
repositories = ["{REPOSITORY}"]
api_url = "{made.forge_url}"
token_file = "forge.token"
[signed]
environment = "demo"
[workspace]
bind = "127.0.0.1:{port}"
[capture]
program = {json.dumps(program)}
attempts = 3
publish = "calibrations"
"""
    )
    layout.config.chmod(0o600)
    return made


def assert_ended_well(done: Job) -> None:
    """One capture, one rescope, one pull request, an intact ledger."""
    (capture,) = done.rows()
    with done.database.read() as tx:
        assert capture.ask is not None
        ask = asks.get(tx, capture.ask)
    assert verify(done.database).faults == ()
    assert ask is not None and ask.state is AskState.APPROVED
    kinds = done.kinds()
    for once in ("ask.opened", "ask.answered", "forge.pull_request_opened", "capture.ready", "capture.rescoped"):
        assert kinds.count(once) == 1, (once, kinds)
    assert kinds.count("bridge.rescope_acknowledged") == 1
    (thread,) = done.threads()
    assert thread["pull"]["draft"] is False
    segments = [line["regime"] for line in done.session() if line["kind"] == "segment"]
    assert segments == ["default", REGIME.trace_id]
    admitted = (done.layout.workspace / "state" / "admissions.jsonl").read_text().splitlines()
    assert [json.loads(line)["kind"] for line in admitted] == ["admitted", "settled"]
    published = json.loads((done.layout.calibrations / slug(REGIME.trace_id) / "knobs.json").read_text())
    assert published["digest"] == capture.digest


def points(last: int, step: int) -> list[tuple[str, int]]:
    """Give points to die at: every one both ways, or every few, one way and the other in turn."""
    if EVERY:
        return [(moment, number) for moment in ("before", "after") for number in range(1, last + 1)]
    return [(("before", "after")[number // step % 2], number) for number in range(1, last + 1, step)]


def stub(root: Path, death: str = ":") -> list[str]:
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    (root / "program.sh").write_text(PROGRAM % death)
    return ["/bin/sh", str(root / "program.sh"), str(root)]


@pytest.mark.xdist_group("whole-job-writes")
@pytest.mark.parametrize(
    ("victim", "moment", "number"),
    [
        ("nobody", "before", 0),
        *(("broker", *point) for point in points(COMMITS, 8)),
        *(("loop", *point) for point in points(FSYNCS, 4)),
        *(("forge", *point) for point in points(LINES, 2)),
    ],
)
def test_killed_at_any_write_it_ends_once(
    nursery: Nursery, prepared: Path, seeded: Path, short: Path, victim: str, moment: str, number: int
) -> None:
    """A broker at its n-th commit, a loop at its n-th fsync, a forge at the n-th line of its journal; the twin is the
    run in which nobody dies."""
    forge = (moment, number) if victim == "forge" else ("before", 0)
    before = prepared if victim == "forge" else seeded
    made = job(nursery, before, short / "job", stub(short / "stub"), forge=forge)
    try:
        made.run(victim, moment, number)
        assert_ended_well(made)
        assert set(made.deaths) <= {victim}
        assert made.deaths or victim == "nobody" or number > SURE[victim], "this point is in every run"
    finally:
        made.close()


@pytest.mark.xdist_group("whole-job-others")
@pytest.mark.parametrize(("moment", "number"), points(REQUESTS, 12))
def test_a_forge_that_dies_at_a_request_and_comes_back_has_one_pull_request(
    nursery: Nursery, seeded: Path, short: Path, moment: str, number: int
) -> None:
    """Whether or not the request took effect, whose answer nobody has."""
    made = job(nursery, seeded, short / "job", stub(short / "stub"), cut=(moment, number))
    try:
        made.run("nobody", "before", 0)
        assert_ended_well(made)
    finally:
        made.close()


@pytest.mark.xdist_group("whole-job-others")
@pytest.mark.parametrize("death", list(DEATHS))
def test_a_capture_program_that_dies_is_run_again_as_the_same_capture(
    nursery: Nursery, seeded: Path, short: Path, death: str
) -> None:
    """Two attempts at most, one trace; what a dead attempt left is not taken for a result."""
    made = job(nursery, seeded, short / "job", stub(short / "stub", DEATHS[death]))
    try:
        made.run("nobody", "before", 0)
        assert_ended_well(made)
        (capture,) = made.rows()
        assert capture.attempt == 1
        assert capture.artefact is not None and f"{capture.id}-1" in capture.artefact
    finally:
        made.close()


@pytest.mark.xdist_group("whole-job-others")
@pytest.mark.parametrize("victim", ["inference server", "broker", "capture program", "forge"])
def test_with_a_capture_that_measures(nursery: Nursery, seeded: Path, short: Path, victim: str) -> None:
    """In the middle of the load the endpoint, the broker or the program is killed; the trace is one measurement's."""
    port = free_port()
    endpoint = [sys.executable, "-m", "gitops_bot.demo.inference", "--layers", "1", "--port", str(port)]
    server = subprocess.Popen(endpoint, stdout=subprocess.PIPE)
    address = f"http://127.0.0.1:{port}"
    program = [sys.executable, "-I", "-m", "gitops_bot.measure", "--request-timeout", "5", "--endpoint", address]
    made = job(nursery, seeded, short / "job", program)
    killed = False

    def kill_once() -> None:
        nonlocal killed, server
        jobs = made.layout.root / ".gitops-bot" / "captures"
        loaded = [path for path in jobs.glob("*-0/stderr") if "prefill" in path.read_text()]
        if killed or not loaded:
            return
        killed = True
        match victim:
            case "inference server":
                server.kill()
                server.communicate()
                server = subprocess.Popen(endpoint, stdout=subprocess.PIPE)
            case "broker" | "forge":
                os.kill(made.pids[victim], signal.SIGKILL)
            case "capture program":
                keeper = json.loads((loaded[0].parent / "began.json").read_text())["pid"]
                children = Path(f"/proc/{keeper}/task/{keeper}/children").read_text().split()
                os.kill(int(children[0]), signal.SIGKILL)

    made.between = kill_once
    try:
        assert server.stdout is not None
        server.stdout.readline()
        made.run("nobody", "before", 0)
        assert_ended_well(made)
        (capture,) = made.rows()
        assert capture.artefact is not None
        first, *records = [json.loads(line) for line in Path(capture.artefact).read_text().splitlines()]
        assert first["meta"]["regime"] == REGIME.params()
        assert len(records) == sum(one["requests"] for one in first["meta"]["rounds"])
        assert killed
    finally:
        made.close()
        server.kill()
        server.communicate()
