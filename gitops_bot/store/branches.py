"""People's branches as they were read: the stored tip, its root, and why a branch is frozen or cannot be read.

The tip is where reading goes on; it moves in the transaction that receives the commits up to it (I18).
"""

from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import bindparam, select

from gitops_bot.core.principals import PrincipalName
from gitops_bot.store.engine import Tx
from gitops_bot.store.signed_tables import signed_branches
from gitops_bot.store.statements import upsert
from gitops_bot.store.states import BranchState

_ALL: Final = select(signed_branches).order_by(signed_branches.c.person)
_GET: Final = select(signed_branches).where(signed_branches.c.person == bindparam("of"))
_LOCK: Final = _GET.with_for_update()
_SET: Final = upsert(
    signed_branches,
    ("person",),
    {name: bindparam(f"new_{name}") for name in ("state", "tip", "root", "seen", "reason", "detail", "changed_at")}
    | {"looked_at": bindparam("new_looked_at")},
)
_THAW: Final = (
    signed_branches.update()
    .where(signed_branches.c.person == bindparam("of"))
    .values(
        state=BranchState.READ.value,
        tip=bindparam("to"),
        root=bindparam("from_root"),
        reason=None,
        detail=None,
        changed_at=bindparam("at"),
    )
)


@dataclass(frozen=True, slots=True)
class Branch:
    """A person's branch. `tip` is None until a valid root was seen; `seen` is the newest tip that was looked at;
    `changed_at` when the state last changed, in ms."""

    person: PrincipalName
    state: BranchState
    tip: str | None
    root: str | None
    seen: str | None
    reason: str | None
    detail: str | None
    looked_at: int
    changed_at: int


def _branch(row: Any) -> Branch:
    return Branch(
        PrincipalName(row.person),
        BranchState(row.state),
        row.tip,
        row.root,
        row.seen,
        row.reason,
        row.detail,
        row.looked_at,
        row.changed_at,
    )


def every(tx: Tx) -> list[Branch]:
    """Read all branches that were ever seen."""
    return [_branch(row) for row in tx.execute(_ALL)]


def get(tx: Tx, person: str, *, lock: bool = False) -> Branch | None:
    """Read one person's branch."""
    row = tx.execute(_LOCK if lock else _GET, {"of": person}).one_or_none()
    return None if row is None else _branch(row)


def put(tx: Tx, branch: Branch) -> None:
    """Write a branch as it is now."""
    values = {
        "state": branch.state.value,
        "tip": branch.tip,
        "root": branch.root,
        "seen": branch.seen,
        "reason": branch.reason,
        "detail": branch.detail,
        "looked_at": branch.looked_at,
        "changed_at": branch.changed_at,
    }
    row = {"person": branch.person, **values, **{f"new_{name}": value for name, value in values.items()}}
    tx.execute(_SET[tx.dialect], row)


def thaw(tx: Tx, person: str, to: str, root: str | None) -> bool:
    """Let reading go on from a tip that a person on the host chose. False: there is no such branch."""
    return tx.execute(_THAW, {"of": person, "to": to, "from_root": root, "at": tx.now}).rowcount == 1
