"""A capture that runs is ended, with its processes, when its approval is taken back or nobody waits for it any more."""

import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gitops_bot.authority.duties import Pace, RowDuty
from gitops_bot.authority.outbox import Outbox
from gitops_bot.authority.settling import Revoked, Settled
from gitops_bot.broker import captures as moves
from gitops_bot.broker.advance import Advance, Measuring
from gitops_bot.broker.captures import leave
from gitops_bot.broker.deliveries import OnBridge, job_routes
from gitops_bot.capture.local import LocalCapturer
from gitops_bot.core.captures import CaptureState
from gitops_bot.process import Limits
from gitops_bot.store import outbox
from gitops_bot.store.roles import Role
from tests.capture_stage import CaptureStage
from tests.store_fixtures import FreshDatabase

SLOW = "import os, pathlib, sys, time; pathlib.Path(sys.argv[1]).write_text(str(os.getpid())); time.sleep(300)"
PACE = Pace(batch=5, lease_ms=2_000, first_ms=1, most_ms=20)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def until(duties: list[RowDuty], question: Callable[[], object]) -> None:
    deadline = time.monotonic() + 120
    while not question():
        assert time.monotonic() < deadline, "waited too long"
        for duty in duties:
            duty.step()
        time.sleep(0.01)


@pytest.mark.parametrize("ending", ["revoked", "the loop gave up", "nothing"])
def test_a_running_capture_ends_with_its_authority(sqlite_database: FreshDatabase, tmp_path: Path, ending: str) -> None:
    """The twin: while the approval stands and a loop waits, it goes on."""
    stage = CaptureStage(sqlite_database.open(Role.BROKER), folder=tmp_path, forge=False)
    pid = tmp_path / "pid"
    capturer = LocalCapturer(tmp_path / "jobs", [sys.executable, "-c", SLOW, str(pid)], Limits(), 300)
    advance = Advance(stage.database, stage.rules, stage.place, None, Measuring(capturer, attempts=1, poll_ms=10))
    routes = {**OnBridge(stage.database, stage.link).routes(), **job_routes(capturer)}
    duties = [
        RowDuty(moves.DUTY, stage.database, advance.one, PACE),
        RowDuty(outbox.DUTY, stage.database, Outbox(stage.database, routes).lane, PACE),
    ]
    capture = stage.requested()
    ask = stage.get(capture.ask or "")
    assert isinstance(stage.answer(ask, "bob", "approve"), Settled)
    until(duties, lambda: pid.exists() and pid.read_text())
    program = int(pid.read_text())
    try:
        match ending:
            case "revoked":
                assert isinstance(stage.answer(ask, "alice", "deny"), Revoked)
            case "the loop gave up":
                stage.write(lambda tx: leave(tx, "loop-1", "it gave up"))
            case "nothing":
                until(duties, lambda: stage.capture(capture).state is CaptureState.RUNNING)
                assert alive(program)
                return
        until(duties, lambda: stage.capture(capture).state is CaptureState.CANCELLED and not alive(program))
        told = [sent.split()[1].split(":")[0] for sent in stage.link.taken()]
        assert told == (["deny"] if ending == "revoked" else []), "who waits is told no; who left is told nothing"
    finally:
        capturer.cancel(f"{capture.id}-0")
    assert not alive(program)
