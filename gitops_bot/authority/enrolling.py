"""A person enrols a passkey: the first by a code that only the broker's user can make, another after a fresh assertion.

Everybody is told. A new passkey rests: for a while it answers nothing that is bound, so that whoever should not have
enrolled it is seen first. There is no other recovery than another code.
"""

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from gitops_bot.authority import challenges, sessions
from gitops_bot.authority.authenticators import NewKey, Unfit, decode, verify_creation
from gitops_bot.authority.challenges import Challenge, usable, user_handle
from gitops_bot.authority.revoking import revoke
from gitops_bot.authority.rules import Rules
from gitops_bot.authority.sessions import Person, human
from gitops_bot.authority.signing_in import Act, Confirmed, SignedIn, label_of
from gitops_bot.authority.site import Site
from gitops_bot.authority.suspension import standing_policy
from gitops_bot.core.canonical import digest
from gitops_bot.core.errors import Fact, Reason, Refusal, Refused, refuse
from gitops_bot.core.ledger import Entry, EventKind
from gitops_bot.core.principals import Identity, IdentityKind, Principal, PrincipalKind, PrincipalName
from gitops_bot.policy.lookup import principal_of
from gitops_bot.policy.model import Policy
from gitops_bot.store import enrolments, ledger, notices, passkeys
from gitops_bot.store.ceremonies import Begun
from gitops_bot.store.engine import Tx
from gitops_bot.store.passkeys import Passkey
from gitops_bot.store.person_tables import Ceremony, SessionKind, SessionMethod

ALPHABET: Final = "23456789BCDFGHJKMNPQRSTVWXYZ"
"""Without vowels and without what is read for another character: no word comes of it."""
GROUPS: Final = 3
GROUP: Final = 5
"""15 of 28 characters: 72 bits."""
CODE_LASTS: Final = 10 * 60_000
MOST_MISSES: Final = 100
"""Wrong codes that may be tried while one stands; after them it is as if it were over."""
MOST_PASSKEYS: Final = 20
"""Of one person, revoked ones included."""
KEY_TAG: Final = "gitops-bot/passkey/v1"
_NO_CODE: Final = (
    "No such enrolment code stands: it was mistyped, used, or is over. "
    "Have a new one printed on the broker's host: `gitops-bot person enrol NAME`."
)


@dataclass(frozen=True, slots=True)
class Enrolled:
    """A passkey that was enrolled. `signed_in` is None when the policy names this person's passkeys and not this one;
    `offer_another` while the person has no second one."""

    passkey: Passkey
    signed_in: SignedIn | None
    offer_another: bool


def adding_passkey() -> Act:
    """Name the act of adding a passkey beside those that one has."""
    return {"act": "passkey.add"}


def revoking_passkey(passkey: str) -> Act:
    """Name the act of revoking a passkey of one's own."""
    return {"act": "passkey.revoke", "passkey": passkey}


def new_code(groups: int = GROUPS, group: int = GROUP) -> str:
    """Make a code that can be read out: groups of characters with a hyphen between."""
    return "-".join("".join(secrets.choice(ALPHABET) for _ in range(group)) for _ in range(groups))


def plain_code(typed: str) -> str:
    """Give a code as it is compared, however it was typed; empty when it cannot be one."""
    kept = "".join(typed[:64].split()).replace("-", "").upper()
    return kept if kept and all(one in ALPHABET for one in kept) else ""


def hash_code(typed: str) -> str:
    """Hash a code for the row that stands for it; 72 random bits for minutes need no slow hash."""
    return hashlib.sha256(b"gitops-bot/enrolment-code/v1\0" + plain_code(typed).encode("ascii")).hexdigest()


def key_digest(public_key: bytes) -> str:
    """Give the digest of a COSE key by which the ledger remembers it."""
    return digest(KEY_TAG, public_key)


def issue_code(tx: Tx, rules: Rules, principal: str, lasts: int = CODE_LASTS) -> str:
    """Make the code by which a person enrols a passkey, in the host's or the broker's role; it is given once, here, and
    ends the one that they had.

    Raises:
        Refusal: the policy knows no such human, or they are suspended.
    """
    found = standing_policy(tx, rules.policy).people.get(PrincipalName(principal))
    if found is None:
        raise Refusal(refuse(Reason.UNKNOWN_PRINCIPAL, "The policy knows nobody of this name."))
    if found.principal.kind is not PrincipalKind.HUMAN:
        raise Refusal(refuse(Reason.SERVICE_IDENTITY, "Passkeys are people's."))
    if found.principal.suspended:
        raise Refusal(refuse(Reason.SUSPENDED))
    code = new_code()
    until = enrolments.add(tx, hash_code(code), found.principal.name, lasts)
    facts: dict[str, Fact] = {"by": "host", "until": until}
    ledger.append(tx, Entry(EventKind.CODE_ISSUED, tx.now, principal=found.principal.name, facts=facts))
    return code


def begin_enrolment(tx: Tx, rules: Rules, site: Site, code: str, label: str) -> Challenge | Refused:
    """Challenge whoever holds a code to make a passkey; the code is used once that is finished."""
    stored = enrolments.get(tx, hash_code(code))
    misses = enrolments.missed(tx) if stored is None else stored.attempts
    if stored is None:
        # With no code outstanding nothing could have been guessed, and nothing is written.
        return _no_code(tx, "a wrong code", told=0 < misses <= MOST_MISSES)
    if misses >= MOST_MISSES:
        return _no_code(tx, "too many wrong codes were tried", stored.principal)
    principal = human(standing_policy(tx, rules.policy), stored.principal)
    if principal is None:
        return _no_code(tx, "nobody whom the policy lets in", stored.principal)
    return _begin(tx, site, principal, {"code": stored.hash, "label": label_of(label)}, None)


def _no_code(tx: Tx, why: str, principal: PrincipalName | None = None, *, told: bool = True) -> Refused:
    return challenges.failed(
        tx, Ceremony.ENROL, why, principal, told=told, detail=_NO_CODE, reason=Reason.NOT_AUTHORISED
    )


def begin_another(
    tx: Tx, rules: Rules, site: Site, person: Person, label: str, confirmed: Confirmed
) -> Challenge | Refused:
    """Challenge a person who is signed in, and confirmed it with a passkey of theirs, to make another one."""
    principal = human(standing_policy(tx, rules.policy), person.principal.name)
    if principal is None or not confirmed.is_for(person, adding_passkey()):
        return refuse(Reason.ASSERTION_REQUIRED, "Confirm it with a passkey that you have.")
    return _begin(tx, site, principal, {"label": label_of(label)}, person)


def _begin(
    tx: Tx, site: Site, principal: Principal, body: Mapping[str, object], person: Person | None
) -> Challenge | Refused:
    if passkeys.count(tx, principal.name) >= MOST_PASSKEYS:
        return refuse(Reason.LIMIT_EXCEEDED, f"A person has at most {MOST_PASSKEYS} passkeys, revoked ones included.")
    challenge = challenges.random_challenge()
    nonce = challenges.begin(tx, Ceremony.ENROL, challenge, body, person=person, principal=principal.name)
    return Challenge(nonce, _creation_options(tx, site, principal, challenge))


def _creation_options(tx: Tx, site: Site, principal: Principal, challenge: bytes) -> Mapping[str, Any]:
    from webauthn import generate_registration_options
    from webauthn.helpers import options_to_json_dict
    from webauthn.helpers.cose import COSEAlgorithmIdentifier
    from webauthn.helpers.structs import (
        AuthenticatorSelectionCriteria,
        PublicKeyCredentialDescriptor,
        ResidentKeyRequirement,
        UserVerificationRequirement,
    )

    known = [decode(one.id, 1023) or b"" for one in passkeys.of(tx, principal.name) if one.revoked_at is None]
    options = generate_registration_options(
        rp_id=site.rp_id,
        rp_name=site.name,
        user_id=user_handle(site, principal.name),
        user_name=principal.name,
        user_display_name=principal.name,
        challenge=challenge,
        timeout=challenges.LASTS,
        exclude_credentials=[PublicKeyCredentialDescriptor(id=one) for one in known],
        authenticator_selection=AuthenticatorSelectionCriteria(
            resident_key=ResidentKeyRequirement.REQUIRED, user_verification=UserVerificationRequirement.REQUIRED
        ),
        supported_pub_key_algs=[COSEAlgorithmIdentifier(alg) for alg in (-8, -7, -257)],
    )
    return options_to_json_dict(options)


def finish_enrolment(
    tx: Tx, rules: Rules, site: Site, ceremony: str, credential: Mapping[str, Any], *, replacing: str | None = None
) -> Enrolled | Refused:
    """Use a code up, enrol the passkey that was made for it, tell everybody, and sign its person in. A passkey that is
    refused uses the code up too."""
    begun = challenges.take(tx, ceremony, Ceremony.ENROL)
    if isinstance(begun, Refused):
        return begun
    code = begun.body.get("code")
    if code is None or not enrolments.use(tx, code):
        return _no_code(tx, "the code ended meanwhile", begun.principal)
    enrolled = _enrol(tx, rules, site, begun, credential)
    if isinstance(enrolled, Refused):
        return enrolled
    principal, passkey = enrolled
    signed_in = None
    if sessions.counts(principal, passkey.id):
        session, secret = sessions.open_session(
            tx,
            site,
            principal,
            SessionKind.BROWSER,
            SessionMethod.PASSKEY,
            credential=passkey.id,
            asserted_at=tx.now,
        )
        signed_in = SignedIn(Person(principal, session), secret)
        if replacing is not None:
            sessions.replace(tx, replacing, session.id)
    return Enrolled(passkey, signed_in, len(usable(tx, principal)) < 2)


def finish_another(
    tx: Tx, rules: Rules, site: Site, person: Person, ceremony: str, credential: Mapping[str, Any]
) -> Enrolled | Refused:
    """Enrol another passkey of a person who is signed in, and tell everybody; the session stays as it is."""
    begun = challenges.take(tx, ceremony, Ceremony.ENROL, person)
    if isinstance(begun, Refused):
        return begun
    enrolled = _enrol(tx, rules, site, begun, credential)
    if isinstance(enrolled, Refused):
        return enrolled
    principal, passkey = enrolled
    return Enrolled(passkey, None, len(usable(tx, principal)) < 2)


def _enrol(
    tx: Tx, rules: Rules, site: Site, begun: Begun, credential: Mapping[str, Any]
) -> tuple[Principal, Passkey] | Refused:
    policy = standing_policy(tx, rules.policy)
    principal = human(policy, begun.principal)
    if principal is None:
        return challenges.failed(tx, Ceremony.ENROL, "nobody whom the policy lets in", begun.principal)
    key = verify_creation(
        credential, challenge=decode(begun.challenge, 64) or b"", origin=site.origin, rp_id=site.rp_id
    )
    if isinstance(key, Unfit):
        return challenges.failed(tx, Ceremony.ENROL, key.why, principal.name)
    given = principal_of(policy, Identity(IdentityKind.PASSKEY, key.id))
    if given is not None and given.name != principal.name:
        return challenges.failed(tx, Ceremony.ENROL, "the policy gives this passkey to somebody else", principal.name)
    rests_until = tx.now + site.rest
    if not _add(tx, principal, key, str(begun.body["label"]), rests_until):
        return challenges.failed(tx, Ceremony.ENROL, "this passkey was enrolled before", principal.name)
    passkey = passkeys.get(tx, key.id)
    assert passkey is not None
    _tell_everybody(tx, policy, principal, passkey)
    return principal, passkey


def _add(tx: Tx, principal: Principal, key: NewKey, label: str, rests_until: int) -> bool:
    return passkeys.add(
        tx,
        key.id,
        principal.name,
        key.public_key,
        sign_count=key.sign_count,
        label=label or "passkey",
        transports=key.transports,
        aaguid=key.aaguid,
        backed_up=key.backed_up,
        rests_until=rests_until,
    )


def _tell_everybody(tx: Tx, policy: Policy, principal: Principal, passkey: Passkey) -> None:
    people = [name for name, one in policy.people.items() if one.principal.kind is PrincipalKind.HUMAN]
    rests = ""
    if passkey.rests_until > tx.now:
        rests = f" It answers nothing that is bound before {_utc(passkey.rests_until)}."
    text = f"A passkey was enrolled for {principal.name}: {passkey.label}.{rests} If that was not them, suspend them."
    notices.tell(tx, people, EventKind.PASSKEY_ENROLLED.value, text)
    facts: dict[str, Fact] = {
        "passkey": passkey.id,
        "key": key_digest(passkey.public_key),
        "rests_until": passkey.rests_until,
    }
    ledger.append(
        tx,
        Entry(EventKind.PASSKEY_ENROLLED, tx.now, principal=principal.name, channel="workspace", facts=facts),
        *(
            Entry(EventKind.PERSON_TOLD, tx.now, principal=name, facts={"of": EventKind.PASSKEY_ENROLLED.value})
            for name in sorted(people)
        ),
    )


def _utc(at: int) -> str:
    return datetime.fromtimestamp(at // 1000, tz=UTC).strftime("%Y-%m-%d %H:%M UTC")


def revoke_passkey(tx: Tx, rules: Rules, person: Person, passkey: str, confirmed: Confirmed) -> Passkey | Refused:
    """Revoke a passkey of one's own for good, and end the sessions that it opened, this one among them."""
    if human(standing_policy(tx, rules.policy), person.principal.name) is None:
        return refuse(Reason.NOT_AUTHORISED)
    if not confirmed.is_for(person, revoking_passkey(passkey)):
        return refuse(Reason.ASSERTION_REQUIRED, "Confirm it with a passkey that you have.")
    who = person.principal.name
    found = passkeys.get(tx, passkey, lock=True)
    if found is None or found.principal != who:
        return refuse(Reason.NOT_FOUND)
    revoke(tx, found, who, "workspace")
    revoked = passkeys.get(tx, passkey)
    assert revoked is not None
    return revoked
