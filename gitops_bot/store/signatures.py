"""What engines found and what keys showed: results by commit and key set, remembered revocations, counters."""

import json
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import bindparam, select

from gitops_bot.core.canonical import canonical
from gitops_bot.store.engine import Tx
from gitops_bot.store.signed_tables import key_counters, key_revocations, signature_results
from gitops_bot.store.statements import insert_or_ignore, upsert

_RESULT: Final = select(signature_results.c.result).where(
    signature_results.c.commit_id == bindparam("of"), signature_results.c.key_set == bindparam("under")
)
_KEEP: Final = insert_or_ignore(signature_results, ("commit_id", "key_set"))
_REVOKE: Final = insert_or_ignore(key_revocations, ("key",))
_REVOKED: Final = select(key_revocations).order_by(key_revocations.c.key)
_COUNTER: Final = select(key_counters.c.counter).where(key_counters.c.key == bindparam("of"))
_COUNT: Final = upsert(key_counters, ("key",), {"counter": bindparam("to"), "seen_at": bindparam("new_seen_at")})


@dataclass(frozen=True, slots=True)
class KeyRevocation:
    """A revocation that was seen once: hard (the key counts never more, nor did it) or soft (from `at` on, ms)."""

    key: str
    hard: bool
    at: int | None


def result(tx: Tx, commit_id: str, key_set: str) -> dict[str, Any] | None:
    """Read what the engines found of a commit under a set of keys; None when it was not asked yet."""
    found = tx.execute(_RESULT, {"of": commit_id, "under": key_set}).scalar_one_or_none()
    if found is None:
        return None
    document: dict[str, Any] = json.loads(found)
    return document


def keep_result(tx: Tx, commit_id: str, key_set: str, document: dict[str, Any]) -> None:
    """Keep what the engines found; the first stands."""
    content = canonical(document).decode("utf-8")
    row = {"commit_id": commit_id, "key_set": key_set, "result": content, "stored_at": tx.now}
    tx.execute(_KEEP[tx.dialect], row)


def remember_revocation(tx: Tx, key: str, *, hard: bool, at: int | None) -> bool:
    """Remember a revocation for ever; the first that was seen stands. True when it is new."""
    row = {"key": key, "kind": "hard" if hard else "soft", "at": at, "seen_at": tx.now}
    return tx.execute(_REVOKE[tx.dialect], row).rowcount == 1


def revocations(tx: Tx) -> tuple[KeyRevocation, ...]:
    """Read every remembered revocation."""
    return tuple(KeyRevocation(row.key, row.kind == "hard", row.at) for row in tx.execute(_REVOKED))


def counter(tx: Tx, key: str) -> int | None:
    """Read the highest counter that a security key showed; None for one that showed none yet."""
    found: int | None = tx.execute(_COUNTER, {"of": key}).scalar_one_or_none()
    return found


def set_counter(tx: Tx, key: str, value: int) -> None:
    """Keep a security key's counter; that it did not fall is the caller's to check in the same transaction."""
    row = {"key": key, "counter": value, "seen_at": tx.now, "to": value, "new_seen_at": tx.now}
    tx.execute(_COUNT[tx.dialect], row)
