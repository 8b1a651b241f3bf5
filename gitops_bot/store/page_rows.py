"""What pages walk, newest first by cursor: captures, the backlog, an agent's messages and asks, its last activity.

Each read follows an index from its cursor and ends at a limit; a page costs the same however much there is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import and_, bindparam, func, literal_column, select

from gitops_bot.core.asks import Ask
from gitops_bot.store.asks import ask_of
from gitops_bot.store.captures import Capture, read_capture
from gitops_bot.store.engine import Tx
from gitops_bot.store.states import RunState
from gitops_bot.store.tables import agents, asks, loops, runs
from gitops_bot.store.work_tables import backlog, captures, messages

LOOKED: Final = 500
"""So many entries of the backlog are looked at for one page; those that were reopened are passed over."""

_CAPTURES: Final = (
    select(captures, agents.c.slug.label("slug"))
    .join(agents, agents.c.id == captures.c.agent)
    .where(captures.c.id < bindparam("before"))
    .order_by(captures.c.id.desc())
    .limit(bindparam("most"))
)
_LOOKED_AT: Final = (
    select(backlog)
    .where(backlog.c.ask < bindparam("before"))
    .order_by(backlog.c.ask.desc())
    .limit(bindparam("looked"))
    .subquery("looked_at")
)
_BACKLOG: Final = (
    select(asks, _LOOKED_AT.c.cause, _LOOKED_AT.c.entered_at, agents.c.slug.label("slug"))
    .select_from(_LOOKED_AT)
    .join(asks, asks.c.id == _LOOKED_AT.c.ask)
    .join(agents, agents.c.id == asks.c.agent)
    .where(_LOOKED_AT.c.reopened_as.is_(None))
    .order_by(asks.c.id.desc())
    .limit(bindparam("most"))
)
_LAST_LOOKED: Final = select(func.min(_LOOKED_AT.c.ask).label("lowest"), func.count().label("number"))
_MESSAGES: Final = (
    select(messages)
    .where(messages.c.agent == bindparam("of"), messages.c.id < bindparam("before"))
    .order_by(messages.c.id.desc())
    .limit(bindparam("most"))
)
_NEWER_MESSAGES: Final = (
    select(messages)
    .where(messages.c.agent == bindparam("of"), messages.c.id > bindparam("after"))
    .order_by(messages.c.id)
    .limit(bindparam("most"))
)
_ASKS: Final = (
    select(asks)
    .where(asks.c.agent == bindparam("of"), asks.c.id < bindparam("before"))
    .order_by(asks.c.id.desc())
    .limit(bindparam("most"))
)
_NEWER_ASKS: Final = (
    select(asks)
    .where(asks.c.agent == bindparam("of"), asks.c.id > bindparam("after"))
    .order_by(asks.c.id)
    .limit(bindparam("most"))
)
_LIVE: Final = select(runs).where(
    runs.c.agent == bindparam("of"),
    and_(runs.c.state == literal_column("'live'"), runs.c.kind == literal_column("'agent'")),
)
_LOOPS: Final = (
    select(loops.c.id, loops.c.agent, loops.c.run, loops.c.registered_at, loops.c.shutdown_at, runs.c.version)
    .join(runs, runs.c.id == loops.c.run)
    .where(loops.c.agent.in_(bindparam("these", expanding=True)), runs.c.state != RunState.ENDED.value)
    .order_by(loops.c.registered_at.desc(), loops.c.id)
    .limit(bindparam("most"))
)


@dataclass(frozen=True, slots=True)
class BacklogRow:
    """A decision that ended without a verdict, with its ask and the slug of its agent."""

    ask: Ask
    slug: str
    cause: str
    entered_at: int


@dataclass(frozen=True, slots=True)
class ThreadMessage:
    """One line of a thread, with the ask that it is about, where it is about one."""

    id: int
    kind: str
    author_kind: str
    author: str
    text: str
    at: int
    ask: str | None
    run: str | None


@dataclass(frozen=True, slots=True)
class LoopRow:
    """A loop that did not end: its agent, its run, and how often it was started."""

    id: str
    agent: str
    run: str
    version: int
    registered_at: int
    shutdown_at: int | None


def captures_before(tx: Tx, before: str, limit: int) -> list[tuple[Capture, str]]:
    """Read captures below an id, newest first, each with its agent's slug."""
    return [(read_capture(row), row.slug) for row in tx.execute(_CAPTURES, {"before": before, "most": limit})]


def backlog_before(tx: Tx, before: str, limit: int) -> tuple[list[BacklogRow], str | None]:
    """Read what waits in the backlog below an id, newest first, and below which id the next page goes on."""
    looked = {"before": before, "looked": LOOKED}
    found = [
        BacklogRow(ask_of(row, (), ()), row.slug, row.cause, row.entered_at)
        for row in tx.execute(_BACKLOG, {**looked, "most": limit})
    ]
    if len(found) == limit:
        return found, found[-1].ask.id
    last = tx.execute(_LAST_LOOKED, looked).one()
    return found, last.lowest if last.number == LOOKED else None


def messages_of(tx: Tx, agent: str, before: int, limit: int) -> list[ThreadMessage]:
    """Read an agent's messages below an id, newest first."""
    return [_message(row) for row in tx.execute(_MESSAGES, {"of": agent, "before": before, "most": limit})]


def newer_messages_of(tx: Tx, agent: str, after: int, limit: int) -> list[ThreadMessage]:
    """Read an agent's messages above an id, oldest first."""
    return [_message(row) for row in tx.execute(_NEWER_MESSAGES, {"of": agent, "after": after, "most": limit})]


def _message(row: Any) -> ThreadMessage:
    return ThreadMessage(row.id, row.kind, row.author_kind, row.author, row.text, row.at, row.ask, row.run)


def asks_of(tx: Tx, agent: str, before: str, limit: int) -> list[Ask]:
    """Read an agent's asks below an id, newest first; options and candidates are left out."""
    return [ask_of(row, (), ()) for row in tx.execute(_ASKS, {"of": agent, "before": before, "most": limit})]


def newer_asks_of(tx: Tx, agent: str, after: str, limit: int) -> list[Ask]:
    """Read an agent's asks above an id, oldest first; options and candidates are left out."""
    return [ask_of(row, (), ()) for row in tx.execute(_NEWER_ASKS, {"of": agent, "after": after, "most": limit})]


def live_run(tx: Tx, agent: str) -> tuple[str, int, int] | None:
    """Read the live run of a fleet agent: its id, its version, since when (ms)."""
    row = tx.execute(_LIVE, {"of": agent}).one_or_none()
    return None if row is None else (row.id, row.version, row.started_at)


def loops_of(tx: Tx, these: Sequence[str], limit: int) -> list[LoopRow]:
    """Read the loops of some agents that did not end, the last registered first."""
    return [
        LoopRow(row.id, row.agent, row.run, row.version, row.registered_at, row.shutdown_at)
        for row in tx.execute(_LOOPS, {"these": list(these), "most": limit})
    ]
