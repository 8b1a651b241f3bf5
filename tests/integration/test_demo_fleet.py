"""The fleet demo as a newcomer runs it: five agents, real commits, a verdict, an expiry, a message, a broker killed in
the middle; a person in place of AUTO; what it needs is named when it is not there."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gitops_bot import process
from gitops_bot.cli import run
from gitops_bot.demo.desk import Desk
from gitops_bot.demo.fleet_agent import CHOICES, FORMATTED, LINTED
from gitops_bot.demo.fleet_files import SLUGS

DEMO = [sys.executable, "-m", "gitops_bot.cli", "demo", "--scenario", "fleet"]
PATIENCE = 600.0
pytestmark = pytest.mark.xdist_group("demo")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short name, for the sockets that lie in it (unix(7))."""
    with tempfile.TemporaryDirectory(prefix="demo-", ignore_cleanup_errors=True) as place:
        yield Path(place) / "d"


def left_of(folder: Path) -> str:
    return subprocess.run(["pgrep", "-af", str(folder)], capture_output=True, text=True, check=False).stdout


def git(folder: Path, *words: str) -> str:
    return subprocess.run(
        ["git", "-C", str(folder / "git" / "thermo.git"), *words], capture_output=True, text=True, check=True
    ).stdout


@pytest.mark.slow
def test_auto_runs_five_agents_to_their_commits_through_a_verdict_an_expiry_and_a_kill(folder: Path) -> None:
    """One document: who was told what and when, each line once, what each left, and nothing left behind that runs."""
    done = subprocess.run(
        [*DEMO, "--auto", "--json", "--dir", str(folder)], capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr[-3000:]
    said: dict[str, Any] = json.loads(done.stdout)
    assert (said["ok"], said["scenario"], said["problem"]) == (True, "fleet", "")
    timeline = said["timeline"]
    ids = {one["facts"]["slug"]: one["agent"] for one in timeline if one["event"] == "agent.added"}
    assert set(ids) == set(SLUGS)

    def of(event: str, slug: str) -> list[dict[str, Any]]:
        return [one for one in timeline if one["event"] == event and one["agent"] == ids[slug]]

    (lost,) = of("run.lost", "formatter")
    bodies = [one for one in of("run.dispatched", "formatter") if one["run"] == lost["run"]]
    assert [one["facts"]["version"] for one in bodies] == [1, 2]
    assert [one["facts"]["text"] for one in of("agent.report", "formatter")] == [
        f"formatted {one}" for one in FORMATTED
    ]
    assert [one["facts"]["outcome"] for one in of("run.settled", "formatter")] == ["WORK_DONE"]

    (asked,), (expired,) = of("ask.opened", "linter"), of("ask.expired", "releaser")
    (answered,) = [one for one in timeline if one["event"] == "ask.answered"]
    assert (answered["ask"], answered["facts"]["by"]) == (asked["ask"], ["alice"])
    assert [one["facts"]["told"] for one in of("run.dispatched", "linter") if one["facts"]["wake"] == "answer"] == [1]
    assert [one["ask"] for one in of("agent.paused", "releaser")] == [expired["ask"]]
    assert [one["facts"]["wake"] for one in of("run.dispatched", "fixer")] == ["message"]

    agents = {one["slug"]: one for one in said["agents"]}
    assert agents["releaser"]["status"] == "PAUSED"
    assert agents["fixer"]["status"] == "WAITING_EVENT"
    assert [len(agents[slug]["commits"]) for slug in SLUGS] == [4, 1, 1, 1, 1]
    assert git(folder, "tag") == "", "what expired has no effect"
    assert ' == "K"' in git(folder, "show", f"agents/linter:{LINTED}")
    assert "+ 32" in git(folder, "show", "agents/tester:thermo/convert.py")
    assert f"isolation = {said['isolation']}" in done.stderr
    if shutil.which("bwrap") is None:
        assert "can read the database" in done.stderr
    assert left_of(folder) == ""


@pytest.mark.slow
def test_a_person_answers_at_the_printed_address_and_ends_it_by_ctrl_c(folder: Path) -> None:
    """Without AUTO nothing is answered by itself: the linter goes on with what the person chose, the other way too."""
    child = subprocess.Popen([*DEMO, "--dir", str(folder)], stdout=subprocess.PIPE, text=True, bufsize=1)
    assert child.stdout is not None
    said, desk = "", None
    try:
        for line in child.stdout:
            said += line
            if (found := re.search(r"come in as alice +(http://\S+)/enrol", line)) is not None:
                desk = Desk(found[1])
            elif (found := re.search(r"with this code +(\S+)", line)) is not None and desk is not None:
                assert desk.come_in(found[1]) == "alice"
            elif (found := re.search(r"(?:answer here|or answer it: )\s*http://\S+/asks/(\S+)", line)) is not None:
                assert desk is not None
                desk.answer(found[1], "o2" if "answer here" in line else "o1")
            elif "Ctrl-C ends it" in line:
                break
        child.send_signal(signal.SIGINT)
        rest = child.communicate(timeout=60)[0]
    finally:
        child.kill()
        child.communicate()
    assert CHOICES[1] in said
    assert "everything as it must be" in said
    assert "Traceback" not in said + rest
    assert "Accept a complaint, as alice decided" in git(folder, "log", "--format=%s", "agents/linter")
    assert git(folder, "tag") == "v1.1.0\n", "what a person decided has its effect"
    until = time.monotonic() + 60
    while left_of(folder) and time.monotonic() < until:
        time.sleep(0.1)
    assert left_of(folder) == ""


@pytest.mark.slow
def test_a_workspace_that_dies_is_named_and_everything_else_ends(folder: Path) -> None:
    """The document says what went wrong; the accepting twin is the first test."""
    options = ["--auto", "--json", "--dir", str(folder)]
    child = subprocess.Popen([*DEMO, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stderr is not None
    try:
        for line in child.stderr:
            if "alice comes in" in line:
                found = subprocess.run(["pgrep", "-f", f"workspace --config {folder}"], capture_output=True, text=True)
                for number in found.stdout.split():
                    os.kill(int(number), signal.SIGKILL)
                break
        out, _ = child.communicate(timeout=PATIENCE)
    finally:
        child.kill()
        child.communicate()
    assert child.returncode == 1
    assert "workspace ended with -9" in json.loads(out)["problem"]
    assert left_of(folder) == ""


def test_git_that_is_not_there_is_named(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is started without git; the accepting twins are the tests above."""
    monkeypatch.setattr(process, "SYSTEM_PATH", str(tmp_path))
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        assert run(["demo", "--scenario", "fleet", "--auto", "--dir", str(folder)]) == 1
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert "install git" in capsys.readouterr().err
    assert list(folder.iterdir()) == []
