"""A loop that is killed at any write goes on where it was: one rescope applied, one segment opened, no time invented.

The scenario has everything that is ever fsynced: tokens, session lines, admissions, settlements. The last point of the
sweep lies beyond the end of the run, which proves that the points before it are all there are.
"""

import contextlib
import json
import random
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.loop.conftest import WANTED, Bridge, Loop, marker

POINTS = 38
SURE = 32
"""So many writes every run of the scenario has; a few more depend on how fast the machine is."""
KILLER = Path(__file__).with_name("killed_at_fsync.py")
JUDGE = 'read v < "$LOOP_WORKSPACE/value"; [ "$LOOP_REGIME" = default ] || v=$((v + 100)); echo "{\\"score\\": $v}"'
AGENT = 'if [ "$LOOP_REGIME" = default ]; then cp "$1" PROVISIONING_PENDING.json; else echo 9 > value; fi'
COMMANDS: tuple[dict[str, Any], ...] = (
    {"cmd": "set-budget", "usd": 5, "id": "b"},
    {"cmd": "steer", "text": "keep it small", "id": "s"},
    {"cmd": "rescope", "regime": WANTED, "id": "rescope:01"},
)


class Sender:
    """A broker that sends its commands until it has read an answer to each, and then never again."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.acknowledged: list[Any] = []
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._send, daemon=True)
        self._thread.start()

    def _send(self) -> None:
        left = list(COMMANDS)
        while left and not self._end.is_set():
            with contextlib.suppress(OSError, ValueError):
                if any(line.get("kind") == "parked" for line in self.loop.log()):
                    bridge = Bridge(
                        (self.loop.state / "control-address").read_text().strip(), self.loop.token("broker")
                    )
                    try:
                        while left:
                            reply = bridge.ask(left[0])
                            if reply is None:
                                break
                            assert reply["ok"] is True, reply
                            self.acknowledged.append(left.pop(0)["id"])
                    finally:
                        bridge.close()
            self._end.wait(0.05)

    def close(self) -> None:
        self._end.set()
        self._thread.join(120)
        assert not self._thread.is_alive()


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[Loop]:
    scratch = Loop(tmp_path)
    (tmp_path / "judge.sh").write_text(JUDGE)
    (tmp_path / "agent.sh").write_text(AGENT)
    (tmp_path / "marker").write_text(marker())
    scratch.judge = f"sh {tmp_path / 'judge.sh'}"
    scratch.agent = ["sh", str(tmp_path / "agent.sh"), str(tmp_path / "marker")]
    yield scratch
    if scratch.process is not None:
        if scratch.process.poll() is None:
            scratch.process.kill()
        scratch.process.communicate()


def how_it_died(lines: list[dict[str, Any]]) -> str:
    """Read the way of dying out of a log, as the page tells it and not as the product does."""
    stage, waits = "in_baseline", False
    for line in lines:
        match line["kind"]:
            case "phase" if line["phase"] == "baseline":
                stage = "in_baseline"
            case "agent_start":
                stage = "mid_turn"
            case "agent_done":
                stage = "deciding"
            case "segment" | "row":
                stage = "between_iterations"
            case "shutdown":
                return "clean_exit"
            case "recovery" if stage != "in_baseline":
                stage = "between_iterations"
        if line["kind"] == "approval_wait":
            waits, stage = True, "between_iterations"
        elif line["kind"] == "approval_resolved" or (line["kind"] == "segment" and line["regime"] == WANTED):
            waits = False
    return "died_awaiting_approval" if waits and stage == "between_iterations" else f"died_{stage}"


def check_end(loop: Loop, deaths: list[str]) -> None:
    """Hold the whole log and ledger to what one undisturbed run leaves."""
    log = loop.log()
    assert [line["class"] for line in loop.kinds("recovery")] == deaths
    assert [line["regime"] for line in loop.kinds("segment")] == ["default", WANTED]
    assert [line["outcome"] for line in loop.kinds("approval_resolved")] == ["granted"]
    assert [line["kind"] for line in log].count("shutdown") == 1 + deaths.count("clean_exit")
    assert (log[-1]["kind"], log[-1]["outcome"]) == ("shutdown", "finished")
    assert (loop.workspace / "value").read_text().strip() == "9"
    records = [json.loads(line) for line in (loop.state / "admissions.jsonl").read_text().split("\n") if whole(line)]
    for key in ("b", "rescope:01"):
        assert [record["kind"] for record in records if record["key"] == key] == ["admitted", "settled"], records
    assert [record["outcome"] for record in records if record["kind"] == "settled" and record["key"] != "s"] == [
        "applied",
        "applied",
    ]
    spent = [line["elapsed_secs"] for line in loop.kinds("budget")]
    assert spent == sorted(spent)


def whole(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def run(loop: Loop, *, at: int | None, how: str = "after", resume: bool = False) -> tuple[int, float]:
    """Run until the kill or the end; give the exit status and how long it took."""
    loop.program = ["-m", "gitops_bot.cli"] if at is None else [str(KILLER), str(at), how]
    begun = time.monotonic()
    loop.start(*(["--resume"] if resume else []), iterations=2)
    return loop.end(120), time.monotonic() - begun


def died(loop: Loop) -> list[str]:
    """Say what the next resume must find; without any line it begins anew and finds nothing."""
    lines = loop.log()
    return [how_it_died(lines)] if lines else []


@pytest.mark.parametrize(
    ("at", "how"),
    [
        *((at, how) for at in range(1, POINTS + 1) for how in ("after", "torn")),
        # What is gone is what `after` leaves one point earlier; a few points show it.
        *((at, "gone") for at in range(5, SURE, 6)),
    ],
)
def test_killed_at_a_write_it_goes_on_where_it_was(loop: Loop, at: int, how: str) -> None:
    sender = Sender(loop)
    try:
        status, took = run(loop, at=at, how=how)
        deaths = [] if status == 0 else died(loop)
        assert status == -signal.SIGKILL or (status == 0 and at > SURE)
        assert status == 0 or at < POINTS, "the sweep ends where the run does"
        if status != 0:
            status, again = run(loop, at=None, resume=True)
            took += again
        assert status == 0, loop.log()
    finally:
        sender.close()
    assert sender.acknowledged == ["b", "s", "rescope:01"]
    check_end(loop, deaths)
    assert loop.kinds("budget")[-1]["elapsed_secs"] <= took


@pytest.mark.parametrize("seed", range(6))
def test_killed_again_and_again_it_still_ends_as_one_run(loop: Loop, seed: int) -> None:
    dice, deaths = random.Random(seed), []
    sender = Sender(loop)
    try:
        status, resume = -signal.SIGKILL, False
        for _ in range(5):
            status, _ = run(loop, at=dice.randint(4, 30), how=dice.choice(["after", "torn"]), resume=resume)
            if status == 0:
                break
            resume = bool(died(loop))
            deaths = [*deaths, *died(loop)] if resume else []
        if status != 0:
            status, _ = run(loop, at=None, resume=True)
        assert status == 0, loop.log()
    finally:
        sender.close()
    check_end(loop, deaths)
