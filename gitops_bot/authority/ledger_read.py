"""The ledger as people look it up, re-check it and take it away: pages, a bounded piece of its chain, lines of JSON.

Facts and reasons may repeat what agents wrote and are shown as such. Whole verification, of evidence too, is
`authority.sealing.verify`; here a page re-computes one piece of the chain at a time.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gitops_bot.authority.card_history import sentence_of
from gitops_bot.authority.card_values import plain
from gitops_bot.authority.shown import AgentText
from gitops_bot.core.asks import AskId
from gitops_bot.core.canonical import Digest
from gitops_bot.core.errors import Reason
from gitops_bot.core.ledger import GENESIS, EventKind, seal
from gitops_bot.core.texts import is_storable
from gitops_bot.store import ledger, ledger_pages
from gitops_bot.store.engine import Database, Tx
from gitops_bot.store.ledger_pages import LedgerEntry, Narrowed

MOST: Final = 200
PIECE: Final = 2_000
"""So many entries one step of a verification re-computes."""
BATCH: Final = 500
_ENDS: Final = frozenset({EventKind.ASK_EXPIRED.value, EventKind.ASK_WITHDRAWN.value, EventKind.AGENT_PAUSED.value})


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """One sealed entry. `code` is a refusal's, with its sentence; `reason` are words, which may be an agent's."""

    seq: int
    hash: Digest
    kind: str
    known: bool
    at: int
    ask: AskId | None
    run: str | None
    capture: str | None
    agent: str | None
    principal: str | None
    channel: str | None
    code: str | None
    sentence: str | None
    reason: AgentText | None
    facts: tuple[tuple[str, AgentText], ...]


@dataclass(frozen=True, slots=True)
class LedgerPage:
    """Entries, newest first; `next` is the cursor of the next page (None at the end): a page may be short, or empty,
    although there is one. `head` is the newest seal."""

    rows: tuple[LedgerRow, ...]
    next: int | None
    head: ledger.Head


@dataclass(frozen=True, slots=True)
class Checked:
    """A piece of the chain, re-computed from the stored entries: the places that were, what does not hold, and after
    which place the next piece begins (None at the head)."""

    first: int
    last: int
    faults: tuple[str, ...]
    next: int | None
    head: ledger.Head


@dataclass(frozen=True, slots=True)
class Anchor:
    """A head of the ledger that is kept outside of the database; `holds` None where this process cannot tell."""

    where: str
    seq: int | None
    hash: str | None
    holds: bool | None
    sentence: str


def ledger_page(tx: Tx, narrowed: Narrowed, before: int | None, limit: int) -> LedgerPage:
    """Read the newest entries below a place that fit what is looked for."""
    words = (narrowed.kind, narrowed.ask, narrowed.agent, narrowed.principal)
    if not all(is_storable(word) for word in words):
        return LedgerPage((), None, ledger.head(tx))  # no entry can have it
    looked = ledger_pages.page(tx, narrowed, before, min(max(1, limit), MOST))
    return LedgerPage(tuple(_row(entry) for entry in looked.entries), looked.next, ledger.head(tx))


def _row(entry: LedgerEntry) -> LedgerRow:
    # How an ask ended is told in the same words as why an answer was refused, and means something else.
    is_code = entry.reason in tuple(Reason) and entry.kind not in _ENDS
    return LedgerRow(
        seq=entry.seq,
        hash=entry.hash,
        kind=plain(entry.kind),
        known=entry.kind in tuple(EventKind),
        at=entry.at,
        ask=None if entry.ask is None else AskId(entry.ask),
        run=entry.run,
        capture=entry.capture,
        agent=entry.agent,
        principal=None if entry.principal is None else plain(entry.principal),
        channel=None if entry.channel is None else plain(entry.channel),
        code=entry.reason if is_code else None,
        sentence=sentence_of(entry.reason or "") if is_code else None,
        reason=AgentText(entry.reason, "the entry") if entry.reason and not is_code else None,
        facts=tuple((plain(name), AgentText(_written(fact), "the entry")) for name, fact in entry.facts.items()),
    )


def _written(fact: object) -> str:
    return fact if isinstance(fact, str) else json.dumps(fact, ensure_ascii=False)


def check_piece(tx: Tx, after: int) -> Checked:
    """Re-compute the seals of the next entries after a place; the seal at that place is taken as it stands."""
    head = ledger.head(tx)
    previous = GENESIS if after <= 0 else ledger.seal_at(tx, after)
    if previous is None:
        return Checked(after + 1, after, (f"nothing is sealed at {after}",), None, head)
    faults: list[str] = []
    place = max(0, after)
    for entry in ledger.sealed(tx, place, PIECE):
        place += 1
        if entry.seq != place:
            faults.append(f"a gap: {place} is missing")
            place = entry.seq
        if seal(previous, entry.seq, entry.document) != entry.hash:
            faults.append(f"entry {entry.seq}, or one before it, is not as it was sealed")
        previous = entry.hash
    return Checked(max(0, after) + 1, place, tuple(faults[:MOST]), place if place < head.seq else None, head)


def anchor_of(tx: Tx, where: str, seq: int, hashed: str) -> Anchor:
    """Hold a head that is kept outside of the database against the chain."""
    holds = ledger.seal_at(tx, seq) == hashed
    sentence = (
        f"Entry {seq} is as {where} has it."
        if holds
        else f"Entry {seq} is not as {where} has it: the database was rolled back or replaced."
        " The signed channel stays closed until somebody on the host looks (docs/incidents.md)."
    )
    return Anchor(where, seq, hashed, holds, sentence)


def export_lines(database: Database, after: int) -> Iterator[bytes]:
    """Give every sealed entry after a place as one line of JSON, in sealed order, each batch in a transaction of its
    own: {"seq", "hash", "entry"}, as `gitops-bot ledger export` writes it."""
    while True:
        with database.read() as tx:
            batch = ledger.sealed(tx, after, BATCH)
        for one in batch:
            line = {"seq": one.seq, "hash": one.hash, "entry": one.document}
            yield json.dumps(line, ensure_ascii=True).encode("ascii") + b"\n"
        if len(batch) < BATCH:
            return
        after = batch[-1].seq
