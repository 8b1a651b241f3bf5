"""Votes on gated asks with their raw evidence: appended by the broker, never changed, never keyed by commit id.

One signature can be given many commit ids, so a vote is its person's on its ask, and the raw bytes go with it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from sqlalchemy import bindparam, select

from gitops_bot.core.principals import PrincipalName
from gitops_bot.core.verdicts import Decision
from gitops_bot.store.engine import Tx
from gitops_bot.store.signed_tables import signed_votes
from gitops_bot.store.statements import insert_or_ignore

_INSERT: Final = insert_or_ignore(signed_votes, ("ask", "principal", "seq"))
_OF_ASK: Final = (
    select(signed_votes)
    .where(signed_votes.c.ask == bindparam("of"))
    .order_by(signed_votes.c.received_at, signed_votes.c.principal, signed_votes.c.seq)
)


@dataclass(frozen=True, slots=True)
class SignedVote:
    """A vote with its evidence. `key` is the identity's value, `key_set` the hash of the keys it was verified under,
    `counter` a security key's at receipt; times in ms."""

    ask: str
    principal: PrincipalName
    seq: int
    decision: Decision
    commit_id: str
    raw_commit: bytes
    raw_blob: bytes
    key_kind: str
    key: str
    counter: int | None
    key_set: str
    received_at: int


def add(tx: Tx, vote: SignedVote) -> bool:
    """Write a vote; False when this person's vote of that place is there already."""
    row = {
        "ask": vote.ask,
        "principal": vote.principal,
        "seq": vote.seq,
        "decision": vote.decision.value,
        "commit_id": vote.commit_id,
        "raw_commit": vote.raw_commit,
        "raw_blob": vote.raw_blob,
        "key_kind": vote.key_kind,
        "key": vote.key,
        "counter": vote.counter,
        "key_set": vote.key_set,
        "received_at": vote.received_at,
    }
    return tx.execute(_INSERT[tx.dialect], row).rowcount == 1


def of_ask(tx: Tx, ask: str) -> list[SignedVote]:
    """Read every vote on an ask in the order of receipt, replaced ones included."""
    return [
        SignedVote(
            row.ask,
            PrincipalName(row.principal),
            row.seq,
            Decision(row.decision),
            row.commit_id,
            bytes(row.raw_commit),
            bytes(row.raw_blob),
            row.key_kind,
            row.key,
            row.counter,
            row.key_set,
            row.received_at,
        )
        for row in tx.execute(_OF_ASK, {"of": ask})
    ]


def decisions(cast: Iterable[SignedVote]) -> list[tuple[PrincipalName, Decision]]:
    """Give votes as the tally takes them, in the order in which they were counted."""
    ordered = sorted(cast, key=lambda vote: (vote.received_at, vote.seq))
    return [(vote.principal, vote.decision) for vote in ordered]
