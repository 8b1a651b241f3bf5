"""Messages, reports and notices of an agent's thread, and the backlog of decisions that ended without a verdict."""

from dataclasses import dataclass
from typing import Final

from sqlalchemy import bindparam, insert, select, update

from gitops_bot.store.engine import Tx
from gitops_bot.store.statements import insert_or_ignore
from gitops_bot.store.work_tables import backlog, messages

_POST: Final = insert(messages).returning(messages.c.id)
_THREAD: Final = (
    select(messages)
    .where(messages.c.agent == bindparam("of"), messages.c.id > bindparam("after"))
    .order_by(messages.c.id)
    .limit(bindparam("most"))
)
_RECENT: Final = (
    select(messages.c.author_kind, messages.c.author, messages.c.at)
    .where(messages.c.agent == bindparam("of"))
    .order_by(messages.c.id.desc())
    .limit(bindparam("most"))
)
_ENTER: Final = insert_or_ignore(backlog, ("ask",))
_REOPEN: Final = (
    update(backlog)
    .where(backlog.c.ask == bindparam("of"), backlog.c.reopened_as.is_(None))
    .values(reopened_as=bindparam("successor"), reopened_by=bindparam("who"))
)
_IN_BACKLOG: Final = select(backlog.c.ask).where(backlog.c.ask == bindparam("of"), backlog.c.reopened_as.is_(None))
_OPEN: Final = (
    select(backlog)
    .where(backlog.c.ask > bindparam("after"), backlog.c.reopened_as.is_(None))
    .order_by(backlog.c.ask)
    .limit(bindparam("most"))
)


@dataclass(frozen=True, slots=True)
class Message:
    """One line of a thread, by whom; a message by a token is shown as that agent's, never a person's."""

    id: int
    kind: str
    author_kind: str
    author: str
    text: str
    at: int


@dataclass(frozen=True, slots=True)
class BacklogEntry:
    """A decision that ended without a verdict and was not reopened."""

    ask: str
    cause: str
    entered_at: int


def post(
    tx: Tx,
    agent: str,
    kind: str,
    text: str,
    *,
    author_kind: str = "system",
    author: str = "gitops-bot",
    run: str | None = None,
    ask: str | None = None,
) -> int:
    """Write to an agent's thread; give the line's number. `kind` is message, report or notice."""
    row = {
        "agent": agent,
        "run": run,
        "ask": ask,
        "kind": kind,
        "author_kind": author_kind,
        "author": author,
        "text": text,
        "at": tx.now,
    }
    number: int = tx.execute(_POST, row).scalar_one()
    return number


def thread(tx: Tx, agent: str, after: int, limit: int) -> list[Message]:
    """Read an agent's thread after a message id."""
    rows = tx.execute(_THREAD, {"of": agent, "after": after, "most": limit})
    return [Message(row.id, row.kind, row.author_kind, row.author, row.text, row.at) for row in rows]


def posted_since(tx: Tx, agent: str, author_kind: str, author: str, since: int, within: int) -> int:
    """Count what one author wrote to an agent's thread since a time (ms), among its newest `within` lines."""
    rows = tx.execute(_RECENT, {"of": agent, "most": within})
    return sum((row.author_kind, row.author) == (author_kind, author) and row.at > since for row in rows)


def enter_backlog(tx: Tx, ask: str, cause: str) -> None:
    """Put an ended ask into the backlog."""
    tx.execute(_ENTER[tx.dialect], {"ask": ask, "cause": cause, "entered_at": tx.now})


def is_in_backlog(tx: Tx, ask: str) -> bool:
    """Tell whether an ask waits in the backlog."""
    return tx.execute(_IN_BACKLOG, {"of": ask}).one_or_none() is not None


def mark_reopened(tx: Tx, ask: str, successor: str, by: str) -> bool:
    """Say that a backlog entry was reopened as a new ask; False when it is not there or was reopened before."""
    return tx.execute(_REOPEN, {"of": ask, "successor": successor, "who": by}).rowcount == 1


def open_backlog(tx: Tx, after: str, limit: int) -> list[BacklogEntry]:
    """Read the backlog in order of ask id after a cursor."""
    rows = tx.execute(_OPEN, {"after": after, "most": limit})
    return [BacklogEntry(row.ask, row.cause, row.entered_at) for row in rows]
