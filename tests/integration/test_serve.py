"""`gitops-bot serve` as it runs: two processes under one parent, which start, speak and end together."""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gitops_bot.bootstrap.trust import pin
from tests.ports import free_port
from tests.served_stage import BOT, PATIENCE, POLICIES
from tests.store_fixtures import SqliteTemplates

pytestmark = pytest.mark.xdist_group("served")


@dataclass
class Running:
    """A started `serve` and what it has written so far."""

    folder: Path
    port: int
    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)

    def read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line.rstrip("\n"))

    def until(self, *words: str) -> None:
        """Wait until each of some words was written."""
        deadline = time.monotonic() + 2 * PATIENCE
        while not all(any(word in line for line in self.lines) for word in words):
            assert time.monotonic() < deadline, self.lines
            assert self.process.poll() is None, self.lines
            time.sleep(0.05)

    def children(self) -> dict[str, int]:
        """Give the process of each service by its name."""
        found = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        named = {}
        for pid in map(int, found):
            command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            named["workspace" if b"workspace" in command[:4] else "broker"] = pid
        return named


@pytest.fixture
def folder(sqlite_templates: SqliteTemplates) -> Iterator[Path]:
    """A host's folder of a short path, for the socket that is bound in it."""
    database = sqlite_templates.copy("sqlite")
    folder = Path(tempfile.mkdtemp(prefix="gb-serve-"))
    shutil.copytree(POLICIES, folder / "policies")
    (folder / ".gitops-bot").mkdir(mode=0o700)
    (folder / "url").touch(mode=0o600)
    (folder / "url").write_text(database.owner_url)
    pin(folder / "policies", folder / ".gitops-bot" / "trust.json")
    yield folder
    database.close()
    shutil.rmtree(folder)


def write_config(folder: Path, bind: str) -> Path:
    config = folder / "gitops-bot.toml"
    config.write_text(f'[database]\nurl_file = "url"\n[workspace]\nbind = "{bind}"\n')
    return config


@pytest.fixture
def running(folder: Path) -> Iterator[Running]:
    port = free_port()
    config = write_config(folder, f"127.0.0.1:{port}")
    command = [*BOT, "serve", "--config", str(config)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, cwd=folder)
    found = Running(folder, port, process)
    reader = threading.Thread(target=found.read)
    reader.start()
    try:
        found.until("broker    | broker: ready", f"listening on http://127.0.0.1:{port}")
        yield found
    finally:
        process.kill()
        process.wait()
        reader.join(PATIENCE)
        assert process.stderr is not None
        process.stderr.close()


def is_there(pid: int) -> bool:
    """Tell whether a process runs; one that only waits to be reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def until_gone(*pids: int) -> None:
    deadline = time.monotonic() + 2 * PATIENCE
    while any(is_there(pid) for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_both_end_when_told(running: Running, number: signal.Signals) -> None:
    children = running.children()
    assert set(children) == {"broker", "workspace"}
    running.process.send_signal(number)
    assert running.process.wait(PATIENCE * 2) == 0
    until_gone(*children.values())
    assert not any("Traceback" in line for line in running.lines)


@pytest.mark.parametrize("victim", ["broker", "workspace"])
def test_neither_goes_on_without_the_other(running: Running, victim: str) -> None:
    """The status is a failure and says which ended and how; the other one was told to stop and did."""
    children = running.children()
    os.kill(children[victim], signal.SIGKILL)
    assert running.process.wait(PATIENCE * 2) == 1
    until_gone(*children.values())
    other = "workspace" if victim == "broker" else "broker"
    deadline = time.monotonic() + PATIENCE
    told = f"serve: the {victim} ended by SIGKILL; the {other} was stopped"
    while told not in running.lines:
        assert time.monotonic() < deadline, running.lines
        time.sleep(0.05)


def test_killed_it_leaves_no_orphan(running: Running) -> None:
    children = running.children()
    running.process.kill()
    until_gone(*children.values())


def test_a_service_that_cannot_start_ends_the_other(folder: Path, running: Running) -> None:
    """The port is another's: what the workspace says comes out under its name, and nothing is left running."""
    config = write_config(folder, f"127.0.0.1:{running.port}")
    done = subprocess.run(
        [*BOT, "serve", "--config", str(config)], capture_output=True, text=True, timeout=PATIENCE * 2
    )
    assert done.returncode == 1
    assert "workspace | gitops-bot workspace: cannot listen on" in done.stderr
    assert "serve: the workspace ended with status 1; the broker was stopped" in done.stderr
    with contextlib.suppress(FileNotFoundError):
        assert running.process.poll() is None


def test_wrong_settings_start_nothing(folder: Path) -> None:
    config = write_config(folder, "nowhere")
    done = subprocess.run(
        [*BOT, "serve", "--config", str(config)], capture_output=True, text=True, timeout=PATIENCE * 2
    )
    assert (done.returncode, "bind" in done.stderr, "|" in done.stderr) == (1, True, False)
