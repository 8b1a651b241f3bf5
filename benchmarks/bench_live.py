"""500 people watch one workspace while answers arrive, beside one person alone in the same run.

Broker and workspace are the product's own processes (`gitops-bot serve`) over SQLite on this disk. Measured from the
commit of an answer until the last viewer was told of it: sealing by the broker, the look of the workspace, the streams.
Bound: every viewer, every answer, within 1 s. The viewers run on the same cores.
"""

import contextlib
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import requests

from benchmarks.machine import median
from benchmarks.viewers import Viewers
from gitops_bot.authority.sessions import open_session
from gitops_bot.authority.site import Site
from gitops_bot.bootstrap.trust import pin
from gitops_bot.core.principals import Principal, PrincipalKind, PrincipalName
from gitops_bot.store import schema
from gitops_bot.store.person_tables import SessionKind, SessionMethod
from gitops_bot.store.roles import Role
from tests.decisions import Stage
from tests.ports import free_port
from tests.store_fixtures import FreshDatabase

VIEWERS: Final = 500
ANSWERS: Final = 40
PAUSE_SECONDS: Final = 0.1
BOUND_SECONDS: Final = 1.0
SESSIONS: Final = 40
"""Of each of two people; a session may have eight streams."""
PATIENCE: Final = 60.0
ROOT: Final = Path(__file__).parent.parent
SITE: Final = Site("http://localhost", "localhost", "gitops-bot", 0, 43_200_000, 604_800_000)


@dataclass(frozen=True)
class House:
    """What runs: the port, the workspace's process, the database, and the cookies of people who are signed in."""

    port: int
    workspace: int
    fresh: FreshDatabase
    cookies: tuple[str, ...]

    def resident(self) -> float:
        """Give the memory of the workspace in MB."""
        status = Path(f"/proc/{self.workspace}/status").read_text(encoding="ascii")
        found = re.search(r"^VmRSS:\s+(\d+)", status, re.MULTILINE)
        assert found is not None
        return int(found[1]) / 1024


@contextmanager
def house(folder: Path) -> Iterator[House]:
    """Set a host up and serve it."""
    fresh = FreshDatabase("sqlite", f"sqlite:///{folder / 'live.db'}")
    schema.upgrade(fresh.open(Role.OWNER).engine)
    (folder / ".gitops-bot").mkdir(mode=0o700)
    (folder / "url").touch(mode=0o600)
    (folder / "url").write_text(fresh.owner_url, encoding="utf-8")
    port = free_port()
    text = f'policies = "{ROOT / "policies"}"\n[database]\nurl_file = "url"\n[workspace]\nbind = "127.0.0.1:{port}"\n'
    (folder / "gitops-bot.toml").write_text(text, encoding="utf-8")
    pin(ROOT / "policies", folder / ".gitops-bot" / "trust.json")
    command = [sys.executable, "-m", "gitops_bot.cli", "serve", "--config", str(folder / "gitops-bot.toml")]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, stderr=log)
    try:
        wait_ready(port, process)
        yield House(port, child_of(process.pid), fresh, tuple(cookies(fresh)))
    finally:
        process.terminate()
        process.wait(PATIENCE)
        fresh.close()


def wait_ready(port: int, process: "subprocess.Popen[bytes]") -> None:
    """Wait until the workspace answers."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and process.poll() is None:
        with contextlib.suppress(requests.RequestException):
            if requests.get(f"http://localhost:{port}/readyz", timeout=10).ok:
                return
        time.sleep(0.1)
    raise RuntimeError("it did not start")


def child_of(pid: int) -> int:
    """Find the workspace among the children of `serve`."""
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split():
        if b"workspace" in Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")[:4]:
            return int(child)
    raise RuntimeError("no workspace runs")


def cookies(fresh: FreshDatabase) -> Iterator[str]:
    """Sign people in."""
    with fresh.open(Role.WORKSPACE).write() as tx:
        for name in ("alice", "bob"):
            person = Principal(PrincipalName(name), PrincipalKind.HUMAN)
            for _ in range(SESSIONS):
                yield open_session(tx, SITE, person, SessionKind.BROWSER, SessionMethod.PASSKEY, credential="k")[1]


def answered(message: "object") -> str | None:
    """Take the ask out of a message that tells its answer."""
    assert isinstance(message, dict)
    return message["ask"] if message.get("kind") == "ask.answered" else None


def measure(here: House, count: int) -> list[float]:
    """Let so many watch and answer before their eyes; give for each answer the seconds until the last was told."""
    stage = Stage(here.fresh.open(Role.HOST))
    opened = [stage.question() for _ in range(ANSWERS)]
    before = here.resident()
    headers = [{"Cookie": f"__Host-gitops-bot={one}"} for one in here.cookies]
    viewers = Viewers(here.port, "/api/v1/events", headers, answered)
    viewers.open(count)
    took = []
    for ask in opened:
        stage.answer(ask, "alice", None, "this way")
        committed = time.monotonic()
        took.append(viewers.told(ask.id, count, PATIENCE) - committed)
        time.sleep(PAUSE_SECONDS)
    after = here.resident()
    viewers.close()
    print(
        f"  {count} viewers: {len(took)} answers, the last viewer told after {median(took) * 1000:.0f} ms (median), "
        f"{max(took) * 1000:.0f} ms (slowest; bound {BOUND_SECONDS * 1000:.0f}); workspace {before:.0f} MB before, "
        f"{after:.0f} MB with them",
        flush=True,
    )
    return took


def main() -> bool:
    """Measure one viewer and many, print both, and tell whether the bound holds for many."""
    with tempfile.TemporaryDirectory(prefix="gb-live-") as name, house(Path(name)) as here:
        alone = measure(here, 1)
        many = measure(here, VIEWERS)
    print(f"  many beside one: {median(many) / median(alone):.2f} times (median)")
    return max(many) <= BOUND_SECONDS
