"""A shell gets a credential of a person, who confirmed it at the workspace with a passkey; the shell never sees one.

The shell keeps a secret and shows a code. The person types the code, or opens its page, compares it with what their
shell shows, and confirms. The credential is given once to whoever has the secret.
"""

import secrets
from dataclasses import dataclass
from typing import Final

from gitops_bot.authority import challenges, sessions
from gitops_bot.authority.enrolling import new_code, plain_code
from gitops_bot.authority.rules import Rules
from gitops_bot.authority.sessions import Person, counts, human
from gitops_bot.authority.signing_in import Act, Confirmed, SignedIn, label_of
from gitops_bot.authority.site import Site
from gitops_bot.authority.suspension import standing_policy
from gitops_bot.core.errors import Fact, Reason, Refused, refuse
from gitops_bot.core.ledger import Entry, EventKind
from gitops_bot.store import ledger, logins, notices, passkeys
from gitops_bot.store.engine import Tx
from gitops_bot.store.logins import Login
from gitops_bot.store.person_tables import SessionKind, SessionMethod

LASTS: Final = 10 * 60_000
"""How long a shell waits, in ms."""
SHELL_ACT: Final = "shell.confirm"
_GROUPS, _GROUP = 2, 4
_MOST_SECRET: Final = 128
_OVER: Final = "This login is not known, was answered, or is over; run `gitops-bot login` again."


@dataclass(frozen=True, slots=True)
class Shell:
    """A shell that waits. `secret` stays in it, `code` is shown; `expires_at` in ms."""

    secret: str
    code: str
    expires_at: int


def confirming_shell(code: str) -> Act:
    """Name the act of giving a shell one's credential."""
    return {"act": SHELL_ACT, "code": plain_code(code)}


def begin_shell(tx: Tx, label: str) -> Shell:
    """Let a shell wait for its person; `label` is what it says of itself, and nobody checked it."""
    while True:
        # 38 bits for minutes, and no secret: whoever types it confirms what they see beside it.
        shell = Shell(secrets.token_urlsafe(32), new_code(_GROUPS, _GROUP), tx.now + LASTS)
        if logins.add(tx, shell.secret, plain_code(shell.code), label_of(label), LASTS):
            return shell


def shown(tx: Tx, code: str) -> Login | None:
    """Find the shell that waits under a code, for its person to look at; None when none does."""
    found = logins.by_code(tx, plain_code(code))
    return found if found is not None and found.confirmed_at is None and found.expires_at > tx.now else None


def confirm_shell(tx: Tx, person: Person, code: str, confirmed: Confirmed) -> Login | Refused:
    """Give the shell that waits under a code the credential of a person who confirmed exactly this, however they typed
    the code."""
    if not any(confirmed.is_for(person, one) for one in (confirming_shell(code), {"act": SHELL_ACT, "code": code})):
        return refuse(Reason.ASSERTION_REQUIRED, "Confirm it with a passkey that you have.")
    who = person.principal.name
    found = shown(tx, code)
    if found is None or not logins.confirm(tx, found.code, who, confirmed.passkey):
        return refuse(Reason.NOT_FOUND, _OVER)
    facts: dict[str, Fact] = {"label": found.label, "passkey": confirmed.passkey}
    ledger.append(tx, Entry(EventKind.SHELL_CONFIRMED, tx.now, principal=who, channel="workspace", facts=facts))
    notices.tell(tx, [who], EventKind.SHELL_CONFIRMED.value, f"A shell was signed in as you: {found.label}.")
    return found


def take_shell(tx: Tx, rules: Rules, site: Site, secret: str) -> SignedIn | Refused | None:
    """Give a shell its session and credential, once; None while nobody confirmed it. Its person and passkey are looked
    at again."""
    found = logins.by_secret(tx, secret) if 0 < len(secret) <= _MOST_SECRET else None
    if found is None or found.taken_at is not None or found.expires_at <= tx.now:
        return refuse(Reason.NOT_FOUND, _OVER)
    if found.confirmed_at is None or found.credential is None:
        return None
    principal = human(standing_policy(tx, rules.policy), found.principal)
    passkey = passkeys.get(tx, found.credential)
    if principal is None or passkey is None or passkey.revoked_at is not None or not counts(principal, passkey.id):
        return refuse(Reason.NOT_AUTHORISED, challenges.GENERIC)
    if not logins.take(tx, secret):
        return refuse(Reason.NOT_FOUND, _OVER)
    session, token = sessions.open_session(
        tx,
        site,
        principal,
        SessionKind.SHELL,
        SessionMethod.PASSKEY,
        credential=passkey.id,
        label=found.label,
        asserted_at=found.confirmed_at,
    )
    return SignedIn(Person(principal, session), token)
