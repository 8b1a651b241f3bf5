"""The bytes of every policy bundle that was pinned, proposed or adopted, and which of them is in force."""

from dataclasses import dataclass
from typing import Final

from sqlalchemy import bindparam, select

from gitops_bot.store.engine import Tx
from gitops_bot.store.statements import insert_or_ignore, upsert
from gitops_bot.store.tables import policy_bundles, policy_in_force

_KEEP: Final = insert_or_ignore(policy_bundles, ("digest",))
_GET: Final = select(policy_bundles).where(policy_bundles.c.digest == bindparam("of"))
_DIGESTS: Final = select(policy_bundles.c.digest).order_by(policy_bundles.c.version, policy_bundles.c.digest)
_IN_FORCE: Final = select(policy_in_force).where(policy_in_force.c.id == 1)
_MOVE: Final = upsert(
    policy_in_force,
    ("id",),
    {"digest": bindparam("new_digest"), "ask": bindparam("new_ask"), "adopted_at": bindparam("new_adopted_at")},
)


@dataclass(frozen=True, slots=True)
class Bundle:
    """A stored bundle; `content` packs its files so that their digest can be taken again (`policy.bundles`)."""

    digest: str
    version: int
    content: bytes


def keep(tx: Tx, bundle: Bundle) -> None:
    """Keep a bundle's bytes under their digest; that they have it is *not* checked here."""
    row = {"digest": bundle.digest, "version": bundle.version, "files": bundle.content, "stored_at": tx.now}
    tx.execute(_KEEP[tx.dialect], row)


def get(tx: Tx, digest: str) -> Bundle | None:
    """Read a bundle."""
    row = tx.execute(_GET, {"of": digest}).one_or_none()
    return None if row is None else Bundle(row.digest, row.version, bytes(row.files))


def digests(tx: Tx) -> list[str]:
    """Name every stored bundle, by version."""
    return list(tx.execute(_DIGESTS).scalars())


def in_force(tx: Tx) -> tuple[str, str | None] | None:
    """Read which bundle is in force, and the ask that adopted it (None: pinned on the host)."""
    row = tx.execute(_IN_FORCE).one_or_none()
    return None if row is None else (row.digest, row.ask)


def put_in_force(tx: Tx, digest: str, ask: str | None) -> None:
    """Move the pointer to a stored bundle."""
    row = {"id": 1, "digest": digest, "ask": ask, "adopted_at": tx.now}
    tx.execute(_MOVE[tx.dialect], {**row, "new_digest": digest, "new_ask": ask, "new_adopted_at": tx.now})
