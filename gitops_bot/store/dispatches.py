"""One dispatch is one start of a run's body: (run, version), with why, its capsule, who holds it and until when.

Written once when the run is opened (`store.due_agents`), ended once, by whoever comes first: the broker that holds it,
or a reconciler that found it lost. What the body said so far is kept in pieces, so that the text outlives the process.
That a run's own row goes with it is left to who calls.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import and_, bindparam, delete, func, select, update

from gitops_bot.core.texts import storable
from gitops_bot.ports import BodyStop
from gitops_bot.store.engine import Tx
from gitops_bot.store.fleet_tables import dispatch_text, dispatches
from gitops_bot.store.statements import insert_or_ignore
from gitops_bot.store.states import AgentState
from gitops_bot.store.tables import agents


@dataclass(frozen=True, slots=True)
class Dispatch:
    """A dispatch as stored. `wake_seq` is the agent's when it began (I2), `depth` the longest chain of messages that it
    was told, `holder` the broker process whose lease it is, `started_at` in ms."""

    run: str
    version: int
    agent: str
    slug: str
    lane: str
    reason: str
    wake_seq: int
    depth: int
    capsule: str
    holder: str
    started_at: int


@dataclass(frozen=True, slots=True)
class Ended:
    """How a dispatch ended, as stored; times in ms, `body_at` None when no body began."""

    at: int
    stop: BodyStop
    exit_code: int | None
    detail: str
    outcome: str
    body_at: int | None


_DETAIL: Final = 500
_COLUMNS: Final = (
    dispatches.c.run,
    dispatches.c.version,
    dispatches.c.agent,
    agents.c.slug,
    dispatches.c.lane,
    dispatches.c.reason,
    dispatches.c.wake_seq,
    dispatches.c.depth,
    dispatches.c.capsule,
    dispatches.c.holder,
    dispatches.c.started_at,
)
_ONE: Final = and_(dispatches.c.run == bindparam("of"), dispatches.c.version == bindparam("at_version"))
_OPEN: Final = dispatches.c.ended_at.is_(None)
_ALL: Final = select(*_COLUMNS).join(agents, agents.c.id == dispatches.c.agent)
_GET: Final = _ALL.where(_ONE)
_OPEN_OF: Final = _ALL.where(dispatches.c.agent == bindparam("of"), _OPEN).limit(1)
_LOST: Final = (
    _ALL.where(_OPEN, dispatches.c.lease_until <= bindparam("at"))
    .order_by(dispatches.c.lease_until)
    .limit(bindparam("most"))
)
_OPEN_BY: Final = _ALL.where(dispatches.c.holder == bindparam("by"), _OPEN)
_HOLDERS: Final = select(dispatches.c.holder).where(_OPEN).distinct()
_BEAT: Final = (
    update(dispatches).where(dispatches.c.holder == bindparam("by"), _OPEN).values(lease_until=bindparam("until"))
)
_HELD: Final = (
    select(dispatches.c.run, dispatches.c.version, agents.c.state)
    .join(agents, agents.c.id == dispatches.c.agent)
    .where(dispatches.c.holder == bindparam("by"), _OPEN)
)
_BEGAN: Final = update(dispatches).where(_ONE, _OPEN, dispatches.c.body_at.is_(None)).values(body_at=bindparam("at"))
_END: Final = (
    update(dispatches)
    .where(_ONE, _OPEN)
    .values(
        ended_at=bindparam("at"),
        stop=bindparam("how"),
        exit_code=bindparam("code"),
        detail=bindparam("said"),
        outcome=bindparam("came_to"),
    )
)
_ENDED: Final = select(
    dispatches.c.ended_at,
    dispatches.c.stop,
    dispatches.c.exit_code,
    dispatches.c.detail,
    dispatches.c.outcome,
    dispatches.c.body_at,
).where(_ONE, dispatches.c.ended_at.is_not(None))
_SINCE: Final = select(dispatches.c.started_at).where(
    dispatches.c.agent == bindparam("of"), dispatches.c.started_at > bindparam("since")
)
_RUNNING: Final = select(func.count()).select_from(dispatches).where(dispatches.c.lane == bindparam("of"), _OPEN)
_APPEND: Final = insert_or_ignore(dispatch_text, ("run", "version", "part"))
_TEXT: Final = (
    select(dispatch_text.c.text)
    .where(dispatch_text.c.run == bindparam("of"), dispatch_text.c.version == bindparam("at_version"))
    .order_by(dispatch_text.c.part)
)
_FORGET: Final = delete(dispatch_text).where(
    dispatch_text.c.run == bindparam("of"), dispatch_text.c.version == bindparam("at_version")
)


def _dispatch(row: Any) -> Dispatch:
    return Dispatch(
        row.run,
        row.version,
        row.agent,
        row.slug,
        row.lane,
        row.reason,
        row.wake_seq,
        row.depth,
        row.capsule,
        row.holder,
        row.started_at,
    )


def get(tx: Tx, run: str, version: int) -> Dispatch | None:
    """Read a dispatch, open or ended."""
    row = tx.execute(_GET, {"of": run, "at_version": version}).one_or_none()
    return None if row is None else _dispatch(row)


def open_of(tx: Tx, agent: str) -> Dispatch | None:
    """Read the dispatch of an agent that has not ended."""
    row = tx.execute(_OPEN_OF, {"of": agent}).one_or_none()
    return None if row is None else _dispatch(row)


def lost(tx: Tx, limit: int) -> list[Dispatch]:
    """Read up to `limit` dispatches that have not ended and whose lease is over, the longest over first."""
    return [_dispatch(row) for row in tx.execute(_LOST, {"at": tx.now, "most": limit})]


def open_by(tx: Tx, holder: str) -> list[Dispatch]:
    """Read the dispatches of one holder that have not ended; of a process known to be gone, these are lost."""
    return [_dispatch(row) for row in tx.execute(_OPEN_BY, {"by": holder})]


def holders(tx: Tx) -> list[str]:
    """Name everybody who holds a dispatch that has not ended."""
    return [row.holder for row in tx.execute(_HOLDERS, {})]


def beat(tx: Tx, holder: str, lease_ms: int) -> int:
    """Let every lease of a holder last `lease_ms` from now; give how many there are."""
    return tx.execute(_BEAT, {"by": holder, "until": tx.now + lease_ms}).rowcount


def held(tx: Tx, holder: str) -> Mapping[tuple[str, int], bool]:
    """Name the dispatches, as (run, version), that a holder still has; True where the agent was retired meanwhile."""
    rows = tx.execute(_HELD, {"by": holder})
    return {(row.run, row.version): row.state == AgentState.RETIRED.value for row in rows}


def running(tx: Tx, lane: str) -> int:
    """Count the dispatches of a lane that have not ended, whoever holds them."""
    found: int = tx.execute(_RUNNING, {"of": lane}).scalar_one()
    return found


def started_since(tx: Tx, agent: str, since: int) -> list[int]:
    """Give when an agent's dispatches after a time (ms) began, the oldest first."""
    return sorted(row.started_at for row in tx.execute(_SINCE, {"of": agent, "since": since}))


def began(tx: Tx, run: str, version: int) -> bool:
    """Remember that a body is about to be started; False when the dispatch has ended or had a body already."""
    return tx.execute(_BEGAN, {"of": run, "at_version": version, "at": tx.now}).rowcount == 1


def end(
    tx: Tx, run: str, version: int, stop: BodyStop, exit_code: int | None, detail: str, outcome: str | None
) -> bool:
    """End a dispatch; False when somebody else had, and then nothing of its end may be written."""
    values = {
        "of": run,
        "at_version": version,
        "at": tx.now,
        "how": stop.value,
        "code": exit_code,
        "said": storable(detail)[:_DETAIL],
        "came_to": outcome,
    }
    return tx.execute(_END, values).rowcount == 1


def ended(tx: Tx, run: str, version: int) -> Ended | None:
    """Read how a dispatch ended; None while it has not."""
    row = tx.execute(_ENDED, {"of": run, "at_version": version}).one_or_none()
    if row is None:
        return None
    return Ended(row.ended_at, BodyStop(row.stop), row.exit_code, row.detail or "", row.outcome or "", row.body_at)


def append_text(tx: Tx, run: str, version: int, part: int, text: str) -> None:
    """Keep a piece of what a body said; `part` counts from 0, and the same part again changes nothing."""
    row = {"run": run, "version": version, "part": part, "text": storable(text)}
    tx.execute(_APPEND[tx.dialect], row)


def text(tx: Tx, run: str, version: int) -> str:
    """Read what a body said, as far as it was kept."""
    return "".join(row.text for row in tx.execute(_TEXT, {"of": run, "at_version": version}))


def forget_text(tx: Tx, run: str, version: int) -> None:
    """Forget what a body said; for a turn whose report was kept."""
    tx.execute(_FORGET, {"of": run, "at_version": version})
