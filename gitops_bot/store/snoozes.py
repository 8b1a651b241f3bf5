"""What a person put off until a time: their own row alone, so that another person's inbox still has the ask."""

from typing import Final

from sqlalchemy import bindparam, delete, func, select

from gitops_bot.core.principals import PrincipalName
from gitops_bot.store.engine import Tx
from gitops_bot.store.person_tables import snoozes
from gitops_bot.store.statements import upsert

_PUT: Final = upsert(snoozes, ("ask", "principal"), {"until": bindparam("new_until")})
_UNTIL: Final = select(snoozes.c.until).where(snoozes.c.ask == bindparam("of"), snoozes.c.principal == bindparam("by"))
_DROP: Final = delete(snoozes).where(snoozes.c.ask == bindparam("of"), snoozes.c.principal == bindparam("by"))
_DROP_OVER: Final = delete(snoozes).where(snoozes.c.principal == bindparam("by"), snoozes.c.until <= bindparam("at"))
_COUNT: Final = select(func.count()).where(snoozes.c.principal == bindparam("by"))


def put_off(tx: Tx, ask: str, principal: PrincipalName, until: int) -> None:
    """Put an ask off for one person until a time (ms); what they put off before and is over is removed."""
    tx.execute(_DROP_OVER, {"by": principal, "at": tx.now})
    tx.execute(_PUT[tx.dialect], {"ask": ask, "principal": principal, "until": until, "new_until": until})


def take_up(tx: Tx, ask: str, principal: PrincipalName) -> bool:
    """Show an ask again; False when this person had not put it off."""
    return tx.execute(_DROP, {"of": ask, "by": principal}).rowcount == 1


def until(tx: Tx, ask: str, principal: PrincipalName) -> int | None:
    """Read until when a person put an ask off; None when they did not, or the time is over."""
    found: int | None = tx.execute(_UNTIL, {"of": ask, "by": principal}).scalar_one_or_none()
    return found if found is not None and found > tx.now else None


def count(tx: Tx, principal: PrincipalName) -> int:
    """Count what a person put off, what is over included until they put off the next."""
    found: int = tx.execute(_COUNT, {"by": principal}).scalar_one()
    return found
