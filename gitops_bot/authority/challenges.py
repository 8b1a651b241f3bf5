"""A challenge stands for one purpose, one person where there is one, and one use; whose passkey signed it is proved.

What fails is in the ledger with the reason; whoever tried is told in general words. A caller commits refusals too
(`Services.decide`). Anonymous failures write at most one row a challenge, so that a flood of them is bounded by the
limit on beginning.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gitops_bot.authority.authenticators import (
    Assertion,
    Unfit,
    Used,
    decode,
    encode,
    read_assertion,
    transports_of,
    verify_use,
)
from gitops_bot.authority.sessions import Person, counts, human
from gitops_bot.authority.site import Site
from gitops_bot.core.canonical import canonical, digest
from gitops_bot.core.errors import Fact, Reason, Refused, refuse
from gitops_bot.core.ledger import Entry, EventKind
from gitops_bot.core.principals import Principal, PrincipalName
from gitops_bot.policy.model import Policy
from gitops_bot.store import ceremonies, ledger, passkeys
from gitops_bot.store.ceremonies import Begun
from gitops_bot.store.engine import Tx
from gitops_bot.store.passkeys import Passkey
from gitops_bot.store.person_tables import Ceremony

LASTS: Final = 5 * 60_000
"""How long a challenge may be signed, in ms."""
GENERIC: Final = "Try again from the beginning; if it keeps failing, ask on the host."


@dataclass(frozen=True, slots=True)
class Challenge:
    """What a browser needs to ask an authenticator: the ceremony's id, and `options` in the JSON form of
    PublicKeyCredentialCreationOptions or PublicKeyCredentialRequestOptions (WebAuthn Level 3, section 5.1.9)."""

    id: str
    options: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Proven:
    """A passkey of somebody, and its verified use."""

    principal: Principal
    passkey: Passkey
    assertion: Assertion
    used: Used


def random_challenge() -> bytes:
    """Make 256 random bits."""
    return secrets.token_bytes(32)


def user_handle(site: Site, principal: PrincipalName) -> bytes:
    """Give the user handle of somebody: 32 bytes that are the same each time and name nobody."""
    return bytes.fromhex(digest("gitops-bot/user/v1", canonical([site.name, principal])).removeprefix("sha256:"))


def request_options(site: Site, challenge: bytes, allowed: Sequence[Passkey] = ()) -> Mapping[str, Any]:
    """Give the options of asking for an assertion; without `allowed`, by any passkey that the authenticator finds."""
    from webauthn import generate_authentication_options
    from webauthn.helpers import options_to_json_dict
    from webauthn.helpers.structs import PublicKeyCredentialDescriptor, UserVerificationRequirement

    options = generate_authentication_options(
        rp_id=site.rp_id,
        challenge=challenge,
        timeout=LASTS,
        allow_credentials=[
            PublicKeyCredentialDescriptor(id=decode(one.id, 1023) or b"", transports=transports_of(one.transports))
            for one in allowed
        ],
        user_verification=UserVerificationRequirement.REQUIRED,
    )
    return options_to_json_dict(options)


def begin(
    tx: Tx,
    kind: Ceremony,
    challenge: bytes,
    body: Mapping[str, object],
    *,
    person: Person | None = None,
    principal: PrincipalName | None = None,
    nonce: str | None = None,
    lasts: int = LASTS,
) -> str:
    """Write a ceremony for a challenge, bound to a session where its person is signed in; give its id."""
    made = nonce or ceremonies.new_nonce()
    ceremonies.add(
        tx,
        made,
        kind,
        encode(challenge),
        lasts=lasts,
        principal=principal if person is None else person.principal.name,
        session=None if person is None else person.session.id,
        body=body,
    )
    return made


def find(tx: Tx, nonce: object, kind: Ceremony, person: Person | None = None) -> Begun | None:
    """Find a ceremony of a kind, and of this session where one is given, used or over or not; it is locked."""
    begun = ceremonies.get(tx, nonce, lock=True) if isinstance(nonce, str) and len(nonce) <= 64 else None
    if begun is None or begun.kind is not kind:
        return None
    if person is not None and (begun.principal, begun.session) != (person.principal.name, person.session.id):
        return None
    if person is None and begun.session is not None:
        return None
    return begun


def take(tx: Tx, nonce: object, kind: Ceremony, person: Person | None = None) -> Begun | Refused:
    """Take a ceremony for its one use; refused when there is none of this kind for this session, or it is over."""
    who = None if person is None else person.principal.name
    begun = find(tx, nonce, kind, person)
    if begun is None:
        return failed(tx, kind, "no such challenge here", who, told=who is not None)
    if begun.used_at is not None or not ceremonies.use(tx, begun.id):
        return failed(tx, kind, "the challenge was used before", who, told=who is not None)
    if begun.expires_at <= tx.now:
        return failed(tx, kind, "the challenge is over", who or begun.principal)
    return begun


def failed(
    tx: Tx,
    kind: Ceremony,
    why: str,
    principal: PrincipalName | None = None,
    *,
    told: bool = True,
    detail: str = GENERIC,
    reason: Reason = Reason.ASSERTION_INVALID,
    **facts: Fact,
) -> Refused:
    """Refuse in general words, and write into the ledger why, unless it is not `told` there."""
    if told:
        entry = Entry(
            EventKind.CEREMONY_FAILED,
            tx.now,
            principal=principal,
            channel="workspace",
            reason=reason,
            facts={"ceremony": kind.value, "why": why, **facts},
        )
        ledger.append(tx, entry)
    return refuse(reason, detail)


def prove(
    tx: Tx,
    policy: Policy,
    site: Site,
    begun: Begun,
    credential: object,
    *,
    whose: PrincipalName | None = None,
) -> Proven | Refused:
    """Verify an assertion over a taken challenge by a passkey that stands for its person, under a policy from
    `standing_policy`, and write its counter down. With `whose`, by a passkey of theirs only."""
    assertion = read_assertion(credential)
    if isinstance(assertion, Unfit):
        return failed(tx, begun.kind, assertion.why, whose)
    passkey = passkeys.get(tx, assertion.id, lock=True)
    if passkey is None:
        return failed(tx, begun.kind, "an unknown passkey", whose)
    known = passkey.principal

    def no(why: str) -> Refused:
        return failed(tx, begun.kind, why, whose or known, passkey=passkey.id)

    principal = human(policy, passkey.principal)
    if whose is not None and passkey.principal != whose:
        return no("a passkey of somebody else")
    if passkey.revoked_at is not None:
        return no("a revoked passkey")
    if principal is None:
        return no("nobody whom the policy lets in")
    if not counts(principal, passkey.id):
        return no("a passkey that the policy does not name")
    if assertion.user_handle is not None and assertion.user_handle != user_handle(site, passkey.principal):
        return no("another user handle")
    used = verify_use(
        assertion,
        challenge=decode(begun.challenge, 64) or b"",
        origin=site.origin,
        rp_id=site.rp_id,
        public_key=passkey.public_key,
    )
    if isinstance(used, Unfit):
        return no(used.why)
    if (passkey.sign_count or used.sign_count) and used.sign_count <= passkey.sign_count:
        # Section 6.1.1 of WebAuthn Level 3: a clone, or an older state of it, was at work.
        return failed(
            tx,
            begun.kind,
            "the counter did not rise",
            passkey.principal,
            passkey=passkey.id,
            stored=passkey.sign_count,
            given=used.sign_count,
        )
    passkeys.used(tx, passkey.id, used.sign_count, backed_up=used.backed_up)
    return Proven(principal, passkey, assertion, used)


def usable(tx: Tx, principal: Principal) -> list[Passkey]:
    """List the passkeys that stand for somebody now, resting ones included, oldest first."""
    return [one for one in passkeys.of(tx, principal.name) if one.revoked_at is None and counts(principal, one.id)]
