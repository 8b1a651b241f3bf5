"""In which mode a loop waits is said by its agent's marker: the broker hears it from the loop; the inbox shows it."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from gitops_bot.authority.blocking import blocked
from gitops_bot.authority.duties import Pace, RowDuty
from gitops_bot.broker import loops
from gitops_bot.broker.loops import Listener
from gitops_bot.core.asks import AskId
from gitops_bot.store import captures, due, inbox
from gitops_bot.store.captures import Capture
from gitops_bot.store.engine import Tx
from gitops_bot.store.roles import Role
from gitops_bot.store.states import RunState, SeatState
from tests.capture_stage import REGIME, CaptureStage
from tests.decisions import PEOPLE, rules_of
from tests.policy_bundles import CAPTURE
from tests.store_fixtures import FreshDatabase

WAIT = {"v": 1, "kind": "approval_wait", "handle": "an address", "trace_id": REGIME.trace_id}


class Logs:
    """A link that gives loop-1's lines."""

    def __init__(self) -> None:
        self.lines: list[Mapping[str, object]] = []

    def read_log(self, address: str, token: str, after: int) -> tuple[tuple[int, Mapping[str, object]], ...]:
        return tuple(enumerate(self.lines, 1))[after:] if address.startswith("loop-1") else ()


class Waiting:
    """Two loops that wait for one trace, as a tool asked for it: which says no mode."""

    def __init__(self, stage: CaptureStage) -> None:
        self.stage, self.logs = stage, Logs()
        self.capture: Capture = stage.requested("loop-1")
        stage.requested("loop-2")

    def hear(self, *lines: Mapping[str, object]) -> None:
        self.logs.lines.extend(lines)

        def nudge(tx: Tx) -> None:
            due.set_due(tx, loops.DUTY, "loop-1", tx.now)

        self.stage.write(nudge)
        database = self.stage.database
        listener = Listener(database, self.logs, 1_000, listen_ms=1)  # type: ignore[arg-type] # a stand-in
        RowDuty(loops.DUTY, database, listener.one, Pace(batch=50, first_ms=1, most_ms=20)).step()

    def modes(self) -> dict[str, str]:
        return {seat.loop: seat.mode for seat in self.stage.read(lambda tx: captures.seats(tx, self.capture.id))}

    def words(self) -> str:
        assert self.capture.ask is not None
        ask = AskId(self.capture.ask)
        waits = self.stage.read(lambda tx: inbox.waits(tx, [ask]))
        return blocked([one for one in waits[ask] if one.loop == "loop-1"], RunState.PARKED).words


@pytest.fixture
def waiting(database: FreshDatabase, tmp_path: Path) -> Iterator[Waiting]:
    rules = rules_of({**PEOPLE, f"{CAPTURE}/channels": ["workspace"]})
    yield Waiting(CaptureStage(database.open(Role.BROKER), rules, folder=tmp_path, forge=False))


def test_a_loop_that_goes_on_says_so_and_is_shown_so(waiting: Waiting) -> None:
    """I8: what goes on badges nobody; until the loop has spoken it is taken to stand still."""
    assert waiting.words() == "loop loop-1 is parked"
    waiting.hear({**WAIT, "mode": "continue"})
    assert waiting.modes() == {"loop-1": "continue", "loop-2": "block"}
    assert waiting.words() == "loop loop-1 goes on in its frozen regime"
    waiting.hear({**WAIT, "mode": "block"})
    assert waiting.modes() == {"loop-1": "block", "loop-2": "block"}


@pytest.mark.parametrize(
    "line",
    [
        {**WAIT, "mode": "never"},
        {**WAIT, "mode": ["continue"]},
        {**WAIT},
        {**WAIT, "mode": "continue", "trace_id": "model=other;c=1;p=1;mt=1;lt=0;lf=0.0000"},
        {**WAIT, "mode": "continue", "trace_id": None},
        {**WAIT, "kind": "note", "mode": "continue"},
    ],
)
def test_another_line_changes_no_mode(waiting: Waiting, line: Mapping[str, object]) -> None:
    """Nor does a word that is none, or of another trace."""
    waiting.hear(line)
    assert waiting.modes() == {"loop-1": "block", "loop-2": "block"}


def test_a_loop_that_waits_no_more_says_nothing_about_it(waiting: Waiting) -> None:
    """Its seat is history."""
    waiting.hear({"kind": "escalation"}, {**WAIT, "mode": "continue"})
    found = waiting.stage.read(lambda tx: captures.seats(tx, waiting.capture.id))
    assert {seat.loop: (seat.state, seat.mode) for seat in found} == {
        "loop-1": (SeatState.GONE, "block"),
        "loop-2": (SeatState.WAITING, "block"),
    }
