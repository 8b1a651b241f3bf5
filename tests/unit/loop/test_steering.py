"""What a killed run left in its admission ledger is armed again, once, and settled at most once."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gitops_bot.bridge.grammar import Change, Kind, Level
from gitops_bot.loop.control.admissions import AdmissionLedger, Outcome
from gitops_bot.loop.control.steering import NO_OPERATOR, Steering
from gitops_bot.loop.grammar import Mode
from gitops_bot.loop.vocabulary import Denial, Ending, OpenAsk, Rescope

ASK = OpenAsk("R", "h", Mode.BLOCK)


class Run:
    """A loop's steering over a ledger that outlives it."""

    def __init__(self, home: Path, attached: bool = False) -> None:
        self.ledger = AdmissionLedger(home / "admissions.jsonl", lambda: 7)
        self.said: list[dict[str, Any]] = []
        self.steering = Steering(self.ledger, self.log, max_usd=0)
        if attached:
            self.steering.attach_broker()

    def log(self, kind: str, members: Mapping[str, object]) -> None:
        self.said.append({"kind": kind, **members})

    def take(self, kind: Kind, key: str | None = None, level: Level = Level.BROKER, **arguments: Any) -> Any:
        return self.steering.handle(Change(kind, arguments, key), level, authenticated=True)

    def outcomes(self) -> dict[str, str | None]:
        return {item.key: item.outcome.value if item.outcome else None for item in self.ledger.all()}


def resumed(home: Path, asks: tuple[OpenAsk, ...] = (), applied: Any = (), announced: Any = ()) -> Run:
    run = Run(home)
    run.steering.restore({ask.trace_id: ask for ask in asks}, frozenset(applied), frozenset(announced))
    return run


def test_an_unsettled_rescope_and_deny_are_armed_again(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.take(Kind.RESCOPE, "k", regime="R")
    run.take(Kind.DENY, "d", reason="no", trace_id="S")
    after = resumed(tmp_path)
    assert after.steering.levers() == (False, Rescope("k", "R"), Denial("d", "no", "S"), None)
    assert after.outcomes() == {"k": None, "d": None}


def test_a_later_rescope_displaces_an_undrained_one(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.take(Kind.RESCOPE, "k1", regime="R")
    run.take(Kind.RESCOPE, "k2", regime="S")
    assert run.outcomes() == {"k1": "superseded", "k2": None}
    assert resumed(tmp_path).steering.levers()[1] == Rescope("k2", "S")


def test_a_settled_rescope_is_not_armed_again_and_one_that_the_log_shows_is_settled(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.take(Kind.RESCOPE, "k1", regime="R")
    run.steering.take("k1")
    run.steering.settle("k1", Outcome.APPLIED)
    run.take(Kind.RESCOPE, "k2", regime="S")
    after = resumed(tmp_path, applied=["k2"])
    assert after.steering.levers()[1] is None
    assert after.outcomes() == {"k1": "applied", "k2": "applied"}


def test_the_last_budget_and_pause_level_hold_and_steers_are_kept(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.take(Kind.SET_BUDGET, "b1", usd=3.0)
    run.take(Kind.SET_BUDGET, "b2", usd=5.0)
    run.take(Kind.PAUSE, "p")
    run.take(Kind.STEER, "s1", text="one")
    run.take(Kind.STEER, "s2", text="two")
    run.take(Kind.STOP, "x")
    after = resumed(tmp_path)
    assert after.steering.max_usd == 5.0
    assert after.steering.levers() == (True, None, None, None)
    assert after.steering.steers() == [("s1", "one"), ("s2", "two")]


def test_a_steer_that_was_delivered_is_not_delivered_again(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.take(Kind.STEER, "s", text="one")
    run.steering.settle("s", Outcome.APPLIED)
    assert resumed(tmp_path).steering.steers() == []


def test_an_approve_that_was_not_granted_is_superseded_by_a_resume(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.ledger.admit(Kind.APPROVE, {}, "approve:R")  # killed before the derived rescope was written
    after = resumed(tmp_path, asks=(ASK,))
    assert after.outcomes() == {"approve:R": "superseded"}
    assert after.steering.levers()[1] is None
    assert after.take(Kind.APPROVE)["key"] == "approve:R#2"
    assert after.steering.levers()[1] == Rescope("rescope-from:approve:R#2", "R")


def test_an_approve_whose_rescope_was_written_is_granted_by_a_resume(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.ledger.admit(Kind.APPROVE, {}, "approve:R")
    run.ledger.admit(Kind.RESCOPE, {"regime": "R"}, "rescope-from:approve:R")
    after = resumed(tmp_path, asks=(ASK,))
    assert after.steering.levers()[1] == Rescope("rescope-from:approve:R", "R")
    assert after.outcomes()["approve:R"] == "applied"


def test_an_approve_pressed_twice_arms_one_rescope(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.steering.open(ASK)
    run.take(Kind.APPROVE, level=Level.OPERATOR)
    run.take(Kind.APPROVE, level=Level.OPERATOR)
    run.take(Kind.APPROVE, "other", level=Level.OPERATOR)
    assert [item.key for item in run.ledger.all() if item.kind is Kind.RESCOPE] == ["rescope-from:approve:R"]


def test_a_regime_that_is_asked_for_again_can_be_approved_again(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.steering.open(ASK)
    run.take(Kind.APPROVE, level=Level.OPERATOR)
    run.steering.take("rescope-from:approve:R")
    run.steering.close("R", Ending.GRANTED)
    run.steering.settle("rescope-from:approve:R", Outcome.APPLIED)
    run.steering.open(ASK)
    assert run.take(Kind.APPROVE, level=Level.OPERATOR)["key"] == "approve:R#2"
    assert run.steering.levers()[1] == Rescope("rescope-from:approve:R#2", "R")


def test_a_claim_survives_a_restart_and_is_announced_at_least_once(tmp_path: Path) -> None:
    run = Run(tmp_path, attached=True)
    run.steering.open(ASK)
    run.take(Kind.APPROVE, "c", level=Level.OPERATOR)
    assert run.said == [{"kind": "approval_claimed", "trace_id": "R", "decision": "approve", "key": "c", "reason": ""}]
    announced = resumed(tmp_path, asks=(ASK,), announced=["c"])
    assert announced.said == []
    lost = resumed(tmp_path, asks=(ASK,))
    assert lost.said == run.said
    lost.steering.close("R", Ending.DENIED)
    assert lost.outcomes() == {"c": "superseded"}


def test_taking_a_slot_leaves_a_newer_command_in_it(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.take(Kind.RESCOPE, "k1", regime="R")
    run.take(Kind.RESCOPE, "k2", regime="S")
    run.steering.take("k1")
    assert run.steering.levers()[1] == Rescope("k2", "S")


def test_a_torn_last_line_is_skipped_and_the_next_stands_alone(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.take(Kind.RESCOPE, "k1", regime="R")
    path = tmp_path / "admissions.jsonl"
    path.write_bytes(path.read_bytes() + b'{"v":1,"kind":"admitted","key":"k2","seq":2,"in')
    after = resumed(tmp_path)
    assert list(after.outcomes()) == ["k1"]
    after.take(Kind.RESCOPE, "k3", regime="S")
    assert list(resumed(tmp_path).outcomes()) == ["k1", "k3"]


@pytest.mark.parametrize("kind", ["bytes", "folder"])
def test_an_unreadable_ledger_is_set_aside_with_a_note(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "admissions.jsonl"
    if kind == "bytes":
        path.write_bytes(b"\xff\xfe\x00")
    else:
        path.mkdir()
    run = Run(tmp_path)
    assert len(run.ledger.notes) == 1
    assert (tmp_path / "admissions.jsonl.unreadable-7").exists()
    assert run.take(Kind.RESCOPE, "k", regime="R")["ok"] is True


def test_the_ledger_s_lines_have_the_page_s_members(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.take(Kind.RESCOPE, "k", regime="R")
    run.steering.settle("k", Outcome.REJECTED, "why")
    run.steering.settle("k", Outcome.APPLIED)
    lines = [json.loads(line) for line in (tmp_path / "admissions.jsonl").read_text().splitlines()]
    assert lines == [
        {"v": 1, "kind": "admitted", "key": "k", "seq": 1, "ts": 7, "input": "rescope", "regime": "R"},
        {"v": 1, "kind": "settled", "key": "k", "outcome": "rejected", "ts": 7, "note": "why"},
    ]


@pytest.mark.parametrize("kind", [Kind.APPROVE, Kind.DENY])
def test_a_claim_that_nobody_could_settle_is_refused_and_leaves_nothing(tmp_path: Path, kind: Kind) -> None:
    run = Run(tmp_path, attached=True)
    run.steering.open(ASK)
    run.steering.refuse_claims(NO_OPERATOR)
    reply = run.take(kind, "c", Level.OPERATOR)
    assert reply == {"ok": False, "cmd": kind.value, "error": "no operator named", "key": "c"}
    assert (run.said, run.outcomes()) == ([], {})
    assert run.take(Kind.DENY, "d", reason="no")["ok"] is True, "the broker's own deny is no claim"


def test_the_ask_that_was_on_screen_travels_with_its_claim(tmp_path: Path) -> None:
    run = Run(tmp_path, attached=True)
    run.steering.open(ASK)
    assert run.take(Kind.APPROVE, "c", Level.OPERATOR, trace_id="R", ask="01ask")["claimed"] is True
    line = {
        "kind": "approval_claimed",
        "trace_id": "R",
        "decision": "approve",
        "key": "c",
        "reason": "",
        "ask": "01ask",
    }
    assert run.said == [line]
    assert run.take(Kind.APPROVE, "c", Level.OPERATOR, trace_id="R", ask="01ask")["dup"] is True
    assert run.take(Kind.APPROVE, "c", Level.OPERATOR, trace_id="R", ask="02ask")["ok"] is False
