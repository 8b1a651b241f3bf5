"""Asks: inserted whole, ended once by a conditional update, read as values."""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import and_, bindparam, func, insert, literal_column, or_, select, union_all, update

from gitops_bot.core.asks import Ask, AskId, AskKind, AskState, Binding, Option
from gitops_bot.core.canonical import Digest
from gitops_bot.core.principals import PrincipalName
from gitops_bot.core.texts import is_storable
from gitops_bot.store.engine import Tx
from gitops_bot.store.tables import ask_candidates, ask_options, asks

# A literal and no parameter: SQLite uses a partial index only where the statement's text implies its condition.
_STATE_OPEN: Final = asks.c.state == literal_column(f"'{AskState.OPEN.value}'")
_BOUND: Final = asks.c.kind != literal_column(f"'{AskKind.QUESTION.value}'")
_INSERT: Final = insert(asks)
_INSERT_OPTIONS: Final = insert(ask_options)
_INSERT_CANDIDATES: Final = insert(ask_candidates)
_GET: Final = select(asks).where(asks.c.id == bindparam("of"))
_LOCK: Final = _GET.with_for_update()
# Both lists of an ask in one round: options by position, candidates at -1.
_PARTS: Final = union_all(
    select(
        ask_options.c.id.label("name"), ask_options.c.label.label("label"), ask_options.c.position.label("place")
    ).where(ask_options.c.ask == bindparam("of")),
    select(ask_candidates.c.principal, literal_column("''"), literal_column("-1")).where(
        ask_candidates.c.ask == bindparam("of")
    ),
)
_BY_KEY: Final = select(asks.c.id, asks.c.request_hash).where(
    asks.c.agent == bindparam("by"), asks.c.idempotency_key == bindparam("named")
)
_OPEN_FOR_ACTION: Final = select(asks.c.id).where(
    asks.c.agent == bindparam("by"), asks.c.action_hash == bindparam("bound"), _STATE_OPEN, _BOUND
)
_LAST_DENIED: Final = (
    select(asks.c.id, asks.c.ended_at, asks.c.ended_by)
    .where(asks.c.action_hash == bindparam("bound"), asks.c.state == AskState.DENIED.value)
    .order_by(asks.c.ended_at.desc())
    .limit(1)
)
_COUNT_OPEN: Final = select(func.count()).where(
    asks.c.agent == bindparam("by"), _STATE_OPEN, asks.c.kind == bindparam("of_kind")
)
_ENDING: Final[dict[str, Any]] = {
    "state": bindparam("to"),
    "ended_at": bindparam("at"),
    "ended_by": bindparam("by"),
    "end_reason": bindparam("why_"),
    "superseded_by": bindparam("successor"),
}
_IS_OPEN: Final = and_(asks.c.id == bindparam("of"), _STATE_OPEN)
# One conditional update decides every race between answer, deny, withdraw and expire (I6). An answer must find the ask
# unexpired, an expiry must find it past its time, by the same clock.
_END: Final = update(asks).where(_IS_OPEN).values(_ENDING)
_END_IN_TIME: Final = (
    update(asks).where(_IS_OPEN, or_(asks.c.expires_at.is_(None), asks.c.expires_at > bindparam("at"))).values(_ENDING)
)
_END_EXPIRED: Final = update(asks).where(_IS_OPEN, asks.c.expires_at <= bindparam("at")).values(_ENDING)
_ASSIGN: Final = update(asks).where(_IS_OPEN).values(assignee=bindparam("whom"))
_UNDER_OTHER: Final = (
    select(asks.c.id)
    .where(_STATE_OPEN, asks.c.policy != bindparam("in_force"))
    .order_by(asks.c.id)
    .limit(bindparam("most"))
)
_DECIDED: Final = (
    select(asks.c.id, asks.c.action)
    .where(asks.c.verb == bindparam("named"), asks.c.state == AskState.APPROVED.value)
    .order_by(asks.c.id.desc())
    .limit(bindparam("most"))
)
_PAGE: Final = select(asks).where(asks.c.id > bindparam("after")).order_by(asks.c.id).limit(bindparam("most"))
_OPEN_PAGE: Final = _PAGE.where(_STATE_OPEN)
_AGENT_PAGE: Final = _PAGE.where(asks.c.agent == bindparam("by"))
_OPEN_AGENT_PAGE: Final = _AGENT_PAGE.where(_STATE_OPEN)


def insert_ask(
    tx: Tx,
    ask: Ask,
    *,
    idempotency_key: str | None = None,
    request_hash: str | None = None,
    supersedes: AskId | None = None,
) -> None:
    """Write an open ask with its options and candidates."""
    tx.execute(
        _INSERT,
        {
            "id": ask.id,
            "kind": ask.kind.value,
            "state": ask.state.value,
            "verb": ask.verb,
            "text": ask.text,
            "why": ask.why,
            "action": ask.action,
            "action_hash": ask.binding.action_hash,
            "policy": ask.binding.policy,
            "agent": ask.agent,
            "run": ask.run,
            "run_version": ask.binding.run_version,
            "requester": ask.requester,
            "owner": ask.owner,
            "assignee": ask.assignee,
            "due_at": ask.due_at,
            "opened_at": ask.opened_at,
            "expires_at": ask.expires_at,
            "supersedes": supersedes,
            "idempotency_key": idempotency_key,
            "request_hash": request_hash,
        },
    )
    if ask.options:
        options = [
            {"ask": ask.id, "id": option.id, "label": option.label, "position": position}
            for position, option in enumerate(ask.options)
        ]
        tx.execute(_INSERT_OPTIONS, options)
    if ask.candidates:
        tx.execute(_INSERT_CANDIDATES, [{"ask": ask.id, "principal": name} for name in ask.candidates])


def get(tx: Tx, ask: str, *, lock: bool = False) -> Ask | None:
    """Read one ask; with `lock` nobody else ends or votes on it until this transaction is over."""
    if not is_storable(ask):
        return None  # an id from outside, which no row can have
    row = tx.execute(_LOCK if lock else _GET, {"of": ask}).one_or_none()
    if row is None:
        return None
    parts = sorted(tx.execute(_PARTS, {"of": ask}), key=lambda part: (part.place, part.name))
    options = tuple(Option(part.name, part.label) for part in parts if part.place >= 0)
    candidates = tuple(PrincipalName(part.name) for part in parts if part.place < 0)
    return ask_of(row, options, candidates)


def ask_of(row: Any, options: tuple[Option, ...], candidates: tuple[PrincipalName, ...]) -> Ask:
    """Make the value of a row of `asks`; what else belongs to it is given."""
    return Ask(
        id=AskId(row.id),
        kind=AskKind(row.kind),
        state=AskState(row.state),
        verb=row.verb,
        text=row.text,
        why=row.why,
        action=bytes(row.action) if row.action is not None else None,
        binding=Binding(Digest(row.action_hash), Digest(row.policy), row.run_version),
        options=options,
        candidates=candidates,
        agent=row.agent,
        run=row.run,
        requester=PrincipalName(row.requester),
        owner=PrincipalName(row.owner) if row.owner else None,
        opened_at=row.opened_at,
        expires_at=row.expires_at,
        ended_at=row.ended_at,
        ended_by=row.ended_by,
        end_reason=row.end_reason,
        superseded_by=AskId(row.superseded_by) if row.superseded_by else None,
        assignee=PrincipalName(row.assignee) if row.assignee else None,
        snoozed_until=row.snoozed_until,
        due_at=row.due_at,
    )


def by_idempotency_key(tx: Tx, agent: str, key: str) -> tuple[AskId, str] | None:
    """Find the ask that an agent opened under a key, with the hash of that request."""
    row = tx.execute(_BY_KEY, {"by": agent, "named": key}).one_or_none()
    return None if row is None else (AskId(row.id), row.request_hash)


def open_for_action(tx: Tx, agent: str, action_hash: str) -> AskId | None:
    """Find an agent's open ask for an action."""
    found: str | None = tx.execute(_OPEN_FOR_ACTION, {"by": agent, "bound": action_hash}).scalar_one_or_none()
    return AskId(found) if found else None


def last_denied(tx: Tx, action_hash: str) -> tuple[AskId, int, str | None] | None:
    """Find the newest denial of an action by anybody: ask, time, by whom."""
    row = tx.execute(_LAST_DENIED, {"bound": action_hash}).one_or_none()
    return None if row is None else (AskId(row.id), row.ended_at, row.ended_by)


def count_open(tx: Tx, agent: str, kind: AskKind) -> int:
    """Count an agent's open asks of one kind."""
    found: int = tx.execute(_COUNT_OPEN, {"by": agent, "of_kind": kind.value}).scalar_one()
    return found


def end(
    tx: Tx,
    ask: AskId,
    state: AskState,
    by: str | None,
    reason: str | None = None,
    *,
    superseded_by: AskId | None = None,
) -> bool:
    """End an open ask; False when it had ended already, or its time does not allow this end (see `_END_IN_TIME`)."""
    match state:
        case AskState.EXPIRED:
            statement = _END_EXPIRED
        case AskState.APPROVED | AskState.DENIED | AskState.ANSWERED:
            statement = _END_IN_TIME
        case _:
            statement = _END
    values = {"of": ask, "to": state.value, "at": tx.now, "by": by, "why_": reason, "successor": superseded_by}
    return tx.execute(statement, values).rowcount == 1


def assign(tx: Tx, ask: AskId, whom: PrincipalName | None) -> bool:
    """Say who takes care of an open ask (None: nobody in particular); False when it had ended."""
    return tx.execute(_ASSIGN, {"of": ask, "whom": whom}).rowcount == 1


def open_under_other(tx: Tx, policy: str, limit: int) -> list[AskId]:
    """Name open asks that were asked under another policy than the one in force."""
    return [AskId(one) for one in tx.execute(_UNDER_OTHER, {"in_force": policy, "most": limit}).scalars()]


def approved_of(tx: Tx, verb: str, limit: int) -> list[tuple[AskId, bytes]]:
    """Name the approved asks of a verb with their actions, the newest first."""
    return [(AskId(row.id), bytes(row.action)) for row in tx.execute(_DECIDED, {"named": verb, "most": limit})]


def page(tx: Tx, after: str, limit: int, *, only_open: bool = False, agent: str | None = None) -> Sequence[Ask]:
    """Read asks in order of id after a cursor ('' for the first page); options and candidates are left out."""
    statement, values = (_OPEN_PAGE if only_open else _PAGE), {"after": after, "most": limit}
    if agent is not None:
        statement, values = (_OPEN_AGENT_PAGE if only_open else _AGENT_PAGE), {**values, "by": agent}
    return [ask_of(row, (), ()) for row in tx.execute(statement, values)]
