"""Claims: unchecked rows, unique by where they came from; the first wins."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import bindparam, func, select, update

from gitops_bot.core.canonical import canonical
from gitops_bot.core.errors import Fact
from gitops_bot.core.verdicts import Channel, ClaimState
from gitops_bot.store.engine import Tx
from gitops_bot.store.ids import new_id
from gitops_bot.store.statements import insert_or_ignore
from gitops_bot.store.tables import claims

_INSERT: Final = insert_or_ignore(claims, ("channel", "source"))
_BY_SOURCE: Final = select(claims).where(claims.c.channel == bindparam("via"), claims.c.source == bindparam("from_"))
_GET: Final = select(claims).where(claims.c.id == bindparam("of"))
_LOCK: Final = _GET.with_for_update()
_SETTLE: Final = (
    update(claims)
    .where(claims.c.id == bindparam("of"), claims.c.state.in_([ClaimState.NEW.value, ClaimState.HELD.value]))
    .values(
        state=bindparam("to"),
        reason=bindparam("why"),
        ask=bindparam("on"),
        facts=bindparam("with_"),
        evidence=bindparam("seen"),
        settled_at=bindparam("at"),
        attempts=claims.c.attempts + 1,
    )
)
_RECENT_REPLIES: Final = select(func.count()).where(
    claims.c.channel == bindparam("via"),
    claims.c.settled_at > bindparam("since"),
    claims.c.facts.like(bindparam("pattern"), escape="/"),
)
_SEEN: Final = select(func.count()).where(
    claims.c.channel == bindparam("via"),
    claims.c.seen_at > bindparam("since"),
    claims.c.facts.like(bindparam("pattern"), escape="/"),
)


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim as stored. `facts` are what the hint said, never what was checked."""

    id: str
    channel: Channel
    source: str
    state: ClaimState
    reason: str | None
    ask: str | None
    facts: Mapping[str, Any]
    attempts: int
    seen_at: int


def _claim(row: Any) -> Claim:
    return Claim(
        row.id,
        Channel(row.channel),
        row.source,
        ClaimState(row.state),
        row.reason,
        row.ask,
        json.loads(row.facts),
        row.attempts,
        row.seen_at,
    )


def add(tx: Tx, channel: Channel, source: str, facts: Mapping[str, Fact]) -> tuple[Claim, bool]:
    """Leave a claim; give it, and whether it is new."""
    row = {
        "id": new_id(tx.now),
        "channel": channel.value,
        "source": source,
        "state": ClaimState.NEW.value,
        "facts": canonical(dict(facts)).decode("utf-8"),
        "seen_at": tx.now,
    }
    is_new = tx.execute(_INSERT[tx.dialect], row).rowcount == 1
    return _claim(tx.execute(_BY_SOURCE, {"via": channel.value, "from_": source}).one()), is_new


def get(tx: Tx, claim: str, *, lock: bool = False) -> Claim | None:
    """Read a claim; with `lock` nobody else settles it until this transaction is over."""
    row = tx.execute(_LOCK if lock else _GET, {"of": claim}).one_or_none()
    return None if row is None else _claim(row)


def by_source(tx: Tx, channel: Channel, source: str) -> Claim | None:
    """Find the claim that was left for something."""
    row = tx.execute(_BY_SOURCE, {"via": channel.value, "from_": source}).one_or_none()
    return None if row is None else _claim(row)


def settle(
    tx: Tx,
    claim: Claim,
    state: ClaimState,
    reason: str | None,
    *,
    ask: str | None,
    facts: Mapping[str, Fact],
    evidence: bytes | None,
) -> bool:
    """Say what became of a claim that is new or held; False when somebody else said so first."""
    values = {
        "of": claim.id,
        "to": state.value,
        "why": reason,
        "on": ask,
        "with_": canonical({**claim.facts, **facts}).decode("utf-8"),
        "seen": evidence,
        "at": None if state is ClaimState.HELD else tx.now,
    }
    return tx.execute(_SETTLE, values).rowcount == 1


def replies_since(tx: Tx, channel: Channel, since: int, mark: str) -> int:
    """Count claims settled since a time whose facts hold a mark (the name of a budget)."""
    found: int = tx.execute(_RECENT_REPLIES, _marked(channel, since, mark)).scalar_one()
    return found


def seen_since(tx: Tx, channel: Channel, since: int, mark: str) -> int:
    """Count claims left since a time, settled or not, whose facts hold a mark."""
    found: int = tx.execute(_SEEN, _marked(channel, since, mark)).scalar_one()
    return found


def _marked(channel: Channel, since: int, mark: str) -> dict[str, Any]:
    escaped = mark.replace("/", "//").replace("%", "/%").replace("_", "/_")
    return {"via": channel.value, "since": since, "pattern": f"%{escaped}%"}
