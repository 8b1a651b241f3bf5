"""A real loop process in a scratch folder, with a scripted agent and judge, and a plain socket to its bridge."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

WANTED = "model=Qwen/Qwen3-0.6B;c=48;p=8;mt=8;lt=0;lf=0.0000"

AGENT = """
import json, os, pathlib, sys
plan = json.loads(pathlib.Path(sys.argv[1]).read_text())
prompt = sys.stdin.read()
pathlib.Path(sys.argv[1] + ".prompt").write_text(prompt)
step = plan.get(os.environ["LOOP_ITERATION"], {})
for name, text in step.get("files", {}).items():
    pathlib.Path(name).write_text(text)
for name, target in step.get("links", {}).items():
    os.symlink(target, name)
if "environment" in step:
    pathlib.Path(step["environment"]).write_text(json.dumps(dict(os.environ)))
if "rewrite" in step:
    pathlib.Path(step["rewrite"]).write_text("print('{\\"score\\": 0}')")
if "sleep" in step:
    import time
    time.sleep(step["sleep"])
sys.exit(step.get("exit", 0))
"""

JUDGE = """
import json, os, pathlib, sys
workspace = pathlib.Path(os.environ["LOOP_WORKSPACE"])
value = float((workspace / "value").read_text())
if os.environ["LOOP_REGIME"] != "default":
    value += 100
print(json.dumps({"score": value, "solved": value < 0}))
"""


def marker(trace_id: str = WANTED, mode: str | None = "block", **changes: Any) -> str:
    """Write a marker as an agent would."""
    regime = {"model": "Qwen/Qwen3-0.6B", "concurrency": 48, "prefixes": 8, "max_tokens": 8, "long_tokens": 0}
    value = {"trace_id": trace_id, "regime": {**regime, "long_frac": 0.0}, "handle": "cap-1", "mode": mode}
    return json.dumps({name: member for name, member in {**value, **changes}.items() if member is not None})


class Bridge:
    """One connection to a control bridge."""

    def __init__(self, address: str, token: str | None = None) -> None:
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), 60)
        self.file = self.socket.makefile("rb")
        if token is not None:
            try:
                self.auth = self.ask({"auth": token})
            except BaseException:
                self.close()  # a loop that was killed meanwhile: nobody else will
                raise

    def ask(self, message: Any) -> Any:
        """Send one message and read one line."""
        self.send(json.dumps(message).encode() + b"\n")
        return self.read()

    def send(self, raw: bytes) -> None:
        self.socket.sendall(raw)

    def read(self) -> Any:
        line = self.file.readline()
        return json.loads(line) if line else None

    def close(self) -> None:
        self.file.close()
        self.socket.close()


class Loop:
    """One scratch loop: its files, its process, its log."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.workspace = home / "work"
        self.workspace.mkdir()
        self.state = self.workspace / "state"
        (self.workspace / "value").write_text("10")
        (home / "agent.py").write_text(AGENT)
        (home / "judge.py").write_text(JUDGE)
        self.agent = [sys.executable, str(home / "agent.py"), str(home / "plan.json")]
        self.program = ["-m", "gitops_bot.cli"]
        self.judge = f"{sys.executable} {home / 'judge.py'}"
        self.process: subprocess.Popen[bytes] | None = None
        self.bridges: list[Bridge] = []

    def plan(self, **steps: Any) -> None:
        """Say what the agent does in each iteration: i1={"files": {...}}, …"""
        (self.home / "plan.json").write_text(json.dumps({name[1:]: step for name, step in steps.items()}))

    def start(self, *options: str, iterations: int = 3, bridge: bool = True) -> None:
        """Start it; `options` come before the agent."""
        (self.state / "control-address").unlink(missing_ok=True)
        port = ["--control-port", "0"] if bridge else []
        command = [sys.executable, *self.program, "loop", "run", "--workspace", str(self.workspace)]
        command += ["--goal", "a smaller value", "--judge", self.judge, *port, "--max-iterations", str(iterations)]
        command += [*options, "--", *self.agent]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, env={**os.environ, "SECRET_X": "leak"})

    def end(self, timeout: float = 120) -> int:
        """Wait for its end; give the exit status."""
        assert self.process is not None
        self.process.communicate(timeout=timeout)
        return self.process.returncode

    def kill(self, number: int = signal.SIGKILL) -> None:
        assert self.process is not None
        self.process.send_signal(number)
        self.end()

    def log(self) -> list[dict[str, Any]]:
        """Read the whole lines of its log; a killed writer may have left the last one torn."""
        path = self.state / "session.jsonl"
        return [json.loads(line) for line in path.read_text().split("\n")[:-1]] if path.exists() else []

    def kinds(self, kind: str) -> list[dict[str, Any]]:
        return [line for line in self.log() if line["kind"] == kind]

    def until(self, seen: Callable[[], Any], timeout: float = 120) -> Any:
        """Wait until something is so."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            if found := seen():
                return found
            time.sleep(0.02)
        raise AssertionError(f"not in time; the log is {self.log()}")

    def token(self, name: str) -> str:
        return (self.state / f"{name}.token").read_text().strip()

    def connect(self, token: str | None = None) -> Bridge:
        """Connect to its bridge, with one of the three tokens."""
        path = self.state / "control-address"
        self.until(path.exists)
        bridge = Bridge(path.read_text().strip(), self.token(token) if token else None)
        self.bridges.append(bridge)
        return bridge

    def parked(self, times: int = 1) -> None:
        self.until(lambda: len(self.kinds("parked")) >= times)


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[Loop]:
    """A loop that is not running yet."""
    scratch = Loop(tmp_path)
    yield scratch
    for bridge in scratch.bridges:
        bridge.close()
    if scratch.process is not None:
        if scratch.process.poll() is None:
            scratch.process.kill()
        scratch.process.communicate()


@pytest.fixture
def wanted() -> str:
    """The trace id that the scripted agent asks for."""
    return WANTED


@pytest.fixture
def ask() -> Callable[..., str]:
    """Writes markers."""
    return marker
