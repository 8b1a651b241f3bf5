"""A person proves with a passkey who they are: to sign in, or again for one act that is named in what they sign.

Neither stands for an answer: those are `authority.assertions`. A session by OIDC is opened here too, for a subject that
the policy names; it answers no bound ask.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from gitops_bot.authority import challenges, sessions
from gitops_bot.authority.challenges import Challenge, Proven
from gitops_bot.authority.rules import Rules
from gitops_bot.authority.sessions import Person
from gitops_bot.authority.site import Site
from gitops_bot.authority.suspension import standing_policy
from gitops_bot.core.canonical import Value, canonical, digest
from gitops_bot.core.errors import Reason, Refused, refuse
from gitops_bot.core.principals import Identity, IdentityKind
from gitops_bot.core.texts import storable
from gitops_bot.policy.lookup import principal_of
from gitops_bot.store import ceremonies
from gitops_bot.store import sessions as rows
from gitops_bot.store.engine import Tx
from gitops_bot.store.person_tables import Ceremony, SessionKind, SessionMethod

FRESH: Final = "gitops-bot/fresh/v1"
MOST_LABEL: Final = 60
_MOST_ACT: Final = 4096

Act = Mapping[str, Value]
"""What a fresh assertion confirms: `{"act": NAME, …}` with everything that the act is about, small."""


@dataclass(frozen=True, slots=True)
class SignedIn:
    """A new session. `secret` is for its cookie alone and is shown nowhere again."""

    person: Person
    secret: str


@dataclass(frozen=True, slots=True)
class Confirmed:
    """A person confirmed one act just now, with a passkey of theirs; it stands for that act and for nothing else."""

    person: Person
    act: Act
    passkey: str
    at: int

    def is_for(self, person: Person, act: Act) -> bool:
        """Tell whether this confirms an act of this person."""
        return self.person.principal.name == person.principal.name and canonical(self.act) == canonical(act)


def label_of(text: str) -> str:
    """Make a label of what somebody called a thing: one short line."""
    return " ".join("".join(one if one.isprintable() else " " for one in storable(text[:400])).split())[:MOST_LABEL]


def begin_sign_in(tx: Tx, site: Site) -> Challenge:
    """Challenge whoever wants to sign in; nobody is named before they proved who they are."""
    challenge = challenges.random_challenge()
    nonce = challenges.begin(tx, Ceremony.SIGN_IN, challenge, {})
    return Challenge(nonce, challenges.request_options(site, challenge))


def finish_sign_in(
    tx: Tx,
    rules: Rules,
    site: Site,
    ceremony: str,
    credential: Mapping[str, Any],
    *,
    label: str = "",
    replacing: str | None = None,
) -> SignedIn | Refused:
    """Sign in whoever signed the challenge with a passkey that stands for them. The session's secret is always a new
    one; the session that the browser had, by id, ends where it is named."""
    begun = challenges.take(tx, ceremony, Ceremony.SIGN_IN)
    if isinstance(begun, Refused):
        return begun
    proven = challenges.prove(tx, standing_policy(tx, rules.policy), site, begun, credential)
    if isinstance(proven, Refused):
        return proven
    return sign_in(tx, site, proven, label=label, replacing=replacing)


def sign_in(tx: Tx, site: Site, proven: Proven, *, label: str, replacing: str | None) -> SignedIn:
    """Open a session for a proven person."""
    session, secret = sessions.open_session(
        tx,
        site,
        proven.principal,
        SessionKind.BROWSER,
        SessionMethod.PASSKEY,
        credential=proven.passkey.id,
        label=label_of(label),
        asserted_at=tx.now,
    )
    if replacing is not None:
        sessions.replace(tx, replacing, session.id)
    return SignedIn(Person(proven.principal, session), secret)


def begin_fresh(tx: Tx, rules: Rules, site: Site, person: Person, act: Act) -> Challenge | Refused:
    """Challenge a person to confirm one act.

    Raises:
        Malformed: the act is no canonical value.
    """
    wanted = canonical(act)
    if len(wanted) > _MOST_ACT:
        return refuse(Reason.LIMIT_EXCEEDED, f"An act has at most {_MOST_ACT} bytes.")
    principal = sessions.human(standing_policy(tx, rules.policy), person.principal.name)
    allowed = [] if principal is None else challenges.usable(tx, principal)
    if not allowed:
        return refuse(Reason.ASSERTION_REQUIRED, "No passkey of yours counts; ask for a code on the host.")
    nonce = ceremonies.new_nonce()
    challenge = _fresh_challenge(site, person, act, nonce)
    challenges.begin(tx, Ceremony.FRESH, challenge, {"act": act}, person=person, nonce=nonce)
    return Challenge(nonce, challenges.request_options(site, challenge, allowed))


def _fresh_challenge(site: Site, person: Person, act: Act, nonce: str) -> bytes:
    said = {"origin": site.origin, "workspace": site.name, "person": person.principal.name, "act": act, "nonce": nonce}
    return bytes.fromhex(digest(FRESH, canonical(said)).removeprefix("sha256:"))


def finish_fresh(
    tx: Tx, rules: Rules, site: Site, person: Person, ceremony: str, credential: Mapping[str, Any], act: Act
) -> Confirmed | Refused:
    """Take the confirmation of one act, once; the act must be the one that was challenged.

    Raises:
        Malformed: the act is no canonical value.
    """
    begun = challenges.take(tx, ceremony, Ceremony.FRESH, person)
    if isinstance(begun, Refused):
        return begun
    who = person.principal.name
    if canonical(begun.body["act"]) != canonical(act):
        return challenges.failed(tx, Ceremony.FRESH, "another act", who)
    proven = challenges.prove(tx, standing_policy(tx, rules.policy), site, begun, credential, whose=who)
    if isinstance(proven, Refused):
        return proven
    rows.asserted(tx, person.session.id)
    return Confirmed(person, dict(act), proven.passkey.id, tx.now)


def finish_oidc(
    tx: Tx, rules: Rules, site: Site, issuer: str, subject: str, *, label: str = "", replacing: str | None = None
) -> SignedIn | Refused:
    """Sign in the person whose identity is exactly this issuer and subject. That the provider said so is *not* checked
    here: the caller verified its token."""
    policy = standing_policy(tx, rules.policy)
    identity = Identity(IdentityKind.OIDC, f"{issuer} {subject}")
    found = principal_of(policy, identity)
    principal = None if found is None else sessions.human(policy, found.name)
    if principal is None:
        return challenges.failed(tx, Ceremony.OIDC, "nobody whom the policy lets in", None if not found else found.name)
    session, secret = sessions.open_session(
        tx, site, principal, SessionKind.BROWSER, SessionMethod.OIDC, credential=identity.value, label=label_of(label)
    )
    if replacing is not None:
        sessions.replace(tx, replacing, session.id)
    return SignedIn(Person(principal, session), secret)
