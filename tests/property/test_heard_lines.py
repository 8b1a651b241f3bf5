"""Whatever a loop's log says, the broker hears it and lives: no line of a hostile loop ends a duty (I20)."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from gitops_bot.authority import operator_claims
from gitops_bot.authority.duties import Pace, RowDuty
from gitops_bot.authority.operator_claims import OperatorClaims
from gitops_bot.bridge.grammar import LogLine, parse_incoming
from gitops_bot.broker import loops
from gitops_bot.broker.loops import Listener
from gitops_bot.core.errors import Malformed
from gitops_bot.store import due
from gitops_bot.store.engine import Tx
from gitops_bot.store.roles import Role
from tests.capture_stage import REGIME, CaptureStage
from tests.decisions import PEOPLE, rules_of
from tests.policy_bundles import CAPTURE
from tests.store_fixtures import FreshDatabase

KINDS = [
    "start",
    "recovery",
    "parked",
    "approval_wait",
    "segment",
    "approval_resolved",
    "approval_claimed",
    "escalation",
    "shutdown",
    "x",
]
TEXTS = st.text(max_size=30) | st.sampled_from(
    ["\x00", "\ud800", REGIME.trace_id, "approve", "deny", "timeout", "x" * 9_000, '"loop":"loop-1"', "%", "\u202e"]
)
VALUES = (
    TEXTS | st.none() | st.booleans() | st.integers(-(10**18), 10**18) | st.floats(allow_nan=False) | st.lists(TEXTS)
)
NAMES = ["trace_id", "decision", "key", "reason", "ask", "outcome", "insecure_bridge", "fingerprint", "regime", "mode"]
LINES = st.lists(
    st.fixed_dictionaries({"kind": st.sampled_from(KINDS)}, optional=dict.fromkeys([*NAMES, "baseline_score"], VALUES)),
    max_size=6,
)
CLAIM = {"kind": "approval_claimed", "trace_id": REGIME.trace_id, "decision": "approve", "key": "k"}


class Logs:
    def __init__(self) -> None:
        self.lines: list[tuple[int, Mapping[str, object]]] = []

    def read_log(self, address: str, token: str, after: int) -> tuple[tuple[int, Mapping[str, object]], ...]:
        return tuple(line for line in self.lines if line[0] > after)


def as_read(lines: list[dict[str, Any]], start: int) -> list[tuple[int, Mapping[str, object]]]:
    """Send lines over the wire's grammar, as the client would read them."""
    read: list[tuple[int, Mapping[str, object]]] = []
    for number, line in enumerate(lines, start):
        try:
            incoming = parse_incoming(json.dumps({"seq": number, **line}).encode())
        except Malformed:
            continue
        assert isinstance(incoming, LogLine)
        read.append((incoming.seq, incoming.record))
    return read


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(LINES)
@example([{**CLAIM, "ask": "\x00"}])
@example([{**CLAIM, "reason": "\ud800" * 9_000}])
@example([{"kind": "segment", "fingerprint": "\x00\ud800", "regime": "\x00"}])
@example([{"kind": "approval_wait", "mode": "continue", "trace_id": "\x00\ud800"}])
@example([{"kind": "approval_wait", "mode": []}])
@example([{**CLAIM, "key": '","loop":"other'}, {**CLAIM, "decision": "deny", "key": ""}])
def test_no_line_of_a_log_ends_the_duty_that_hears_it(
    sqlite_database: FreshDatabase, tmp_path: Path, lines: list[dict[str, Any]]
) -> None:
    rules = rules_of({**PEOPLE, f"{CAPTURE}/channels": ["workspace", "operator"]})
    database = sqlite_database.opened[0] if sqlite_database.opened else sqlite_database.open(Role.BROKER)
    stage = CaptureStage(database, rules, folder=tmp_path, forge=False)
    stage.loop()
    stage.request()
    logs = Logs()
    heard = stage.read(lambda tx: loops.agents.loop(tx, "loop-1"))
    assert heard is not None
    logs.lines = as_read(lines, heard.log_seq + 1)

    def nudge(tx: Tx) -> None:
        due.set_due(tx, loops.DUTY, "loop-1", tx.now)

    stage.write(nudge)
    pace = Pace(batch=50, first_ms=1, most_ms=20)
    listener = Listener(database, logs, 0, listen_ms=1)  # type: ignore[arg-type] # a stand-in that only reads
    RowDuty(loops.DUTY, database, listener.one, pace).step()
    RowDuty(operator_claims.DUTY, database, OperatorClaims(database, rules, "bob", trust_shared=True).one, pace).step()
    after = stage.read(lambda tx: loops.agents.loop(tx, "loop-1"))
    assert after is not None
    # A line that the reader refuses has a number all the same.
    assert after.log_seq == (logs.lines[-1][0] if logs.lines else heard.log_seq)


def test_a_number_that_no_row_could_keep_is_no_line() -> None:
    for number in (2**53, 10**19, 0, -1):
        raw = json.dumps({"seq": number, "kind": "note"}).encode()
        try:
            read = parse_incoming(raw)
        except Malformed:
            continue
        raise AssertionError(read)
    assert isinstance(parse_incoming(b'{"seq":9007199254740991,"kind":"note"}'), LogLine)
