"""Votes, verdicts and revocations: appended, never changed."""

import json
from dataclasses import dataclass
from typing import Final

from sqlalchemy import bindparam, insert, select

from gitops_bot.core.asks import AskId, AskState
from gitops_bot.core.canonical import canonical
from gitops_bot.core.principals import PrincipalName
from gitops_bot.core.verdicts import Channel, Decision, Verdict, Vote
from gitops_bot.store.engine import Tx
from gitops_bot.store.statements import insert_or_ignore
from gitops_bot.store.tables import revocations, verdicts, votes

_INSERT: Final = insert_or_ignore(votes, ("ask", "principal", "seq"))
_OF_ASK: Final = select(votes).where(votes.c.ask == bindparam("of")).order_by(votes.c.principal, votes.c.seq)
_VERDICT: Final = insert(verdicts)
_GET_VERDICT: Final = select(verdicts).where(verdicts.c.ask == bindparam("of"))
_REVOKE: Final = insert_or_ignore(revocations, ("ask", "principal"))
_REVOKED: Final = select(revocations).where(revocations.c.ask == bindparam("of")).order_by(revocations.c.at)


@dataclass(frozen=True, slots=True)
class StoredVote:
    """A vote as stored; `seq` 2 replaced the person's own approve."""

    principal: PrincipalName
    seq: int
    decision: Decision
    option: str | None
    text: str | None
    channel: Channel
    action_hash: str
    policy: str
    run_version: int
    evidence: bytes
    cast_at: int
    idempotency_key: str | None
    request_hash: str | None


@dataclass(frozen=True, slots=True)
class StoredRevocation:
    """A deny, a revoke or a move of the world that came after the verdict."""

    principal: str
    decision: str
    channel: str
    text: str | None
    at: int


def add(
    tx: Tx, vote: Vote, seq: int, *, idempotency_key: str | None = None, request_hash: str | None = None
) -> StoredVote | None:
    """Write a vote; None when this person's vote of that place is there already."""
    row = {
        "ask": vote.ask,
        "principal": vote.principal,
        "seq": seq,
        "decision": vote.decision.value,
        "option": vote.option,
        "text": vote.text,
        "channel": vote.channel.value,
        "action_hash": vote.binding.action_hash,
        "policy": vote.binding.policy,
        "run_version": vote.binding.run_version,
        "claim": vote.claim,
        "evidence": vote.evidence,
        "idempotency_key": idempotency_key,
        "request_hash": request_hash,
        "cast_at": tx.now,
    }
    if tx.execute(_INSERT[tx.dialect], row).rowcount != 1:
        return None
    return StoredVote(
        vote.principal,
        seq,
        vote.decision,
        vote.option,
        vote.text,
        vote.channel,
        vote.binding.action_hash,
        vote.binding.policy,
        vote.binding.run_version,
        vote.evidence,
        tx.now,
        idempotency_key,
        request_hash,
    )


def of_ask(tx: Tx, ask: str) -> list[StoredVote]:
    """Read every vote on an ask, replaced ones included."""
    return [
        StoredVote(
            PrincipalName(row.principal),
            row.seq,
            Decision(row.decision),
            row.option,
            row.text,
            Channel(row.channel),
            row.action_hash,
            row.policy,
            row.run_version,
            bytes(row.evidence),
            row.cast_at,
            row.idempotency_key,
            row.request_hash,
        )
        for row in tx.execute(_OF_ASK, {"of": ask})
    ]


def standing(cast: list[StoredVote]) -> list[StoredVote]:
    """Keep each person's latest vote; a revoke leaves none."""
    latest = {vote.principal: vote for vote in sorted(cast, key=lambda vote: vote.seq)}
    return [vote for vote in latest.values() if vote.decision is not Decision.REVOKE]


def add_verdict(tx: Tx, verdict: Verdict) -> None:
    """Write the one verdict of an ask; a second one is our bug and fails on the key."""
    row = {
        "ask": verdict.ask,
        "state": verdict.state.value,
        "option": verdict.option,
        "text": verdict.text,
        "by": canonical(list(verdict.by)).decode("utf-8"),
        "at": verdict.at,
    }
    tx.execute(_VERDICT, row)


def verdict(tx: Tx, ask: str) -> Verdict | None:
    """Read the verdict of an ask."""
    row = tx.execute(_GET_VERDICT, {"of": ask}).one_or_none()
    if row is None:
        return None
    by = tuple(PrincipalName(name) for name in json.loads(row.by))
    return Verdict(AskId(row.ask), AskState(row.state), row.option, row.text, by, row.at)


def revoke(
    tx: Tx,
    ask: str,
    principal: str,
    decision: str,
    channel: Channel,
    *,
    text: str | None,
    claim: str | None,
    evidence: bytes,
) -> bool:
    """Write a revocation; False when this person's is there already."""
    row = {
        "ask": ask,
        "principal": principal,
        "decision": decision,
        "channel": channel.value,
        "text": text,
        "claim": claim,
        "evidence": evidence,
        "at": tx.now,
    }
    return tx.execute(_REVOKE[tx.dialect], row).rowcount == 1


def revocations_of(tx: Tx, ask: str) -> list[StoredRevocation]:
    """Read the revocations of an ask, oldest first."""
    return [
        StoredRevocation(row.principal, row.decision, row.channel, row.text, row.at)
        for row in tx.execute(_REVOKED, {"of": ask})
    ]
