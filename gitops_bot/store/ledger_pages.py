"""The ledger for people who look something up: newest first in sealed order, at a cost that is bounded for each page.

A page looks at no more than `LOOKED` entries below its cursor, whatever it is narrowed to; where few of them fit it is
short, and the next one goes on from the last that was looked at. Times are found by bisecting the seals.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Select, bindparam, func, or_, select

from gitops_bot.core.canonical import Digest
from gitops_bot.store.engine import Tx
from gitops_bot.store.ledger import head, sealed_at
from gitops_bot.store.work_tables import ledger, ledger_seals

LOOKED: Final = 2_000
END: Final = 2**62
"""Above every place and every time."""
SLACK_MS: Final = 3_600_000
"""So much later than it happened an entry may be sealed and still be found by its time."""


@dataclass(frozen=True, slots=True)
class Narrowed:
    """What is looked for; '' and the widest times narrow nothing. `kind` is the beginning of a kind; times in ms,
    `since` included, `until` not."""

    kind: str = ""
    ask: str = ""
    agent: str = ""
    principal: str = ""
    since: int = 0
    until: int = END


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """A sealed entry; `facts` as they were written."""

    seq: int
    hash: Digest
    kind: str
    at: int
    ask: str | None
    run: str | None
    capture: str | None
    agent: str | None
    principal: str | None
    channel: str | None
    reason: str | None
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Looked:
    """What a page found, and below which place the next one goes on; None at the end."""

    entries: tuple[LedgerEntry, ...]
    next: int | None


def _narrowed(source: Any) -> list[Any]:
    prefix: Any = bindparam("kind")
    return [
        or_(prefix == "", func.substr(source.c.kind, 1, func.length(prefix)) == prefix),
        or_(bindparam("agent") == "", source.c.agent == bindparam("agent")),
        or_(bindparam("principal") == "", source.c.principal == bindparam("principal")),
        source.c.at >= bindparam("since"),
        source.c.at < bindparam("until"),
    ]


_SEALED: Final = select(ledger_seals.c.seq, ledger_seals.c.hash, ledger).join(
    ledger, ledger.c.id == ledger_seals.c.entry
)
_WINDOW: Final = (
    _SEALED.where(ledger_seals.c.seq < bindparam("before"))
    .order_by(ledger_seals.c.seq.desc())
    .limit(bindparam("looked"))
    .subquery("looked_at")
)
_PAGE: Final = select(_WINDOW).where(*_narrowed(_WINDOW)).order_by(_WINDOW.c.seq.desc()).limit(bindparam("most"))
# Of one ask there are few, and an index leads to them.
_OF_ASK: Final[Select[Any]] = (
    _SEALED.where(ledger.c.ask == bindparam("ask"), ledger_seals.c.seq < bindparam("before"), *_narrowed(ledger))
    .order_by(ledger_seals.c.seq.desc())
    .limit(bindparam("most"))
)
# The newest entries by id, sealed or not: what a page needs of one kind, no further back than `looked`.
_LAST_ID: Final = select(func.max(ledger.c.id))
_RECENT: Final = (
    select(ledger)
    .where(
        ledger.c.id > bindparam("above"),
        ledger.c.kind.in_(bindparam("kinds", expanding=True)),
        or_(bindparam("channel") == "", ledger.c.channel == bindparam("channel")),
    )
    .order_by(ledger.c.id.desc())
    .limit(bindparam("most"))
)
_RECENT_OF_RUNS: Final = _RECENT.where(ledger.c.run.in_(bindparam("runs", expanding=True)))


def page(tx: Tx, narrowed: Narrowed, before: int | None, limit: int) -> Looked:
    """Read the newest sealed entries below a place that fit; None begins at the newest of all."""
    last = head(tx).seq
    start = min(END if before is None else before, last + 1)
    if narrowed.until < END:
        start = min(start, _first_sealed_after(tx, narrowed.until + SLACK_MS, last))
    values = {
        "before": start,
        "most": limit,
        "kind": narrowed.kind,
        "agent": narrowed.agent,
        "principal": narrowed.principal,
        "since": narrowed.since,
        "until": narrowed.until,
    }
    if narrowed.ask:
        found = [_entry(row) for row in tx.execute(_OF_ASK, {**values, "ask": narrowed.ask})]
        return Looked(tuple(found), found[-1].seq if len(found) == limit else None)
    found = [_entry(row) for row in tx.execute(_PAGE, {**values, "looked": LOOKED})]
    following = found[-1].seq if len(found) == limit else start - LOOKED
    oldest = _first_sealed_after(tx, narrowed.since, last) if narrowed.since else 1
    return Looked(tuple(found), following if following > max(1, oldest) else None)


def _first_sealed_after(tx: Tx, at: int, last: int) -> int:
    """Give the first place that was sealed at or after a time, one above the last where none was. Seals are in order of
    time but for a clock that was set back, which costs a page no more than entries that lie outside of it."""
    low, high = 1, last + 1
    while low < high:
        middle = (low + high) // 2
        found = sealed_at(tx, middle)
        if found is not None and found < at:
            low = middle + 1
        else:
            high = middle
    return low


def recent(
    tx: Tx, kinds: Collection[str], limit: int, *, looked: int, runs: Collection[str] | None = None, channel: str = ""
) -> list[LedgerEntry]:
    """Read the newest entries of some kinds, of some runs or of a channel where they are given, among the last `looked`
    that there are; `seq` is 0, for they may not be sealed yet."""
    above = (tx.execute(_LAST_ID).scalar_one() or 0) - looked
    values: dict[str, Any] = {"above": above, "kinds": sorted(kinds), "channel": channel, "most": limit}
    if runs is None:
        return [_entry(row) for row in tx.execute(_RECENT, values)]
    return [_entry(row) for row in tx.execute(_RECENT_OF_RUNS, {**values, "runs": sorted(runs)})] if runs else []


def _entry(row: Any) -> LedgerEntry:
    return LedgerEntry(
        getattr(row, "seq", 0),
        Digest(getattr(row, "hash", "")),
        row.kind,
        row.at,
        row.ask,
        row.run,
        row.capture,
        row.agent,
        row.principal,
        row.channel,
        row.reason,
        json.loads(row.facts),
    )
