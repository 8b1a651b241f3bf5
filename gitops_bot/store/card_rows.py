"""What a card of an ask is made of beside the ask itself: the newest few of what may be many, each by an index.

Nothing here grows with the number of asks: an index leads to what is read, and a limit ends it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import bindparam, literal_column, select

from gitops_bot.core.asks import AskId, AskState
from gitops_bot.core.ledger import EventKind
from gitops_bot.store.engine import Tx
from gitops_bot.store.tables import asks, verdicts
from gitops_bot.store.work_tables import ledger

# Literals: SQLite uses a partial index only where the statement's text implies its condition.
_APPROVED: Final = asks.c.state == literal_column(f"'{AskState.APPROVED.value}'")
_LAST_APPROVED: Final = (
    select(asks.c.id, asks.c.action)
    .where(asks.c.verb == bindparam("named"), _APPROVED, asks.c.id < bindparam("before"))
    .order_by(asks.c.id.desc())
    .limit(1)
)
_LAST_DENIED: Final = (
    select(asks.c.id, asks.c.ended_at, asks.c.ended_by, verdicts.c.text)
    .outerjoin(verdicts, verdicts.c.ask == asks.c.id)
    .where(
        asks.c.action_hash == bindparam("bound"),
        asks.c.state == AskState.DENIED.value,
        asks.c.id < bindparam("before"),
    )
    .order_by(asks.c.id.desc())
    .limit(1)
)
_PREDECESSOR: Final = select(asks.c.supersedes).where(asks.c.id == bindparam("of"))
_REFUSED: Final = (
    select(ledger)
    .where(ledger.c.ask == bindparam("of"), ledger.c.kind == EventKind.VOTE_REFUSED.value)
    .order_by(ledger.c.id.desc())
    .limit(bindparam("most"))
)
_SPENT: Final = (
    select(ledger.c.facts)
    .where(ledger.c.ask == bindparam("of"), ledger.c.kind == EventKind.GRANT_SPENT.value)
    .order_by(ledger.c.id.desc())
    .limit(1)
)
_CHANNEL: Final = (
    select(ledger.c.channel)
    .where(ledger.c.ask == bindparam("of"), ledger.c.kind == EventKind.ASK_ANSWERED.value)
    .order_by(ledger.c.id.desc())
    .limit(1)
)


@dataclass(frozen=True, slots=True)
class Denied:
    """An earlier ask for the same action that was denied: when (ms), by whom, in which words of theirs."""

    ask: AskId
    at: int
    by: str | None
    words: str | None


@dataclass(frozen=True, slots=True)
class RefusedVote:
    """An answer that was refused, as the ledger has it."""

    at: int
    principal: str | None
    channel: str | None
    reason: str | None
    facts: Mapping[str, Any]


def last_approved(tx: Tx, verb: str, before: str) -> tuple[AskId, bytes] | None:
    """Find the newest approved ask of a verb that was opened before another, with its action."""
    row = tx.execute(_LAST_APPROVED, {"named": verb, "before": before}).one_or_none()
    return None if row is None else (AskId(row.id), bytes(row.action))


def last_denied(tx: Tx, action_hash: str, before: str) -> Denied | None:
    """Find the newest denied ask for an action, by anybody, that was opened before another."""
    row = tx.execute(_LAST_DENIED, {"bound": action_hash, "before": before}).one_or_none()
    return None if row is None else Denied(AskId(row.id), row.ended_at, row.ended_by, row.text)


def predecessor(tx: Tx, ask: str) -> AskId | None:
    """Name the ask that one replaced."""
    found: str | None = tx.execute(_PREDECESSOR, {"of": ask}).scalar_one_or_none()
    return None if found is None else AskId(found)


def refused_votes(tx: Tx, ask: str, limit: int) -> list[RefusedVote]:
    """Read the answers to an ask that were refused last, newest first."""
    return [
        RefusedVote(row.at, row.principal, row.channel, row.reason, json.loads(row.facts))
        for row in tx.execute(_REFUSED, {"of": ask, "most": limit})
    ]


def execution_of(tx: Tx, ask: str) -> str | None:
    """Name the execution that the ledger says an ask's grant was spent on; the table itself is found by id alone."""
    facts: str | None = tx.execute(_SPENT, {"of": ask}).scalar_one_or_none()
    found = None if facts is None else json.loads(facts).get("execution")
    return found if isinstance(found, str) else None


def channel_of_end(tx: Tx, ask: str) -> str | None:
    """Tell through which channel the answer came that ended an ask; None where no answer did."""
    found: str | None = tx.execute(_CHANNEL, {"of": ask}).scalar_one_or_none()
    return found
