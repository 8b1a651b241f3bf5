"""The loop as a real process: it improves, parks, wakes, escalates, dies and goes on (protocols/loop.md)."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest


def test_an_improvement_is_kept_and_exits_0(loop: Any) -> None:
    loop.plan(i1={"files": {"value": "5", "CANDIDATE.md": "smaller"}}, i2={"files": {"value": "7"}})
    loop.start(iterations=2)
    assert loop.end() == 0
    rows = [line["row"] for line in loop.kinds("row")]
    assert [(row["iter"], row["decision"], row["score"]) for row in rows] == [(1, "keep", 5.0), (2, "discard", 7.0)]
    assert (loop.workspace / "value").read_text() == "5"
    assert loop.log()[-1] == {"v": 1, "kind": "shutdown", "outcome": "finished", "reason": "all iterations are done"}


def test_without_an_improvement_it_exits_1_and_the_work_is_rolled_back(loop: Any) -> None:
    loop.plan(i1={"files": {"value": "11", "left": "over"}})
    loop.start(iterations=1)
    assert loop.end() == 1
    assert (loop.workspace / "value").read_text() == "10"
    assert not (loop.workspace / "left").exists()


def test_solved_ends_at_once_with_0(loop: Any) -> None:
    loop.plan(i1={"files": {"value": "-1"}})
    loop.start(iterations=9)
    assert loop.end() == 0
    assert loop.log()[-1]["outcome"] == "solved"
    assert loop.kinds("row")[0]["solved"] is True


def test_a_rescope_wakes_a_parked_loop_into_a_new_segment(loop: Any, wanted: str, ask: Any) -> None:
    loop.plan(i1={"files": {"PROVISIONING_PENDING.json": ask()}}, i2={"files": {"value": "9"}})
    loop.start(iterations=2)
    loop.parked()
    assert not (loop.workspace / "PROVISIONING_PENDING.json").exists()
    broker = loop.connect("broker")
    assert broker.ask({"cmd": "status"})["status"]["phase"] == "parked"
    message = {"cmd": "rescope", "regime": wanted, "id": "rescope:01"}
    assert broker.ask(message) == {"ok": True, "cmd": "rescope", "regime": wanted, "key": "rescope:01"}
    assert loop.end() == 0
    first, second = loop.kinds("segment")
    assert first["regime"] == "default"
    assert (second["regime"], second["baseline_score"]) == (wanted, 110.0)
    assert first["fingerprint"] != second["fingerprint"]
    assert [line["outcome"] for line in loop.kinds("approval_resolved")] == ["granted"]
    assert loop.kinds("row")[-1]["row"]["score"] == 109.0


def test_lifecycle_35_a_resent_rescope_is_a_duplicate_and_opens_no_second_segment(
    loop: Any, wanted: str, ask: Any
) -> None:
    loop.plan(i1={"files": {"PROVISIONING_PENDING.json": ask()}}, i2={"sleep": 2})
    loop.start(iterations=2)
    loop.parked()
    message = {"cmd": "rescope", "regime": wanted, "id": "rescope:01"}
    assert loop.connect("broker").ask(message)["ok"] is True
    loop.until(lambda: len(loop.kinds("segment")) == 2)
    loop.until(lambda: "settled" in (loop.state / "admissions.jsonl").read_text())
    again = loop.connect("broker").ask(message)
    assert again == {"ok": True, "cmd": "rescope", "key": "rescope:01", "dup": True, "outcome": "applied"}
    loop.end()
    assert len(loop.kinds("segment")) == 2


def test_a_deny_in_block_escalates_with_2_and_says_why(loop: Any, wanted: str, ask: Any) -> None:
    loop.plan(i1={"files": {"PROVISIONING_PENDING.json": ask()}})
    loop.start(iterations=5)
    loop.parked()
    reply = loop.connect("operator").ask({"cmd": "deny", "reason": "too dear", "id": "d"})
    assert reply == {"ok": True, "cmd": "deny", "reason": "too dear", "key": "d"}
    assert loop.end() == 2
    written = json.loads((loop.workspace / "ESCALATION.json").read_text())
    assert written["category"] == "needs-info"
    assert "too dear" in written["reason"]
    assert wanted in written["reason"]
    assert [line["outcome"] for line in loop.kinds("approval_resolved")] == ["denied"]
    assert loop.kinds("escalation")[0]["category"] == "needs-info"
    assert loop.log()[-1]["outcome"] == "escalated"


def test_a_deny_in_continue_is_a_note_and_the_frozen_regime_goes_on(loop: Any, ask: Any) -> None:
    loop.plan(
        i1={"files": {"PROVISIONING_PENDING.json": ask(mode="continue")}}, i2={"sleep": 1, "files": {"value": "3"}}
    )
    loop.start(iterations=3)
    loop.until(lambda: loop.kinds("approval_wait"))
    assert loop.connect("operator").ask({"cmd": "deny"})["reason"] == "rejected"
    assert loop.end() == 0
    assert not loop.kinds("parked")
    assert len(loop.kinds("segment")) == 1
    assert [line["outcome"] for line in loop.kinds("approval_resolved")] == ["denied"]


def test_max_park_ends_a_block_wait_as_a_timeout_with_2(loop: Any, ask: Any) -> None:
    loop.plan(i1={"files": {"PROVISIONING_PENDING.json": ask()}})
    loop.start("--max-park", "1s")
    assert loop.end() == 2
    assert [line["outcome"] for line in loop.kinds("approval_resolved")] == ["timeout"]


def test_a_block_marker_without_any_surface_escalates(loop: Any, ask: Any) -> None:
    loop.plan(i1={"files": {"PROVISIONING_PENDING.json": ask()}})
    loop.start(bridge=False)
    assert loop.end() == 2
    assert not loop.kinds("approval_wait")


def test_a_block_marker_on_the_last_iteration_parks_all_the_same(loop: Any, wanted: str, ask: Any) -> None:
    loop.plan(i1={"files": {"PROVISIONING_PENDING.json": ask()}})
    loop.start(iterations=1)
    loop.parked()
    loop.connect("broker").ask({"cmd": "rescope", "regime": wanted, "id": "r"})
    assert loop.end() == 1
    assert len(loop.kinds("segment")) == 2


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_killed_or_stopped_while_parked_it_parks_again_and_takes_the_rescope(
    loop: Any, wanted: str, ask: Any, number: int
) -> None:
    loop.plan(i1={"files": {"PROVISIONING_PENDING.json": ask()}}, i2={"files": {"value": "9"}})
    loop.start(iterations=2)
    loop.parked()
    before = loop.token("broker")
    loop.kill(number)
    assert loop.process.returncode == (-9 if number == signal.SIGKILL else 1)
    loop.start("--resume", iterations=2)
    loop.parked(times=2)
    died = "died_awaiting_approval" if number == signal.SIGKILL else "clean_exit"
    assert [line["class"] for line in loop.kinds("recovery")] == [died]
    assert loop.token("broker") == before
    loop.connect("broker").ask({"cmd": "rescope", "regime": wanted, "id": "r"})
    assert loop.end() == 0
    assert len(loop.kinds("segment")) == 2
    assert [line["outcome"] for line in loop.kinds("approval_resolved")] == ["granted"]
    assert len(loop.kinds("agent_start")) == 2


def test_a_rescope_admitted_before_a_kill_is_applied_after_it_once(loop: Any, wanted: str, ask: Any) -> None:
    """Admitted while an agent's turn runs, killed, resumed: one segment for it."""
    loop.plan(i1={"sleep": 60})
    loop.start(iterations=2)
    loop.until(lambda: loop.kinds("agent_start"))
    assert loop.connect("broker").ask({"cmd": "rescope", "regime": wanted, "id": "r"})["ok"] is True
    loop.kill()
    loop.plan(i1={"files": {"value": "9"}})
    loop.start("--resume", iterations=1)
    assert loop.end() == 0
    assert [line["class"] for line in loop.kinds("recovery")] == ["died_mid_turn"]
    assert [line["regime"] for line in loop.kinds("segment")] == ["default", wanted]
    ledger = [json.loads(line) for line in (loop.state / "admissions.jsonl").read_text().splitlines()]
    assert [(line["kind"], line["key"]) for line in ledger] == [("admitted", "r"), ("settled", "r")]
    assert ledger[1]["outcome"] == "applied"


@pytest.mark.parametrize(
    "changes",
    [
        {"trace_id": "model=a/b;c=1;p=8;mt=8;lt=0;lf=0.0000"},
        {"mode": "later"},
        {"handle": 7},
        {"regime": None},
    ],
)
def test_a_malformed_marker_is_deleted_with_a_note_and_the_run_goes_on(loop: Any, ask: Any, changes: Any) -> None:
    loop.plan(i1={"files": {"PROVISIONING_PENDING.json": ask(**changes)}}, i2={"files": {"value": "9"}})
    loop.start(iterations=2)
    assert loop.end() == 0
    assert any("malformed marker" in line["msg"] for line in loop.kinds("note"))
    assert not loop.kinds("approval_wait")


def test_a_marker_that_is_a_link_is_not_followed(loop: Any, ask: Any, tmp_path: Path) -> None:
    target = tmp_path / "elsewhere.json"
    target.write_text(ask())
    loop.plan(i1={"links": {"PROVISIONING_PENDING.json": str(target)}})
    loop.start(iterations=1)
    assert loop.end() == 1
    assert not loop.kinds("approval_wait")
    assert target.read_text() == ask()
    assert not (loop.workspace / "PROVISIONING_PENDING.json").is_symlink()


def test_a_judge_changed_by_the_agent_escalates(loop: Any) -> None:
    loop.plan(i1={"rewrite": str(loop.home / "judge.py"), "files": {"value": "9"}})
    loop.start(iterations=3)
    assert loop.end() == 2
    assert loop.kinds("escalation")[0]["category"] == "tampered"


def test_the_agent_inherits_nothing_and_reads_the_contract_last(loop: Any, tmp_path: Path) -> None:
    loop.plan(i1={"environment": str(tmp_path / "seen.json")})
    loop.start(iterations=1)
    loop.end()
    seen = json.loads((tmp_path / "seen.json").read_text())
    assert set(seen) <= {"PATH", "LC_ALL", "LANG", "LOOP_REGIME", "LOOP_ITERATION", "LC_CTYPE"}
    text = (tmp_path / "plan.json.prompt").read_text()
    assert text.index("a smaller value") < text.index("## Contract")


@pytest.mark.parametrize(
    "options",
    [["--max-park", "soon"], ["--max-park", "10"], ["--max-time", "2d"], ["--no-such"], ["--judge", "/no/such/judge"]],
)
def test_usage_errors_exit_64(loop: Any, options: list[str]) -> None:
    loop.plan()
    loop.start(*options)
    assert loop.end() == 64


def test_a_judge_inside_the_workspace_is_a_usage_error(loop: Any) -> None:
    (loop.workspace / "judge.py").write_text("print(1)")
    loop.plan()
    loop.start("--judge", f"python3 {loop.workspace / 'judge.py'}")
    assert loop.end() == 64
