"""A lane is a harness and a provider: closed until a time when somebody met its limit, whoever that was.

No agent of a closed lane is started (`store.due_agents`). It opens by time alone; that it worked again is remembered so
that the next closing is a first one.
"""

from dataclasses import dataclass
from typing import Final

from sqlalchemy import bindparam, case, select, update

from gitops_bot.store.engine import Tx
from gitops_bot.store.fleet_tables import lanes


@dataclass(frozen=True, slots=True)
class Lane:
    """A lane as stored: until when it is closed (ms; long past: open), and how many closings in a row that was."""

    id: str
    opens_at: int
    closings: int
    reason: str | None


_GET: Final = select(lanes).where(lanes.c.id == bindparam("of"))
# Two may meet one limit at one time: the later opening stands.
_CLOSE: Final = (
    update(lanes)
    .where(lanes.c.id == bindparam("of"))
    .values(
        opens_at=case((lanes.c.opens_at > bindparam("at"), lanes.c.opens_at), else_=bindparam("at")),
        closings=bindparam("number"),
        reason=bindparam("why"),
    )
)
_SERVED: Final = (
    update(lanes)
    .where(lanes.c.id == bindparam("of"), lanes.c.opens_at <= bindparam("at"), lanes.c.closings > 0)
    .values(closings=0, reason=None)
)


def get(tx: Tx, lane: str) -> Lane | None:
    """Read a lane."""
    row = tx.execute(_GET, {"of": lane}).one_or_none()
    return None if row is None else Lane(row.id, row.opens_at, row.closings, row.reason)


def close(tx: Tx, lane: str, opens_at: int, closings: int, reason: str) -> None:
    """Close a lane until a time (ms), or longer where it is closed for longer already."""
    tx.execute(_CLOSE, {"of": lane, "at": opens_at, "number": closings, "why": reason})


def served(tx: Tx, lane: Lane) -> None:
    """Remember that the provider of an open lane worked, so that its next closing is a first one."""
    if lane.closings > 0 and lane.opens_at <= tx.now:
        tx.execute(_SERVED, {"of": lane.id, "at": tx.now})
