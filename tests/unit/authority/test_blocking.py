"""What an open ask holds up, in words of ours; what goes on meanwhile does not badge (I8)."""

from pathlib import Path

import pytest
from sqlalchemy import update

from gitops_bot.authority import inbox
from gitops_bot.authority.blocking import NOTHING, blocked
from gitops_bot.authority.inbox import Filters, Inbox
from gitops_bot.core.principals import PrincipalName
from gitops_bot.store.inbox import Waits
from gitops_bot.store.roles import Role
from gitops_bot.store.states import RunState, WaiterKind
from gitops_bot.store.work_tables import capture_seats
from tests.capture_stage import CaptureStage
from tests.store_fixtures import FreshDatabase


def seat(loop: str | None, mode: str | None) -> Waits:
    return Waits(WaiterKind.CAPTURE, None, mode, loop)


PARKED, LIVE = (Waits(WaiterKind.RUN, state, None, None) for state in (RunState.PARKED, RunState.LIVE))
REQUEST = Waits(WaiterKind.REQUEST, None, None, None)


@pytest.mark.parametrize(
    ("waits", "run", "words", "stands"),
    [
        ([PARKED], RunState.PARKED, "the agent waits", True),
        ([LIVE], RunState.LIVE, "the agent goes on meanwhile", False),
        ([REQUEST], RunState.LIVE, "whoever asked waits", True),
        ([LIVE, REQUEST], RunState.LIVE, "whoever asked waits", True),
        ([seat("a", "block")], RunState.LIVE, "loop a is parked", True),
        ([seat("a", "continue")], RunState.LIVE, "loop a goes on in its frozen regime", False),
        ([seat("a", "continue"), seat("b", "block")], RunState.LIVE, "loop b is parked", True),
        ([seat("a", "block"), seat("b", "block")], RunState.LIVE, "loop a is parked, and 1 more", True),
        ([seat(None, None)], RunState.ENDED, "a capture waits", True),
        ([Waits(WaiterKind.TASK, None, None, None)], RunState.PARKED, "a task waits", True),
        ([Waits(WaiterKind.CALL, None, None, None)], RunState.PARKED, "a call waits", True),
        ([], RunState.LIVE, "the agent goes on meanwhile", False),
        ([], RunState.PARKED, NOTHING, True),
        ([], RunState.ENDED, NOTHING, True),
    ],
)
def test_what_stands_still_is_told(waits: list[Waits], run: RunState, words: str, stands: bool) -> None:
    """Whatever stands still comes before what goes on."""
    found = blocked(waits, run)
    assert (found.words, found.stands) == (words, stands)


def test_a_loop_that_is_parked_badges_and_one_that_goes_on_does_not(database: FreshDatabase, tmp_path: Path) -> None:
    """From the seat that the loop took at its capture, as the rows have it."""
    stage = CaptureStage(database.open(Role.OWNER), folder=tmp_path)
    capture = stage.requested()

    def see() -> Inbox:
        return stage.read(lambda tx: inbox.needs_you(tx, stage.rules, PrincipalName("bob"), Filters(), None, 10))

    (row,) = see().rows
    assert (row.ask.verb, row.blocks, row.badges, see().count) == ("capture.approve", "loop loop-1 is parked", True, 1)
    going = update(capture_seats).where(capture_seats.c.capture == capture.id).values(mode="continue")
    stage.write(lambda tx: tx.execute(going))
    (row,) = see().rows
    assert (row.blocks, row.badges) == ("loop loop-1 goes on in its frozen regime", False)
    assert see().count == 0
