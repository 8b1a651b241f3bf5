"""A person on the host prints the code by which somebody enrols a passkey: the only way in, and the only way back in.

The code is given to whoever runs this, once; the database keeps its hash. Whether the person who then types it is the
one who is meant is for who hands it on.
"""

from dataclasses import dataclass

from gitops_bot.authority.enrolling import CODE_LASTS, issue_code
from gitops_bot.authority.rules import Rules
from gitops_bot.authority.site import Site
from gitops_bot.core.principals import PrincipalName
from gitops_bot.store import passkeys
from gitops_bot.store.engine import Database


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
