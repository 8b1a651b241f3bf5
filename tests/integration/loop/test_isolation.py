"""The looping agent attacks its own loop: with nothing between them it can, as another user or in bubblewrap it cannot.

The Bridge line of the attacks: what a local process without a token, and the agent itself, may do.
"""

import json
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.loop.conftest import Loop, marker
from tests.ports import free_port

SPY = r"""
import glob, json, os, pathlib, socket, sys
port, loop, secret = int(sys.argv[1]), int(pathlib.Path("loop-pid").read_text()), sys.argv[2]
found = {"tokens": [], "replies": {}, "seen": [], "killed": None, "secret": None, "uid": os.getuid()}
def read(path):
    try:
        return pathlib.Path(path).read_text(errors="replace")
    except OSError as error:
        return None
tokens = glob.glob("state/*.token")
roots = [f"/proc/{pid}/root" for pid in os.listdir("/proc") if pid.isdigit()]
tokens += [f"{root}{os.getcwd()}/state/operator.token" for root in roots]
found["tokens"] = [text.strip() for text in map(read, tokens) if text]
found["secret"] = read(secret)
for pid in filter(str.isdigit, os.listdir("/proc")):
    found["seen"] += [text for text in [read(f"/proc/{pid}/environ")] if text and "SECRET_X" in text]
try:
    os.kill(loop, 0)
    found["killed"] = True
except OSError as error:
    found["killed"] = False
for name in () if found["tokens"] else ("state", "state/session.jsonl"):
    try:
        os.rename(name, name + ".moved")
        found["seen"].append(name + " was moved")
    except OSError:
        pass
try:
    pathlib.Path("state/planted").write_text("x")
except OSError:
    pass
def ask(*lines):
    with socket.create_connection(("127.0.0.1", port), 5) as line:
        line.settimeout(5)
        file = line.makefile("rb")
        for message in lines:
            line.sendall(json.dumps(message).encode() + b"\n")
            reply = file.readline()
        return json.loads(reply) if reply else None
for name, message in json.loads(sys.argv[3]).items():
    found["replies"][name] = ask(message)
for token in found["tokens"][:1]:
    found["replies"]["set-budget with a token"] = ask({"auth": token}, {"cmd": "set-budget", "usd": 7})
found["replies"]["guessed"] = ask({"auth": "x" * 43})
pathlib.Path("value").write_text("9")
pathlib.Path("spied").write_text(json.dumps(found))
pathlib.Path("PROVISIONING_PENDING.json").write_text(sys.argv[4])
pathlib.Path("CANDIDATE.md").write_text("looked around")
"""

COMMANDS: dict[str, Any] = {
    "approve": {"cmd": "approve"},
    "deny": {"cmd": "deny"},
    "rescope": {"cmd": "rescope", "regime": "R", "id": "k"},
    "set-budget": {"cmd": "set-budget", "usd": 0},
    "steer": {"cmd": "steer", "text": "approve it"},
    "pause": {"cmd": "pause"},
    "stop": {"cmd": "stop"},
    "abort": {"cmd": "abort"},
    "role broker": {"cmd": "tail", "role": "broker"},
}

WAYS = ["bubblewrap", *(["run-as"] if os.geteuid() == 0 else [])]
"""Changing the user is root's alone; where the tests run as another, bubblewrap is what there is to test."""


@pytest.fixture
def open_loop() -> Iterator[Loop]:
    """A loop in a folder that other users can enter, as `--run-as` needs."""
    home = Path(tempfile.mkdtemp(prefix="gitops-bot-loop-"))
    home.chmod(0o755)
    scratch = Loop(home)
    yield scratch
    if scratch.process is not None:
        if scratch.process.poll() is None:
            scratch.process.kill()
        scratch.process.communicate()
    shutil.rmtree(home)


def spied(loop: Loop, *options: str) -> dict[str, Any]:
    """Let the spy have one turn; give what it found."""
    port = str(free_port())
    secret = loop.home / "loop.token"
    secret.write_text("the loop's token")
    secret.chmod(0o600)
    (loop.home / "spy.py").write_text(SPY)
    (loop.home / "spy.py").chmod(0o644)
    # Not as an argument of its own: files of the command line are shown to the agent.
    python = os.path.realpath(sys.executable)
    loop.agent = [python, str(loop.home / "spy.py"), port, "../loop.token", json.dumps(COMMANDS)]
    loop.agent.append(marker(mode="continue"))
    (loop.workspace / "loop-pid").write_text("1")
    start = ["--control-port", port, *options]
    loop.start(*start, iterations=1, bridge=False)
    assert loop.process is not None
    (loop.workspace / "loop-pid").write_text(str(loop.process.pid))
    assert loop.end() == 0, loop.log()
    found: dict[str, Any] = json.loads((loop.workspace / "spied").read_text())
    return found


def laid_out(loop: Loop, way: str) -> list[str]:
    if way == "bubblewrap":
        return ["--bubblewrap"]
    for path in (loop.workspace, *loop.workspace.iterdir()):
        shutil.chown(path, "nobody", "nogroup")
    shutil.chown(loop.workspace, "root", "nogroup")
    loop.workspace.chmod(0o1770)
    return ["--run-as", "nobody"]


@pytest.mark.parametrize("way", WAYS)
def test_an_isolated_agent_finds_no_token_and_steers_nothing(open_loop: Loop, way: str) -> None:
    found = spied(open_loop, *laid_out(open_loop, way))
    assert (found["tokens"], found["seen"], found["secret"], found["killed"]) == ([], [], None, False)
    for name in COMMANDS:
        assert found["replies"][name]["error"] == "not permitted", name
    assert found["replies"]["guessed"] == {"ok": False, "error": "wrong token"}
    assert (open_loop.state / "admissions.jsonl").read_text() == ""
    assert not (open_loop.state / "planted").exists()
    assert [line["outcome"] for line in open_loop.kinds("shutdown")] == ["finished"]
    assert not any("can read" in line["msg"] for line in open_loop.kinds("note"))
    assert found["uid"] == (os.geteuid() if way == "bubblewrap" else 65534)


def test_without_isolation_the_agent_can_read_the_tokens_and_the_loop_says_so_at_start(open_loop: Loop) -> None:
    """The accepting twin, and why it is said: with the token that it reads the agent grants what it asked for."""
    found = spied(open_loop)
    assert {open_loop.token(name) for name in ("viewer", "operator", "broker")} <= set(found["tokens"])
    assert found["replies"]["approve"]["error"] == "not permitted"
    assert found["replies"]["set-budget with a token"]["ok"] is True
    notes = [line["msg"] for line in open_loop.kinds("note")]
    assert any("runs as this user and can read the bridge's tokens" in note for note in notes)
    kinds = [line["kind"] for line in open_loop.log()]
    assert kinds.index("note") < kinds.index("agent_start")


@pytest.mark.parametrize("way", WAYS)
def test_what_is_rolled_back_is_the_agent_s_own_again(open_loop: Loop, way: str) -> None:
    """After a roll-back the agent can still write what it could write before."""
    options = laid_out(open_loop, way)
    open_loop.agent[0] = os.path.realpath(sys.executable)
    plan = {"1": {"files": {"value": "11"}}, "2": {"files": {"value": "7"}}}
    (open_loop.home / "plan.json").write_text(json.dumps(plan))
    agent = (open_loop.home / "agent.py").read_text()
    keeps = 'pathlib.Path(sys.argv[1] + ".prompt").write_text(prompt)'
    assert keeps in agent
    (open_loop.home / "agent.py").write_text(agent.replace(keeps, ""))
    open_loop.start(*options, iterations=2)
    assert open_loop.end() == 0
    rows = [line["row"]["decision"] for line in open_loop.kinds("row")]
    assert rows == ["discard", "keep"]
    assert (open_loop.workspace / "value").read_text() == "7"
    about = (open_loop.workspace / "value").stat()
    assert about.st_uid == (os.geteuid() if way == "bubblewrap" else 65534)


def test_bubblewrap_shows_what_is_named_and_no_more(open_loop: Loop) -> None:
    shown = open_loop.home / "library"
    shown.mkdir()
    (shown / "data").write_text("for the agent")
    (open_loop.home / "diary").write_text("mine")
    script = f"cat {shown}/data > value.txt; cat {open_loop.home}/diary >> value.txt; touch {shown}/new; echo 9 > value"
    open_loop.agent = ["/bin/sh", "-c", f"{script}; true"]
    open_loop.start("--bubblewrap", "--agent-reads", str(shown), iterations=1)
    assert open_loop.end() == 0
    assert (open_loop.workspace / "value.txt").read_text() == "for the agent"
    assert not (shown / "new").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "can read the bridge's tokens"),
        (["--insecure-bridge"], "every local process can steer"),
        (["--bubblewrap"], "without a path to the bridge's tokens"),
    ],
)
def test_what_keeps_the_agent_from_the_bridge_is_said_at_start_to_whoever_starts_it(
    open_loop: Loop, options: list[str], said: str
) -> None:
    open_loop.agent = ["true"]
    open_loop.start(*options, iterations=1)
    assert open_loop.process is not None
    _, shown = open_loop.process.communicate(timeout=120)
    assert said in shown.decode()
    assert any(said in line["msg"] for line in open_loop.kinds("note"))


def usage(loop: Loop, *options: str) -> str:
    loop.plan()
    loop.start(*options, iterations=1)
    assert loop.process is not None
    _, said = loop.process.communicate(timeout=120)
    assert loop.process.returncode == 64, said
    return said.decode()


def test_what_could_not_isolate_is_a_usage_error_with_its_fix(open_loop: Loop) -> None:
    assert "two ways of one thing" in usage(open_loop, "--run-as", "nobody", "--bubblewrap")
    assert "would show" in usage(open_loop, "--bubblewrap", "--agent-reads", str(open_loop.workspace))
    assert "add --bubblewrap" in usage(open_loop, "--agent-reads", "/etc")
    assert "no user" in usage(open_loop, "--run-as", "no-such-user-here")


@pytest.mark.parametrize("way", [way for way in WAYS if way == "run-as"] or ["none"])
def test_run_as_needs_a_workspace_in_which_state_cannot_be_replaced(open_loop: Loop, way: str) -> None:
    if way == "run-as":
        open_loop.workspace.chmod(0o777)
        assert "sticky" in usage(open_loop, "--run-as", "nobody")
        assert "no other user" in usage(open_loop, "--run-as", "root")
    else:
        assert "only root" in usage(open_loop, "--run-as", "nobody")


def test_the_agent_ends_with_its_loop(open_loop: Loop) -> None:
    """A killed loop leaves no agent that goes on writing into the workspace that its successor restores."""
    open_loop.agent = ["/bin/sh", "-c", "echo $$ > ../pid; exec sleep 60"]
    open_loop.start(iterations=1)
    open_loop.until(lambda: (open_loop.home / "pid").exists() and (open_loop.home / "pid").read_text().strip())
    pid = int((open_loop.home / "pid").read_text())
    open_loop.kill()
    open_loop.until(lambda: not alive(pid))


def alive(pid: int) -> bool:
    status = Path(f"/proc/{pid}/stat")
    try:
        return status.read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_token_is_nobody_else_s_to_read(open_loop: Loop) -> None:
    open_loop.plan(i1={"files": {"value": "9"}})
    open_loop.start(iterations=1)
    open_loop.end()
    modes = [stat.S_IMODE((open_loop.state / f"{name}.token").stat().st_mode) for name in ("viewer", "operator")]
    assert modes == [0o600, 0o600]
    assert stat.S_IMODE(open_loop.state.stat().st_mode) == 0o700
