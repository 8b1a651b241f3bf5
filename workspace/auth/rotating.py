"""A new secret for a session whose rights grew, so that nobody who held the old one has part in them."""

from gitops_bot.authority import sessions
from gitops_bot.authority.sessions import Person
from gitops_bot.authority.site import Site
from gitops_bot.store.engine import Tx
from gitops_bot.store.person_tables import SessionKind


def rotated(tx: Tx, site: Site, person: Person, secret: str) -> tuple[Person, str]:
    """Go on in a new session with a new secret, and end the one before; a shell's, which has no cookie, stays."""
    old = person.session
    if old.kind is SessionKind.SHELL:
        return person, secret
    made, fresh = sessions.open_session(
        tx,
        site,
        person.principal,
        old.kind,
        old.method,
        credential=old.credential,
        label=old.label,
        asserted_at=old.asserted_at,
    )
    sessions.replace(tx, old.id, made.id)
    return Person(person.principal, made), fresh
