"""The stored bytes of each request to sign: written once by the broker, rendered from ever after."""

from typing import Final

from sqlalchemy import bindparam, insert, select

from gitops_bot.core.asks import AskKind, AskState
from gitops_bot.store.engine import Tx
from gitops_bot.store.signed_tables import signed_requests
from gitops_bot.store.tables import asks

_STORE: Final = insert(signed_requests)
_GET: Final = select(signed_requests.c.content).where(signed_requests.c.ask == bindparam("of"))
_MISSING: Final = (
    select(asks.c.id)
    .outerjoin(signed_requests, signed_requests.c.ask == asks.c.id)
    .where(
        asks.c.kind == AskKind.GATED.value,
        asks.c.state == AskState.OPEN.value,
        asks.c.policy == bindparam("under"),
        signed_requests.c.ask.is_(None),
    )
    .order_by(asks.c.id)
    .limit(bindparam("most"))
)


def store(tx: Tx, ask: str, content: bytes) -> None:
    """Store a request; there is one for each gated ask."""
    tx.execute(_STORE, {"ask": ask, "content": content, "stored_at": tx.now})


def get(tx: Tx, ask: str) -> bytes | None:
    """Read a request's bytes."""
    found = tx.execute(_GET, {"of": ask}).scalar_one_or_none()
    return None if found is None else bytes(found)


def missing(tx: Tx, policy: str, limit: int) -> list[str]:
    """Name open gated asks under a policy that have no request yet."""
    return list(tx.execute(_MISSING, {"under": policy, "most": limit}).scalars())
