"""What changes at a loop's seat while it waits; `captures` seats it, reads seats and ends them."""

from typing import Final

from sqlalchemy import bindparam, select, update

from gitops_bot.store.engine import Tx
from gitops_bot.store.states import SeatState
from gitops_bot.store.work_tables import capture_seats, captures

_MODE: Final = (
    update(capture_seats)
    .where(
        capture_seats.c.loop == bindparam("of"),
        capture_seats.c.capture.in_(select(captures.c.id).where(captures.c.trace_id == bindparam("for_"))),
        capture_seats.c.state == SeatState.WAITING.value,
    )
    .values(mode=bindparam("to"))
)


def waits_in(tx: Tx, loop: str, trace_id: str, mode: str) -> None:
    """Note in which mode a loop waits for a trace; where it waits no more, or never did, nothing changes."""
    tx.execute(_MODE, {"of": loop, "for_": trace_id, "to": mode})
