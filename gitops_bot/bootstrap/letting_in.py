"""A person on the host prints the code by which somebody enrols a passkey: the only way in, and the only way back in;
and ends the passkeys of somebody who lost them.

The code is given to whoever runs this, once; the database keeps its hash. Whether the person who then types it is the
one who is meant is for who hands it on.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from gitops_bot.authority import revoking
from gitops_bot.authority.enrolling import CODE_LASTS, issue_code
from gitops_bot.authority.rules import Rules
from gitops_bot.authority.site import Site
from gitops_bot.core.errors import Reason, Refusal, refuse
from gitops_bot.core.principals import PrincipalName
from gitops_bot.store import passkeys
from gitops_bot.store.engine import Database
from gitops_bot.store.passkeys import Passkey

ALL: Final = "all"
LEAST_NAMED: Final = 8
"""Characters of an id that name it."""


@dataclass(frozen=True, slots=True)
class LetIn:
    """A code that was made. `held`: passkeys that the person has already; `expires_at` in ms."""

    person: PrincipalName
    code: str
    address: str
    expires_at: int
    held: int


def enrol(database: Database, rules: Rules, site: Site, name: str) -> LetIn:
    """Make the code of a human of the policy, in the host's or the broker's role; the one that they had ends.

    Raises:
        Refusal: the policy knows no such person, or they are suspended.
        Unavailable: the database gave up.
    """
    with database.write() as tx:
        code = issue_code(tx, rules, name)
        held = sum(1 for one in passkeys.of(tx, name) if one.revoked_at is None)
        until = tx.now + CODE_LASTS
    return LetIn(PrincipalName(name), code, f"{site.origin}/enrol", until, held)


def held(database: Database, name: str) -> list[Passkey]:
    """List every passkey that somebody ever had, oldest first.

    Raises:
        Unavailable: the database gave up.
    """
    with database.read() as tx:
        return passkeys.of(tx, name)


def revoke(database: Database, name: str, which: Sequence[str]) -> list[Passkey]:
    """End some passkeys of somebody, by the beginning of their ids, or `all` of them, with the sessions that they
    opened; give those that ended. Whether the policy still knows the person is *not* asked: this only takes away.

    Raises:
        Refusal: they have no such passkey; nothing is revoked then.
        Unavailable: the database gave up.
    """
    with database.write() as tx:
        known = {one.id: one for one in passkeys.of(tx, name)}
        wanted = list(known) if ALL in which else [_named(known, one) for one in which]
        return [known[one] for one in wanted if revoking.revoke(tx, known[one], "host")]


def _named(known: Collection[str], begin: str) -> str:
    """Find the one id that begins so: listings cut long ones."""
    found = [one for one in known if one.startswith(begin)] if len(begin) >= LEAST_NAMED else []
    if len(found) != 1:
        raise Refusal(refuse(Reason.NOT_FOUND, "They have no passkey of this id, or more than one that begins so."))
    return found[0]
