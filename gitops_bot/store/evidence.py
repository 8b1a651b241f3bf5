"""The evidence that was kept of answers through the workspace: of one person's on one ask, and page by page of all."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Row, bindparam, select, tuple_

from gitops_bot.core.asks import AskKind
from gitops_bot.core.ledger import EventKind
from gitops_bot.core.verdicts import Channel
from gitops_bot.store.engine import Tx
from gitops_bot.store.tables import asks, revocations, votes
from gitops_bot.store.work_tables import ledger

_WORKSPACE: Final = Channel.WORKSPACE.value
_VOTES: Final = select(votes.c.evidence).where(
    votes.c.ask == bindparam("of"), votes.c.principal == bindparam("whose"), votes.c.channel == _WORKSPACE
)
_REVOCATIONS: Final = select(revocations.c.evidence).where(
    revocations.c.ask == bindparam("of"),
    revocations.c.principal == bindparam("whose"),
    revocations.c.channel == _WORKSPACE,
)
_ENROLLED: Final = (
    select(ledger.c.principal, ledger.c.facts)
    .where(ledger.c.kind == EventKind.PASSKEY_ENROLLED.value)
    .order_by(ledger.c.id)
)
_IS_BOUND: Final = asks.c.kind == AskKind.APPROVAL.value
_VOTE_KEY: Final = (votes.c.ask, votes.c.principal, votes.c.seq)
_VOTE_PAGE: Final = (
    select(
        *_VOTE_KEY, votes.c.option, votes.c.text, votes.c.action_hash, votes.c.policy, votes.c.run_version,
        votes.c.evidence, votes.c.cast_at.label("at"), asks.c.verb,
    )
    .join(asks, asks.c.id == votes.c.ask)
    .where(
        votes.c.channel == _WORKSPACE,
        _IS_BOUND,
        tuple_(*_VOTE_KEY) > tuple_(bindparam("ask"), bindparam("whose"), bindparam("place")),
    )
    .order_by(*_VOTE_KEY)
    .limit(bindparam("most"))
)  # fmt: skip
_REVOCATION_KEY: Final = (revocations.c.ask, revocations.c.principal)
_REVOCATION_PAGE: Final = (
    select(
        *_REVOCATION_KEY, revocations.c.decision.label("option"), revocations.c.text, asks.c.action_hash,
        asks.c.policy, asks.c.run_version, revocations.c.evidence, revocations.c.at, asks.c.verb,
    )
    .join(asks, asks.c.id == revocations.c.ask)
    .where(
        revocations.c.channel == _WORKSPACE,
        _IS_BOUND,
        tuple_(*_REVOCATION_KEY) > tuple_(bindparam("ask"), bindparam("whose")),
    )
    .order_by(*_REVOCATION_KEY)
    .limit(bindparam("most"))
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Kept:
    """A bound answer through the workspace with what it bound and its evidence; `at` in ms."""

    ask: str
    principal: str
    verb: str | None
    option: str | None
    text: str | None
    action_hash: str
    policy: str
    run_version: int
    evidence: bytes
    at: int


def _kept(row: Row[Any]) -> Kept:
    return Kept(
        row.ask,
        row.principal,
        row.verb,
        row.option,
        row.text,
        row.action_hash,
        row.policy,
        row.run_version,
        bytes(row.evidence),
        row.at,
    )


def of_answer(tx: Tx, ask: str, principal: str) -> list[bytes]:
    """Read the evidence of everything that somebody answered on an ask through the workspace, revocations included."""
    values = {"of": ask, "whose": principal}
    rows = [*tx.execute(_VOTES, values).scalars(), *tx.execute(_REVOCATIONS, values).scalars()]
    return [bytes(one) for one in rows if one is not None]


def bound_votes(tx: Tx, page: int) -> Iterator[Kept]:
    """Read every vote on a bound ask through the workspace, `page` rows at a time."""
    ask, whose, place = "", "", 0
    while True:
        values = {"ask": ask, "whose": whose, "place": place, "most": page}
        rows = list(tx.execute(_VOTE_PAGE, values))
        yield from (_kept(row) for row in rows)
        if len(rows) < page:
            return
        ask, whose, place = rows[-1].ask, rows[-1].principal, rows[-1].seq


def bound_revocations(tx: Tx, page: int) -> Iterator[Kept]:
    """Read every revocation of a bound ask through the workspace, `page` rows at a time."""
    ask, whose = "", ""
    while True:
        rows = list(tx.execute(_REVOCATION_PAGE, {"ask": ask, "whose": whose, "most": page}))
        yield from (_kept(row) for row in rows)
        if len(rows) < page:
            return
        ask, whose = rows[-1].ask, rows[-1].principal


def enrolments_told(tx: Tx) -> list[tuple[str, Mapping[str, Any]]]:
    """Read whose passkeys the ledger told of when they were enrolled, oldest first: the person and the facts."""
    return [(row.principal, json.loads(row.facts)) for row in tx.execute(_ENROLLED)]
