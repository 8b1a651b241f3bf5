"""The demo as a newcomer runs it: both asks, both answers, scores that differ because knobs do, nothing left behind."""

import json
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urljoin

import pytest

from gitops_bot.demo.agent import LATER, WANTED
from gitops_bot.demo.watch import DENIED, GRANTED, missing

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("demo")]
DEMO = [sys.executable, "-m", "gitops_bot.cli", "demo"]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short name, for the sockets that lie in it (unix(7))."""
    with tempfile.TemporaryDirectory(prefix="demo-", ignore_cleanup_errors=True) as place:
        yield Path(place) / "d"


def left_of(folder: Path) -> str:
    return subprocess.run(["pgrep", "-af", str(folder)], capture_output=True, text=True, check=False).stdout


def test_auto_plays_both_asks_and_says_what_came_of_them(folder: Path) -> None:
    """One document: the order of events, a segment under each regime, pictures, addresses, and files in the folder."""
    done = subprocess.run(
        [*DEMO, "--auto", "--json", "--dir", str(folder)], capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stderr[-3000:]
    said: dict[str, Any] = json.loads(done.stdout)
    assert said["ok"] is True
    assert missing(said["timeline"], GRANTED) == missing(said["timeline"], DENIED) == ""
    answers = [entry["facts"]["state"] for entry in said["timeline"] if entry["event"] == "ask.answered"]
    assert answers == ["APPROVED", "ANSWERED", "DENIED"]
    first, second = said["segments"]
    assert (first["regime"], second["regime"]) == ("default", WANTED.trace_id)
    # Round robin's weights and the simulated requests are the same in both: the knobs are what differs.
    assert first["round_robin"] != second["round_robin"]
    for one in (first, second):
        assert one["best"] < 0.9 * one["round_robin"]
    assert {Path(plot).name for plot in said["plots"]} == {"scores.png", "scores.svg", "plot.svg"}
    assert all(Path(plot).stat().st_size > 1000 for plot in said["plots"])
    assert set(said["addresses"]) == {"workspace", "forge", "endpoint", "pull request 1", "pull request 2"}
    assert left_of(folder) == ""
    told = done.stderr
    for word in ("turn 1: p99", "measure: 5/5 load at concurrency 48: 144 of 144", "alice comments", LATER.trace_id):
        assert word in told
    # In the workspace, by a passkey of software and the host's code; the transfer is shown there and stays as it was.
    for word in ("alice comes in", "eu-west", "alice denies", "alice can only look at       Transfer 1,250.00 EUR"):
        assert word in told
    assert not {"grant.minted", "vote.refused"} & {entry["event"] for entry in said["timeline"]}


def test_a_person_decides_on_the_page_of_the_pull_request_and_looks_around_until_ctrl_c(folder: Path) -> None:
    """Without AUTO nothing goes on without a comment; the page of the local forge takes it; Ctrl-C ends everything."""
    child = subprocess.Popen([*DEMO, "--dir", str(folder)], stdout=subprocess.PIPE, text=True, bufsize=1)
    assert child.stdout is not None
    said = ""
    try:
        for line in child.stdout:
            said += line
            if "with this code" in line:
                assert re.search(r"with this code +[A-Z0-9-]{12,} ", line), line
            if "/deny-capture" in line and WANTED.trace_id in line:
                place = re.search(r"decide here +(\S+)", said)
                assert place is not None
                comment_on_page(place[1], f"/approve-capture {WANTED.trace_id}")
            if "bridge.rescope_acknowledged" in line:
                break
        child.send_signal(signal.SIGINT)
        rest = child.communicate(timeout=60)[0]
    finally:
        child.kill()
        child.communicate()
    assert "ask.answered" in said and "APPROVED by alice" in said
    assert "Traceback" not in said + rest
    until = time.monotonic() + 60
    while left_of(folder) and time.monotonic() < until:
        time.sleep(0.1)
    assert left_of(folder) == ""


def comment_on_page(address: str, body: str) -> None:
    """Send the form of a pull request's page, as a browser does."""
    with urllib.request.urlopen(address, timeout=60) as page:
        action = next(place for place in re.findall(r'action="([^"]+)"', page.read().decode()) if "comment" in place)
    origin = "/".join(address.split("/")[:3])
    filled = urlencode({"login": "alice", "body": body}).encode()
    sent = urllib.request.Request(urljoin(address, action), data=filled, headers={"Origin": origin})
    with urllib.request.urlopen(sent, timeout=60):
        return


def test_a_folder_too_long_for_sockets_is_named_before_anything_starts(tmp_path: Path) -> None:
    """The accepting twin is every other test here."""
    folder = tmp_path / ("long" * 20)
    done = subprocess.run([*DEMO, "--auto", "--dir", str(folder)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "shorter" in done.stderr
    assert "starting" not in done.stdout
