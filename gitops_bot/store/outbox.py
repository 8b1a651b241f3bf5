"""Effects that leave after commit: rows with a key, in lanes; a pending edit is overwritten by its replace key.

The due row of a lane (duty `outbox`) is claimed as a whole, so a lane has one deliverer and keeps its order.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import and_, bindparam, literal_column, select, text, update

from gitops_bot.core.canonical import canonical
from gitops_bot.core.texts import storable
from gitops_bot.store import due
from gitops_bot.store.engine import Tx
from gitops_bot.store.statements import insert_or_ignore
from gitops_bot.store.states import EffectState
from gitops_bot.store.work_tables import effects

DUTY: Final = "outbox"
NOTICES: Final = "notices.out"
"""The duty of lanes of notices: a slow receiver of theirs holds up nothing else."""

# Any unique key: another transaction may have put an effect with the same replace key there since we looked.
_INSERT: Final = insert_or_ignore(effects, None)
_KEY: Final = select(effects.c.id).where(effects.c.key == bindparam("named"))
_REPLACE: Final = (
    update(effects)
    .where(
        effects.c.lane == bindparam("in_"),
        effects.c.replace_key == bindparam("named"),
        effects.c.state == literal_column(f"'{EffectState.PENDING.value}'"),
    )
    .values(payload=bindparam("new"), created_at=bindparam("at"))
)
# As text, so that SQLite sees that the partial index of open effects holds them all.
_OPEN: Final = text("effects.state IN ('pending', 'attempting')")
# Locked: its payload may be overwritten until its attempt is written down.
_NEXT: Final = (
    select(effects).where(effects.c.lane == bindparam("in_"), _OPEN).order_by(effects.c.id).limit(1).with_for_update()
)
_GET: Final = select(effects).where(effects.c.key == bindparam("named"))
_ATTEMPT: Final = (
    update(effects)
    .where(effects.c.id == bindparam("of"), _OPEN)
    .values(state=EffectState.ATTEMPTING.value, attempts=effects.c.attempts + 1, attempted_at=bindparam("at"))
)
_END: Final = (
    update(effects)
    .where(and_(effects.c.id == bindparam("of"), _OPEN))
    .values(state=bindparam("to"), ended_at=bindparam("at"), result=bindparam("gave"), last_error=bindparam("error"))
)
_POSTPONE: Final = (
    update(effects)
    .where(effects.c.id == bindparam("of"), _OPEN)
    .values(attempts=effects.c.attempts - 1, last_error=bindparam("error"))
)
_KINDS: Final = select(effects.c.kind).where(effects.c.lane == bindparam("in_"), _OPEN)
_NOTE: Final = update(effects).where(effects.c.id == bindparam("of")).values(last_error=bindparam("error"))


@dataclass(frozen=True, slots=True)
class Effect:
    """Something to do outside. `key` is the idempotency key; `reply` names the waiter that hears the result."""

    key: str
    lane: str
    kind: str
    payload: Mapping[str, Any]
    replace_key: str | None = None
    reply: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class StoredEffect:
    """An effect as stored; `attempted_before` says that an earlier attempt may have reached the outside."""

    id: int
    key: str
    lane: str
    kind: str
    payload: Mapping[str, Any]
    reply: tuple[str, str] | None
    state: EffectState
    attempts: int
    result: Mapping[str, Any] | None
    last_error: str | None

    @property
    def attempted_before(self) -> bool:
        """Whether somebody began to deliver it and nobody wrote down how that went."""
        return self.state is EffectState.ATTEMPTING


def _effect(row: Any) -> StoredEffect:
    return StoredEffect(
        row.id,
        row.key,
        row.lane,
        row.kind,
        json.loads(row.payload),
        (row.reply_kind, row.reply_id) if row.reply_kind else None,
        EffectState(row.state),
        row.attempts,
        json.loads(row.result) if row.result else None,
        row.last_error,
    )


def enqueue(tx: Tx, effect: Effect, duty: str = DUTY) -> None:
    """Put an effect into its lane; a known key changes nothing, a pending one with its replace key is overwritten."""
    payload = canonical(dict(effect.payload)).decode("utf-8")
    # A second round only where another transaction's pending effect or attempt got between the two statements.
    while not (_replace(tx, effect, payload) or _insert(tx, effect, payload)):
        continue
    due.ensure(tx, duty, effect.lane)


def _replace(tx: Tx, effect: Effect, payload: str) -> bool:
    if effect.replace_key is None:
        return False
    values = {"in_": effect.lane, "named": effect.replace_key, "new": payload, "at": tx.now}
    return tx.execute(_REPLACE, values).rowcount == 1


def _insert(tx: Tx, effect: Effect, payload: str) -> bool:
    """Write an effect. False: something with its replace key, and not its key, was in the way."""
    kind, waiter = effect.reply or (None, None)
    row = {
        "key": effect.key,
        "lane": effect.lane,
        "replace_key": effect.replace_key,
        "kind": effect.kind,
        "payload": payload,
        "reply_kind": kind,
        "reply_id": waiter,
        "state": EffectState.PENDING.value,
        "created_at": tx.now,
    }
    if tx.execute(_INSERT[tx.dialect], row).rowcount == 1 or effect.replace_key is None:
        return True
    return tx.execute(_KEY, {"named": effect.key}).one_or_none() is not None


def next_in_lane(tx: Tx, lane: str) -> StoredEffect | None:
    """Read the oldest effect of a lane that is not done."""
    row = tx.execute(_NEXT, {"in_": lane}).one_or_none()
    return None if row is None else _effect(row)


def get(tx: Tx, key: str) -> StoredEffect | None:
    """Read an effect by its key."""
    row = tx.execute(_GET, {"named": key}).one_or_none()
    return None if row is None else _effect(row)


def attempt(tx: Tx, effect: StoredEffect) -> bool:
    """Write down that an attempt begins; commit before acting. False when it is done already."""
    return tx.execute(_ATTEMPT, {"of": effect.id, "at": tx.now}).rowcount == 1


def end(tx: Tx, effect: StoredEffect, state: EffectState, result: Mapping[str, Any], error: str | None = None) -> bool:
    """Write down how an effect ended. False when it had ended."""
    gave = canonical(dict(result)).decode("utf-8")
    values = {"of": effect.id, "to": state.value, "at": tx.now, "gave": gave, "error": error}
    return tx.execute(_END, values).rowcount == 1


def note(tx: Tx, effect: StoredEffect, error: str) -> None:
    """Keep the last error of an effect that is tried again."""
    tx.execute(_NOTE, {"of": effect.id, "error": error[:500]})


def postpone(tx: Tx, effect: StoredEffect, error: str) -> None:
    """Take an attempt back that the outside turned away unread; the next one looks all the same before it acts."""
    tx.execute(_POSTPONE, {"of": effect.id, "error": storable(error)[:500]})


def kinds_in_lane(tx: Tx, lane: str) -> set[str]:
    """Read which kinds of effects wait in a lane."""
    return {row.kind for row in tx.execute(_KINDS, {"in_": lane})}
