"""Whom a session's secret stands for now, and the end of sessions.

A secret stands for its person while all of this holds, looked at each time: the session was not ended, is within its
absolute and its idle limit by a clock that did not go back, the passkey or OIDC identity that opened it was not revoked
and still counts under the policy in force, and that policy knows the person, as a human who is not suspended.
"""

import secrets
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from gitops_bot.authority.rules import Rules
from gitops_bot.authority.site import Site
from gitops_bot.authority.suspension import standing_policy
from gitops_bot.core.ledger import Entry, EventKind
from gitops_bot.core.principals import Identity, IdentityKind, Principal, PrincipalKind, PrincipalName
from gitops_bot.policy.model import Policy
from gitops_bot.store import ledger
from gitops_bot.store import sessions as rows
from gitops_bot.store.engine import Tx
from gitops_bot.store.person_tables import SessionKind, SessionMethod
from gitops_bot.store.sessions import Session

SHELL_PREFIX: Final = "gbs_"
"""Of a shell's credential; a public prefix, so that secret scanners can find a leaked one."""
TOUCHED_EVERY: Final = 60_000
"""How exactly the idle limit is kept, in ms: a session is written down as seen at most this often."""
CLOCK_BACK: Final = 5 * 60_000
"""How far the clock may have gone back, in ms: a session from later than that was unused for nobody knows how long."""
MOST_SESSIONS: Final = 50
"""Of one person at a time; the oldest ends when another one opens."""
_MOST_SECRET: Final = 128


@dataclass(frozen=True, slots=True)
class Person:
    """A person who is signed in now, through one session."""

    principal: Principal
    session: Session


def human(policy: Policy, name: str | None) -> Principal | None:
    """Find a person who may be signed in: known to a policy from `standing_policy`, human, not suspended."""
    found = None if name is None else policy.people.get(PrincipalName(name))
    if found is None or found.principal.kind is not PrincipalKind.HUMAN or found.principal.suspended:
        return None
    return found.principal


def counts(principal: Principal, passkey: str) -> bool:
    """Tell whether the policy lets a passkey stand for its person: where it names theirs, only those do."""
    named = [one.value for one in principal.identities if one.kind is IdentityKind.PASSKEY]
    return not named or passkey in named


def authenticate(tx: Tx, rules: Rules, site: Site, secret: str, *, touch: bool = True) -> Person | None:
    """Find whom a secret stands for now: a cookie's, or a shell's with its prefix; None when it stands for nobody.

    That it was used is written down at most once a minute, in a write transaction; `touch=False` in a read one.
    """
    if not 0 < len(secret) <= _MOST_SECRET:
        return None
    session = rows.by_secret(tx, secret)
    if session is None or (session.kind is SessionKind.SHELL) != secret.startswith(SHELL_PREFIX):
        return None
    principal = _stands(tx, standing_policy(tx, rules.policy), site, session)
    if principal is None:
        return None
    if touch and tx.now - session.seen_at >= TOUCHED_EVERY:
        rows.seen(tx, session.id)
    return Person(principal, session)


def still(tx: Tx, rules: Rules, site: Site, sessions: Collection[str]) -> dict[str, Principal]:
    """Tell which of some sessions, by id, still stand, and for whom; for what stays open without a new secret."""
    policy = standing_policy(tx, rules.policy)
    found = ((one.id, _stands(tx, policy, site, one)) for one in rows.by_ids(tx, sessions))
    return {session: principal for session, principal in found if principal is not None}


def _stands(tx: Tx, policy: Policy, site: Site, session: Session) -> Principal | None:
    if session.revoked_at is not None or session.passkey_revoked:
        return None
    if tx.now >= min(session.expires_at, session.created_at + site.lasts, session.seen_at + site.idle):
        return None
    if max(session.created_at, session.seen_at) > tx.now + CLOCK_BACK:
        return None
    principal = human(policy, session.principal)
    if principal is None or session.credential is None:
        return None
    if session.method is SessionMethod.OIDC:
        return principal if Identity(IdentityKind.OIDC, session.credential) in principal.identities else None
    return principal if counts(principal, session.credential) else None


def open_session(
    tx: Tx,
    site: Site,
    principal: Principal,
    kind: SessionKind,
    method: SessionMethod,
    *,
    credential: str | None,
    label: str = "",
    asserted_at: int | None = None,
    until: int | None = None,
) -> tuple[Session, str]:
    """Open a session for somebody who proved who they are; give it with its secret, which is shown nowhere again. It
    ends at `until` (ms), where that is before the site's absolute limit."""
    secret = (SHELL_PREFIX if kind is SessionKind.SHELL else "") + secrets.token_urlsafe(32)
    for oldest in rows.of(tx, principal.name)[MOST_SESSIONS - 1 :]:
        _end(tx, oldest, principal.name, "too many at once")
    made = rows.add(
        tx,
        secret,
        principal.name,
        kind,
        method,
        credential=credential,
        label=label,
        lasts=site.lasts if until is None else min(site.lasts, until - tx.now),
        asserted_at=asserted_at,
    )
    facts = {"session": made.id, "kind": kind.value, "method": method.value, "passkey": credential}
    ledger.append(tx, Entry(EventKind.SESSION_OPENED, tx.now, principal=principal.name, facts=facts))
    return made, secret


def rotate(tx: Tx, site: Site, person: Person) -> tuple[Person, str]:
    """Let a session go on under a new secret, to the same absolute limit, and end the one before."""
    old = person.session
    made, secret = open_session(
        tx,
        site,
        person.principal,
        old.kind,
        old.method,
        credential=old.credential,
        label=old.label,
        asserted_at=old.asserted_at,
        until=old.expires_at,
    )
    replace(tx, old.id, made.id)
    return Person(person.principal, made), secret


def of_person(tx: Tx, principal: PrincipalName) -> list[Session]:
    """List somebody's sessions that were not ended, newest first."""
    return rows.of(tx, principal)


def end(tx: Tx, session: str, by: PrincipalName) -> bool:
    """End a session of somebody's own by its id; False when it is another's, unknown or over."""
    found = next((one for one in rows.by_ids(tx, [session]) if one.principal == by), None)
    return found is not None and _end(tx, found, by, "ended by its person")


def end_all(tx: Tx, principal: PrincipalName, by: str, but: str | None = None) -> int:
    """End every session of somebody, but one where it is named; give how many ended."""
    return sum(_end(tx, one, by, "all ended") for one in rows.of(tx, principal) if one.id != but)


def end_opened_by(tx: Tx, principal: PrincipalName, passkey: str, by: str) -> int:
    """End every session of somebody that a passkey opened; give how many ended."""
    return sum(_end(tx, one, by, "its passkey ended") for one in rows.of(tx, principal) if one.credential == passkey)


def replace(tx: Tx, session: str, by: str) -> bool:
    """End the session that a browser had when it opened another one, whoever's it was; `by` is the new one's id."""
    found = next(iter(rows.by_ids(tx, [session])), None)
    return found is not None and _end(tx, found, by, "replaced by another sign-in")


def _end(tx: Tx, session: Session, by: str, why: str) -> bool:
    if not rows.end(tx, session.id):
        return False
    facts = {"session": session.id, "by": by, "why": why}
    ledger.append(tx, Entry(EventKind.SESSION_ENDED, tx.now, principal=session.principal, facts=facts))
    return True
