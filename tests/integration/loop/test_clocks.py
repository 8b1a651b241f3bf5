"""Lifecycle 22 and 23 with real processes: a loop that is stopped, suspended or waits uses neither of its budgets."""

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest

STOPPED = 7.0
"""Longer than the longest gap between two looks that still counts as work."""


JUDGE = 'read v < "$LOOP_WORKSPACE/value"; [ "$LOOP_REGIME" = default ] || v=$((v + 100)); echo "{\\"score\\": $v}"'
AGENT = """
if [ "$LOOP_REGIME" = default ]; then sleep "$2"; cp "$1" PROVISIONING_PENDING.json; else echo 9 > value; fi
"""


def light(loop: Any, ask: Any, seconds: float = 0.0) -> None:
    """Let agent and judge be shells, whose start costs next to nothing of a budget, however busy the machine is."""
    for name, text in (("judge.sh", JUDGE), ("agent.sh", AGENT), ("marker", ask())):
        (loop.home / name).write_text(text)
    loop.judge = f"sh {loop.home / 'judge.sh'}"
    loop.agent = ["sh", str(loop.home / "agent.sh"), str(loop.home / "marker"), str(seconds)]


def elapsed(loop: Any) -> float:
    return float(loop.kinds("budget")[-1]["elapsed_secs"])


@pytest.mark.parametrize("where", ["in a turn", "parked"])
def test_23_a_process_that_was_stopped_for_a_while_used_no_time(loop: Any, wanted: str, ask: Any, where: str) -> None:
    begun = time.monotonic()
    light(loop, ask, seconds=2.0)
    loop.start("--max-time", "8s", "--max-park", "6s", iterations=2)
    loop.until(lambda: loop.kinds("agent_start"))
    if where == "parked":
        loop.parked()
    loop.process.send_signal(signal.SIGSTOP)
    time.sleep(STOPPED)
    loop.process.send_signal(signal.SIGCONT)
    loop.parked()
    loop.connect("broker").ask({"cmd": "rescope", "regime": wanted, "id": "r"})
    assert loop.end() == 0, loop.log()
    took = time.monotonic() - begun
    assert loop.log()[-1]["outcome"] == "finished"
    assert elapsed(loop) < took - STOPPED
    assert [line["outcome"] for line in loop.kinds("approval_resolved")] == ["granted"]


def test_22_a_wait_longer_than_the_time_budget_costs_none_of_it(loop: Any, wanted: str, ask: Any) -> None:
    light(loop, ask)
    loop.start("--max-time", "4s", "--max-cost", "0.01", iterations=2)
    loop.parked()
    time.sleep(5.0)
    loop.connect("broker").ask({"cmd": "rescope", "regime": wanted, "id": "r"})
    assert loop.end() == 0
    assert loop.log()[-1]["outcome"] == "finished"
    assert elapsed(loop) < 4.0
    assert {line["spent"] for line in loop.kinds("budget")} == {0.0}


def test_22_its_twin_that_works_as_long_is_ended_by_the_budget(loop: Any) -> None:
    loop.plan(i1={"sleep": 60.0})
    loop.start("--max-time", "1s", iterations=2)
    assert loop.end() != 0
    assert loop.log()[-1]["outcome"] == "budget"
    assert 1.0 <= elapsed(loop) < 60.0


def test_23_a_wall_clock_that_jumps_moves_no_budget_and_no_wait(loop: Any, wanted: str, ask: Any) -> None:
    loop.program = [str(Path(__file__).with_name("jumping_clock.py"))]
    loop.plan(i1={"files": {"PROVISIONING_PENDING.json": ask()}}, i2={"files": {"value": "9"}})
    loop.start("--max-time", "1h", "--max-park", "1h", iterations=2)
    loop.parked()
    broker = loop.connect("broker")
    for number in range(4):
        assert broker.ask({"cmd": "set-budget", "usd": number, "id": f"b{number}"})["ok"] is True
    broker.ask({"cmd": "rescope", "regime": wanted, "id": "r"})
    assert loop.end() == 0
    stamps = [json.loads(line)["ts"] for line in (loop.state / "admissions.jsonl").read_text().splitlines()]
    assert max(stamps) - min(stamps) > 86_000, "the clock did jump"
    assert elapsed(loop) < 60
    assert [line["outcome"] for line in loop.kinds("approval_resolved")] == ["granted"]


def since_recovery(loop: Any) -> list[dict[str, Any]]:
    log: list[dict[str, Any]] = loop.log()
    found = [place for place, line in enumerate(log) if line["kind"] == "recovery"]
    return log[found[0] :] if found else []


def test_the_wait_of_a_continue_ask_goes_on_after_a_kill_where_it_was(loop: Any, wanted: str, ask: Any) -> None:
    """What was waited before the kill counts, the time in between does not."""
    turns = {f"i{number}": {"sleep": 0.3} for number in range(2, 40)}
    loop.plan(i1={"files": {"PROVISIONING_PENDING.json": ask(mode="continue")}}, **turns)
    loop.start("--max-park", "1h", iterations=39)
    loop.until(lambda: len(loop.kinds("row")) >= 5)
    loop.kill()
    before = loop.kinds("budget")[-1]["waited"][wanted]
    time.sleep(4.0)
    again = time.monotonic()
    loop.start("--max-park", "1h", "--resume", iterations=39)
    after = loop.until(lambda: [line for line in since_recovery(loop) if line["kind"] == "budget"])
    took = time.monotonic() - again
    loop.until(lambda: len(loop.kinds("row")) >= 8)
    assert before >= 0.9
    assert len(loop.kinds("recovery")) == 1
    assert before <= after[0]["waited"][wanted] <= before + took
