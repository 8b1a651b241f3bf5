"""The transfer demo as a newcomer runs it: signatures of two kinds, one refused key, one call, one adopted limit that
holds; a person at a terminal of their own in place of AUTO; what it needs is named when it is not there."""

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
from gitops_bot.core.canonical import action_bytes, action_hash
from gitops_bot.demo.terminal import sign
from gitops_bot.demo.transfer_files import ENVIRONMENT, FIRST, REPOSITORY, VERB
from gitops_bot.demo.transfer_scene import HAPPENED
from gitops_bot.demo.watch import missing

DEMO = [sys.executable, "-m", "gitops_bot.cli", "demo", "--scenario", "transfer"]
PATIENCE = 600.0


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short name, for the sockets that lie in it (unix(7))."""
    with tempfile.TemporaryDirectory(prefix="demo-", ignore_cleanup_errors=True) as place:
        yield Path(place) / "d"


def left_of(folder: Path) -> str:
    return subprocess.run(["pgrep", "-af", str(folder)], capture_output=True, text=True, check=False).stdout


@pytest.mark.slow
@pytest.mark.xdist_group("demo")
def test_auto_signs_by_both_kinds_pays_once_and_lowers_the_limit(folder: Path) -> None:
    """One document: the order of events, the refused key with its code, one call with the approved bytes, and nothing
    left behind that runs."""
    done = subprocess.run(
        [*DEMO, "--auto", "--json", "--dir", str(folder)], capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr[-3000:]
    said: dict[str, Any] = json.loads(done.stdout)
    assert (said["ok"], said["scenario"], said["problem"]) == (True, "transfer", "")
    timeline = said["timeline"]
    assert missing(timeline, HAPPENED) == ""
    refused, counted, late = ([one for one in timeline if one["event"] == kind] for kind in KINDS)
    assert [(one["principal"], one["reason"]) for one in refused] == [("alice", "service_identity")]
    assert [one["principal"] for one in counted] == ["alice", "bob", "alice", "bob"]
    assert counted[0]["facts"]["key"] == counted[2]["facts"]["key"]
    assert re.fullmatch(r"[0-9A-F]{40}", counted[0]["facts"]["key"]), "OpenPGP"
    assert counted[1]["facts"]["key"].startswith("SHA256:"), "SSH"
    assert [(one["principal"], one["reason"]) for one in late] == [("demo-agent", "limit_exceeded")]
    (call,) = said["calls"]
    action = action_bytes(REPOSITORY, ENVIRONMENT, VERB, FIRST)
    assert action in call["body"].encode()
    assert (call["paid"], call["action_hash"]) == (True, action_hash(action))
    ask = counted[0]["ask"]
    marker = f"refs/heads/gated/{ENVIRONMENT}/requests:spent/{ask[-2:]}/{ask}.json"
    told = process.run(("git", "cat-file", "blob", marker), cwd=folder / "approvals.git", timeout=60)
    assert json.loads(told.stdout)["action_hash"] == action_hash(action)
    for word in ('keys = "any"', 'shared_uid = "accepted"', "at most 200000 now", "limit_exceeded"):
        assert word in done.stderr
    assert left_of(folder) == ""


KINDS = ("vote.refused", "vote.counted", "ask.refused")


@pytest.mark.slow
@pytest.mark.xdist_group("demo")
def test_a_person_signs_in_another_terminal_by_the_command_that_is_printed(folder: Path) -> None:
    """Without AUTO nothing is signed by itself; alice's vote comes from a terminal, and Ctrl-C ends everything."""
    child = subprocess.Popen([*DEMO, "--dir", str(folder)], stdout=subprocess.PIPE, text=True, bufsize=1)
    assert child.stdout is not None
    said = ""
    try:
        for line in child.stdout:
            said += line
            if "vote.counted" in line:
                break
            if (found := re.search(r"HOME=(\S+/alice) GNUPGHOME=\S+ .*? approval sign (.*)$", line)) is not None:
                type_it(folder, found[2].split())
        child.send_signal(signal.SIGINT)
        rest = child.communicate(timeout=60)[0]
    finally:
        child.kill()
        child.communicate()
    assert "alice signs" in said
    assert "alice's commit" in said
    assert "Traceback" not in said + rest
    until = time.monotonic() + 60
    while left_of(folder) and time.monotonic() < until:
        time.sleep(0.1)
    assert left_of(folder) == ""


def type_it(folder: Path, arguments: list[str]) -> None:
    """Sit at a terminal as alice does, with her home and the host's words."""
    from gitops_bot.bootstrap.trust import read_trust
    from gitops_bot.core.words import words_of
    from gitops_bot.demo.people import OPENPGP, Signer

    words = " ".join(words_of(read_trust(folder / ".gitops-bot" / "trust.json").policy_digest))
    alice = Signer("alice", OPENPGP, folder / "alice", "", "")
    sign(alice, arguments, words, seconds=PATIENCE, alive=lambda: None)


@pytest.mark.slow
@pytest.mark.xdist_group("demo")
def test_a_broker_that_dies_is_named_and_everything_else_ends(folder: Path) -> None:
    """The document says what went wrong; the accepting twin is the first test."""
    options = ["--auto", "--json", "--dir", str(folder)]
    child = subprocess.Popen([*DEMO, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stderr is not None
    try:
        for line in child.stderr:
            if "the agent asks" in line:
                found = subprocess.run(["pgrep", "-f", f"broker --config {folder}"], capture_output=True, text=True)
                for number in found.stdout.split():
                    os.kill(int(number), signal.SIGKILL)
                break
        out, _ = child.communicate(timeout=PATIENCE)
    finally:
        child.kill()
        child.communicate()
    assert child.returncode == 1
    said = json.loads(out)
    assert said["ok"] is False
    assert "broker ended with -9" in said["problem"]
    assert left_of(folder) == ""


def test_a_program_that_is_not_there_is_named_with_its_package(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is started without ssh-keygen; the accepting twins are the tests above."""
    for program in ("git", "gpg"):
        found = shutil.which(program)
        assert found is not None
        (tmp_path / program).symlink_to(found)
    monkeypatch.setattr(process, "SYSTEM_PATH", str(tmp_path))
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        assert run(["demo", "--scenario", "transfer", "--auto", "--dir", str(folder)]) == 1
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    said = capsys.readouterr()
    assert "ssh-keygen" in said.err
    assert "install openssh-client" in said.err
    assert list(folder.iterdir()) == []


def test_a_scenario_that_is_none_is_usage(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo", "--scenario", "transfre", "--dir", str(folder)]) == 64
    assert "'capture', 'transfer', 'fleet'" in capsys.readouterr().err
    assert not folder.exists()
