"""Commits of people's branches: received once, judged once and for all; what is held waits for a tool to be back."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import bindparam, func, select, update

from gitops_bot.core.principals import PrincipalName
from gitops_bot.core.texts import storable
from gitops_bot.store.engine import Tx
from gitops_bot.store.signed_tables import signed_commits
from gitops_bot.store.statements import insert_or_ignore
from gitops_bot.store.states import CommitState

COUNTED: Final = "counted"
REVOCATION: Final = "revocation"
ROOT: Final = "root"
"""The codes of what was accepted: a vote, a deny or revoke after the verdict, a branch's root. All others refuse."""

MAX_DETAIL: Final = 1_000

_RECEIVE: Final = insert_or_ignore(signed_commits, ("person", "commit_id"))
_LAST: Final = select(func.max(signed_commits.c.position)).where(signed_commits.c.person == bindparam("of"))
_GET: Final = select(signed_commits).where(
    signed_commits.c.person == bindparam("of"), signed_commits.c.commit_id == bindparam("named")
)
_RECEIVED: Final = select(signed_commits.c.commit_id).where(signed_commits.c.person == bindparam("of"))
_WAITING: Final = (
    select(signed_commits)
    .where(signed_commits.c.person == bindparam("of"), signed_commits.c.state != CommitState.JUDGED.value)
    .order_by(signed_commits.c.position)
    .limit(bindparam("most"))
)
_JUDGE: Final = (
    update(signed_commits)
    .where(
        signed_commits.c.person == bindparam("of"),
        signed_commits.c.commit_id == bindparam("named"),
        signed_commits.c.state != CommitState.JUDGED.value,
    )
    .values(
        state=bindparam("to"),
        code=bindparam("why"),
        detail=bindparam("said"),
        ask=bindparam("on"),
        decision=bindparam("deciding"),
        key=bindparam("by"),
        judged_at=bindparam("at"),
        attempts=signed_commits.c.attempts + 1,
    )
)
_OF_ASK: Final = (
    select(signed_commits)
    .where(signed_commits.c.ask == bindparam("of"))
    .order_by(signed_commits.c.received_at, signed_commits.c.person, signed_commits.c.position)
    .limit(bindparam("most"))
)
_REFUSED: Final = (
    select(signed_commits)
    .where(
        signed_commits.c.ask == bindparam("of"),
        signed_commits.c.code.is_not(None),
        signed_commits.c.code.not_in([COUNTED, REVOCATION, ROOT]),
    )
    .order_by(signed_commits.c.received_at.desc(), signed_commits.c.person, signed_commits.c.position.desc())
    .limit(bindparam("most"))
)
_RECENT: Final = (
    select(signed_commits)
    .order_by(signed_commits.c.received_at.desc(), signed_commits.c.person, signed_commits.c.position.desc())
    .limit(bindparam("most"))
)


@dataclass(frozen=True, slots=True)
class SignedCommit:
    """A commit as received; `position` orders one person's commits, `code` says how it was judged."""

    person: PrincipalName
    commit_id: str
    position: int
    state: CommitState
    code: str | None
    detail: str | None
    ask: str | None
    decision: str | None
    key: str | None
    attempts: int
    received_at: int
    judged_at: int | None


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a commit was judged to be: an accepting code or a reason, with what was found on the way."""

    code: str
    detail: str = ""
    ask: str | None = None
    decision: str | None = None
    key: str | None = None


def _commit(row: Any) -> SignedCommit:
    return SignedCommit(
        PrincipalName(row.person),
        row.commit_id,
        row.position,
        CommitState(row.state),
        row.code,
        row.detail,
        row.ask,
        row.decision,
        row.key,
        row.attempts,
        row.received_at,
        row.judged_at,
    )


def receive(tx: Tx, person: str, ids: Sequence[str]) -> None:
    """Receive commits in their order; one that was received before stays as it is."""
    place = tx.execute(_LAST, {"of": person}).scalar_one() or 0
    rows = [
        {
            "person": person,
            "commit_id": one,
            "position": place + offset,
            "state": CommitState.NEW.value,
            "received_at": tx.now,
        }
        for offset, one in enumerate(ids, 1)
    ]
    if rows:
        tx.execute(_RECEIVE[tx.dialect], rows)


def received(tx: Tx, person: str) -> frozenset[str]:
    """Name every commit of a person that was received."""
    return frozenset(tx.execute(_RECEIVED, {"of": person}).scalars())


def waiting(tx: Tx, person: str, limit: int) -> list[SignedCommit]:
    """Read a person's commits that are not judged yet, oldest first."""
    return [_commit(row) for row in tx.execute(_WAITING, {"of": person, "most": limit})]


def get(tx: Tx, person: str, commit_id: str) -> SignedCommit | None:
    """Read one commit."""
    row = tx.execute(_GET, {"of": person, "named": commit_id}).one_or_none()
    return None if row is None else _commit(row)


def judge(tx: Tx, person: str, commit_id: str, judged: Judgement) -> bool:
    """Write down how a commit was judged. False: it was before, and that stands."""
    return _write(tx, person, commit_id, CommitState.JUDGED, judged)


def hold(tx: Tx, person: str, commit_id: str, why: Judgement) -> bool:
    """Leave a commit waiting, with what it waits for."""
    return _write(tx, person, commit_id, CommitState.HELD, why)


def _write(tx: Tx, person: str, commit_id: str, state: CommitState, said: Judgement) -> bool:
    values = {
        "of": person,
        "named": commit_id,
        "to": state.value,
        "why": said.code,
        "said": storable(said.detail)[:MAX_DETAIL] or None,
        "on": said.ask,
        "deciding": said.decision,
        "by": said.key,
        "at": tx.now if state is CommitState.JUDGED else None,
    }
    return tx.execute(_JUDGE, values).rowcount == 1


def of_ask(tx: Tx, ask: str, limit: int = 500) -> list[SignedCommit]:
    """Read the commits whose path named an ask, oldest first."""
    return [_commit(row) for row in tx.execute(_OF_ASK, {"of": ask, "most": limit})]


def refused_of_ask(tx: Tx, ask: str, limit: int) -> list[SignedCommit]:
    """Read the commits that named an ask and were refused or are held, newest first."""
    return [_commit(row) for row in tx.execute(_REFUSED, {"of": ask, "most": limit})]


def recent(tx: Tx, limit: int) -> list[SignedCommit]:
    """Read the commits that were received last, newest first."""
    return [_commit(row) for row in tx.execute(_RECENT, {"most": limit})]
