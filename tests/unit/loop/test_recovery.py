"""How a run died is told from its log alone."""

import json
from pathlib import Path
from typing import Any

import pytest

from gitops_bot.core.errors import Unavailable
from gitops_bot.loop.recovery import Death, read_past
from gitops_bot.loop.session import MAX_RECORD, SessionLog, read_session

SEGMENT = {"kind": "segment", "fingerprint": "f", "baseline_score": 10.0, "regime": "default", "kept_snap": "baseline"}
START: list[dict[str, Any]] = [
    {"kind": "start"},
    {"kind": "identity", "identity": {"judge": "sha256:1"}},
    {"kind": "phase", "phase": "baseline", "iter": 0},
]
TURN: list[dict[str, Any]] = [{"kind": "phase", "phase": "iteration", "iter": 1}, {"kind": "agent_start", "iter": 1}]
DONE: list[dict[str, Any]] = [{"kind": "agent_done"}, {"kind": "budget", "spent": 0.5, "elapsed_secs": 12.5}]
KEEP = {"kind": "row", "row": {"iter": 1, "decision": "keep", "score": 8.0, "kept_snap": "000001"}, "solved": False}
ASKED = {"kind": "approval_wait", "handle": "h", "trace_id": "R", "mode": "block"}
ASK_ROW = {"kind": "row", "row": {"iter": 1, "decision": "ask", "score": None}, "solved": False}
GRANTED = {**SEGMENT, "regime": "R", "baseline_score": 30.0, "key": "k", "resolves": ["R"]}
RESOLVED = {"kind": "approval_resolved", "outcome": "granted", "reason": "R", "trace_id": "R", "key": "k"}
DENIED = {"kind": "approval_resolved", "outcome": "denied", "reason": "no", "trace_id": "R", "key": "d"}
SHUTDOWN = {"kind": "shutdown", "outcome": "finished", "reason": ""}


@pytest.mark.parametrize(
    ("records", "death"),
    [
        (START, Death.IN_BASELINE),
        ([*START, SEGMENT], Death.BETWEEN_ITERATIONS),
        ([*START, SEGMENT, *TURN], Death.MID_TURN),
        ([*START, SEGMENT, *TURN, *DONE], Death.DECIDING),
        ([*START, SEGMENT, *TURN, *DONE, KEEP], Death.BETWEEN_ITERATIONS),
        ([*START, SEGMENT, *TURN, *DONE, ASKED], Death.AWAITING_APPROVAL),
        ([*START, SEGMENT, *TURN, *DONE, ASKED, ASK_ROW, {"kind": "parked", "trace_id": "R"}], Death.AWAITING_APPROVAL),
        ([*START, SEGMENT, *TURN, *DONE, ASKED, ASK_ROW, START[2]], Death.IN_BASELINE),
        ([*START, SEGMENT, *TURN, *DONE, {**ASKED, "mode": "continue"}, ASK_ROW], Death.BETWEEN_ITERATIONS),
        ([*START, SEGMENT, SHUTDOWN], Death.CLEAN_EXIT),
        ([*START, SEGMENT, SHUTDOWN, {"kind": "recovery"}, *TURN], Death.MID_TURN),
        ([*START, SEGMENT, *TURN, *DONE, ASKED, SHUTDOWN, {"kind": "recovery"}], Death.AWAITING_APPROVAL),
        ([*START, SHUTDOWN, {"kind": "recovery"}], Death.IN_BASELINE),
    ],
)
def test_each_way_of_dying(records: list[dict[str, Any]], death: Death) -> None:
    assert read_past(records).death is death


def test_what_a_resume_needs_is_in_the_log() -> None:
    past = read_past([*START, SEGMENT, *TURN, *DONE, KEEP])
    assert (past.iteration, past.best, past.baseline, past.improved, past.kept) == (1, 8.0, 10.0, True, "000001")
    assert (past.spent, past.elapsed) == (0.5, 12.5)
    assert past.judged_by == {"judge": "sha256:1"}


def test_an_ask_without_its_row_counts_its_iteration() -> None:
    past = read_past([*START, SEGMENT, *TURN, *DONE, ASKED])
    assert past.iteration == 1
    assert list(past.asks) == ["R"]
    assert read_past([*START, SEGMENT, *TURN, *DONE, ASKED, {"kind": "recovery"}]).iteration == 1


def test_a_turn_without_its_row_is_done_again() -> None:
    assert read_past([*START, SEGMENT, *TURN, *DONE]).iteration == 0


def test_a_segment_without_its_resolution_is_repaired_and_its_rescope_is_not_applied_again() -> None:
    past = read_past([*START, SEGMENT, *TURN, *DONE, ASKED, ASK_ROW, GRANTED])
    assert (past.regime, past.baseline, past.asks, past.applied) == ("R", 30.0, {}, {"k"})
    assert [(ask.trace_id, key) for ask, key in past.ungranted] == [("R", "k")]
    assert read_past([*START, SEGMENT, ASKED, GRANTED, RESOLVED]).ungranted == []


def test_a_denied_block_ask_owes_its_escalation_until_it_is_logged() -> None:
    past = read_past([*START, SEGMENT, ASKED, ASK_ROW, DENIED])
    assert past.owed is not None
    assert past.applied == {"d"}
    assert read_past([*START, SEGMENT, ASKED, ASK_ROW, DENIED, {"kind": "escalation"}]).owed is None
    assert read_past([*START, SEGMENT, {**ASKED, "mode": "continue"}, DENIED]).owed is None


def test_unknown_kinds_members_and_types_degrade() -> None:
    odd: list[dict[str, Any]] = [{}, {"kind": "new"}, {"kind": ["x"]}, {"kind": "row", "row": 7}]
    odd += [{"kind": "segment", "regime": 5, "baseline_score": "x"}, {"kind": "budget", "spent": True}]
    odd += [{"kind": "agent_start", "iter": 10**400}, {"kind": "budget", "spent": float("nan")}]
    odd += [{"kind": "agent_start", "iter": None}, {"kind": "identity", "identity": []}]
    read_past(odd)
    past = read_past([*START, SEGMENT, *odd[:4], *TURN, *DONE, {**KEEP, "new": 1}])
    assert past.best == 8.0


def test_a_torn_last_line_is_cut_off_and_numbers_do_not_shift(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    log = SessionLog(path)
    log.append("note", msg="one")
    log.close()
    with path.open("ab") as file:
        file.write(b'{"v":1,"kind":"no')
    assert [record["msg"] for record in read_session(path)] == ["one"]
    log = SessionLog(path)
    assert log.append("note", msg="two") == 2
    log.close()
    assert [record["msg"] for record in read_session(path)] == ["one", "two"]


def test_lines_are_bounded_whatever_is_in_them(tmp_path: Path) -> None:
    log = SessionLog(tmp_path / "session.jsonl")
    log.append("note", msg="x" * 1_000_000)
    log.append("note", msgs=["\U0001f600" * 8000] * 9)
    log.close()
    lines = (tmp_path / "session.jsonl").read_bytes().splitlines()
    assert max(map(len, lines)) <= MAX_RECORD
    assert [json.loads(line)["kind"] for line in lines] == ["note", "note"]


def test_a_line_that_cannot_be_written_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = SessionLog(tmp_path / "session.jsonl")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("gitops_bot.loop.session.os.fsync", full)
        with pytest.raises(Unavailable):
            log.append("note", msg="lost")
    assert log.append("note", msg="kept") == 1
    log.close()
    assert [record["msg"] for record in read_session(tmp_path / "session.jsonl")] == ["kept"]
