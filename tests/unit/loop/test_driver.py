"""The driver over an injected clock and body: waiting is free, and whatever happens the log ends in one shutdown."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gitops_bot.bridge.grammar import Change, Kind, Level
from gitops_bot.core.errors import Unavailable
from gitops_bot.loop.budget import Budget
from gitops_bot.loop.control.admissions import AdmissionLedger
from gitops_bot.loop.control.steering import Steering
from gitops_bot.loop.driver import Driver
from gitops_bot.loop.measuring import Tool, stamp
from gitops_bot.loop.recovery import read_past
from gitops_bot.loop.session import SessionLog, read_session
from gitops_bot.loop.setting import Memory, Setting
from gitops_bot.loop.vocabulary import Direction, State
from gitops_bot.process import Completed

WANTED = "model=a/b;c=1;p=1;mt=1;lt=0;lf=0.0000"
REGIME = {"model": "a/b", "concurrency": 1, "prefixes": 1, "max_tokens": 1, "long_tokens": 0, "long_frac": 0}
MARKER = json.dumps({"trace_id": WANTED, "regime": REGIME, "handle": "h", "mode": "block"})


class Hands:
    """Clock and body in one: time passes only where a test says so."""

    def __init__(self, workspace: Path, turns: list[Callable[[Path], None]]) -> None:
        self.now = 1000.0
        self.workspace = workspace
        self.turns = turns
        self.prompts: list[str] = []
        self.regimes: list[str] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def run(self, argv: Any, *, env: Any, stdin: bytes, tick: Callable[[], bool], **_: Any) -> Completed:
        for _second in range(3):
            self.now += 1.0
            if tick():
                raise Unavailable("ended")
        if argv[0] == "agent":
            self.prompts.append(stdin.decode())
            if self.turns:
                self.turns.pop(0)(self.workspace)
            return Completed(0, b"", b"")
        self.regimes.append(env["LOOP_REGIME"])
        return Completed(0, json.dumps({"score": float((self.workspace / "value").read_text())}).encode(), b"")


class Scene:
    def __init__(self, home: Path, turns: list[Callable[[Path], None]], **limits: Any) -> None:
        self.workspace = home / "work"
        self.state = self.workspace / "state"
        self.state.mkdir(parents=True)
        (self.workspace / "value").write_text("10")
        self.hands = Hands(self.workspace, turns)
        self.log = SessionLog(self.state / "session.jsonl")
        ledger = AdmissionLedger(self.state / "admissions.jsonl", lambda: 7)
        self.steering = Steering(ledger, self.note, max_usd=0)
        setting = Setting(
            self.workspace,
            self.state,
            ("agent",),
            {},
            stamp("judge", "true", workspace=self.workspace, here=home),
            None,
            limits.pop("max_park", None),
        )
        self.driver = Driver(
            setting,
            State("goal", Direction.MIN, limits.pop("iterations", 2), surface=True),
            Budget(**limits),
            log=self.log,
            steering=self.steering,
            body=self.hands,
            clock=self.hands,
            memory=Memory(),
        )

    def note(self, kind: str, members: Any) -> None:
        self.log.append(kind, **members)

    def records(self, kind: str) -> list[Any]:
        return [record for record in read_session(self.state / "session.jsonl") if record["kind"] == kind]

    def while_parked(self, monkeypatch: pytest.MonkeyPatch, *steps: Callable[[], Any]) -> None:
        """Let things happen at successive looks while the loop waits."""
        left = list(steps)

        def wait(_seconds: float) -> None:
            left.pop(0)()

        monkeypatch.setattr(self.steering, "wait", wait)

    def send(self, kind: Kind, **arguments: Any) -> None:
        self.steering.handle(Change(kind, arguments, "k"), Level.BROKER, authenticated=True)

    def pass_time(self, seconds: float) -> None:
        self.hands.now += seconds


def writes(**files: str) -> Callable[[Path], None]:
    def turn(workspace: Path) -> None:
        for name, text in files.items():
            (workspace / name.replace("__", ".")).write_text(text)

    return turn


ASKS = writes(PROVISIONING_PENDING__json=MARKER)


def test_lifecycle_22_a_day_parked_moves_neither_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """I11: with a time budget of 60 s the loop waits 22 hours and then still has its turns."""
    scene = Scene(tmp_path, [ASKS, writes(value="8")], max_seconds=60.0, max_usd=1.0)
    scene.while_parked(
        monkeypatch,
        lambda: scene.pass_time(22 * 3600),
        lambda: scene.send(Kind.RESCOPE, regime=WANTED),
    )
    assert scene.driver.run() == 0
    assert scene.hands.regimes[-1] == WANTED
    assert [record["regime"] for record in scene.records("segment")] == ["default", WANTED]
    # 3 s each: baseline, turn, baseline, turn, judge
    assert scene.records("budget")[-1]["elapsed_secs"] == pytest.approx(15.0)


def test_active_time_does_end_a_run(tmp_path: Path) -> None:
    scene = Scene(tmp_path, [writes(value="9")] * 50, iterations=50, max_seconds=20.0)
    scene.driver.run()
    assert scene.records("shutdown")[-1]["outcome"] == "budget"
    assert scene.hands.now - 1000.0 < 30


def test_max_park_counts_the_wait_and_escalates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(tmp_path, [ASKS], max_park=90.0)
    scene.while_parked(monkeypatch, *[lambda: scene.pass_time(4.5)] * 20)
    assert scene.driver.run() == 2
    assert scene.records("approval_resolved")[0]["outcome"] == "timeout"


def test_max_park_not_reached_parks_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(tmp_path, [ASKS], max_park=90.0)
    scene.while_parked(monkeypatch, *[lambda: scene.pass_time(4.0)] * 20, lambda: scene.send(Kind.STOP))
    assert scene.driver.run() == 1
    assert scene.records("approval_resolved") == []
    assert scene.records("shutdown")[-1]["outcome"] == "stopped"


def test_lifecycle_23_a_machine_that_slept_for_an_hour_waited_for_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(tmp_path, [ASKS], max_park=90.0)
    scene.while_parked(monkeypatch, lambda: scene.pass_time(3600), lambda: scene.send(Kind.STOP))
    scene.driver.run()
    assert scene.records("approval_resolved") == []


CONTINUES = writes(PROVISIONING_PENDING__json=MARKER.replace("block", "continue"))


def test_max_park_bounds_a_wait_in_continue_and_turns_count(tmp_path: Path) -> None:
    """The wait is counted while turns run, not only between them. Its twin without a limit waits on."""
    scene = Scene(tmp_path / "a", [CONTINUES], iterations=20, max_park=10.0)
    scene.driver.run()
    assert [record["outcome"] for record in scene.records("approval_resolved")] == ["timeout"]
    assert scene.records("row")[-1]["row"]["iter"] == 20
    endless = Scene(tmp_path / "b", [CONTINUES], iterations=20)
    endless.driver.run()
    assert endless.records("approval_resolved") == []


def test_how_long_a_continue_ask_was_waited_for_is_in_the_log_for_a_resume(tmp_path: Path) -> None:
    scene = Scene(tmp_path, [CONTINUES], iterations=3)
    scene.driver.run()
    records = read_session(scene.state / "session.jsonl")
    # from the ask on: the turns and judgements of two more iterations, 3 s each
    assert read_past(records).waited == {WANTED: pytest.approx(12.0)}


def test_a_steer_while_parked_is_in_the_next_prompt_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(tmp_path, [ASKS], iterations=3)
    steer = Change(Kind.STEER, {"text": "try the left side"}, "s")
    scene.while_parked(
        monkeypatch,
        lambda: scene.steering.handle(steer, Level.OPERATOR, authenticated=True),
        lambda: scene.send(Kind.RESCOPE, regime=WANTED),
    )
    scene.driver.run()
    assert ["try the left side" in text for text in scene.hands.prompts] == [False, True, False]


def test_the_prompt_names_segment_scores_and_ends_with_the_contract(tmp_path: Path) -> None:
    scene = Scene(tmp_path, [writes(value="7")])
    scene.driver.run()
    last = scene.hands.prompts[-1]
    assert "regime: default" in last
    assert "iteration 1: keep, score 7" in last
    assert last.rstrip().endswith("That ends the run.")


def test_a_stale_marker_does_not_fire(tmp_path: Path) -> None:
    scene = Scene(tmp_path, [], iterations=1)
    ASKS(scene.workspace)
    assert scene.driver.run() == 1
    assert scene.records("approval_wait") == []
    assert any("stale" in record["msg"] for record in scene.records("note"))


def test_an_abort_ends_the_turn_and_the_run(tmp_path: Path) -> None:
    scene = Scene(tmp_path, [lambda _: scene.send(Kind.ABORT)], iterations=9)
    scene.driver.run()
    assert scene.records("shutdown")[-1]["outcome"] == "stopped"
    assert len(scene.hands.prompts) == 1


def test_a_run_without_a_baseline_ends_in_one_shutdown_line(tmp_path: Path) -> None:
    scene = Scene(tmp_path, [])
    (scene.workspace / "value").write_text("NaN")
    assert scene.driver.run() == 1
    records = read_session(scene.state / "session.jsonl")
    assert [record["kind"] for record in records].count("shutdown") == 1
    assert records[-1]["kind"] == "shutdown"


def test_a_judge_that_changed_is_seen_and_one_that_did_not_is_not(tmp_path: Path) -> None:
    file = tmp_path / "judge.sh"
    file.write_text("1")
    tool = stamp("judge", f"sh {file}", workspace=tmp_path / "w", here=tmp_path)
    assert isinstance(tool, Tool)
    assert tool.unchanged()
    file.write_text("2")
    assert not tool.unchanged()
    file.unlink()
    assert not tool.unchanged()
