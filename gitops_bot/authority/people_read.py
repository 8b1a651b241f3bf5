"""People and keys as everybody who is signed in may see them: identities by kind, passkeys, suspensions, votes.

Nothing secret is here: fingerprints, public keys and account numbers, no credential id in full, no session.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from gitops_bot.authority.rules import Rules
from gitops_bot.core.principals import Identity, IdentityKind, PrincipalKind, PrincipalName
from gitops_bot.policy.model import Person, Policy, SshKey, VerbRule
from gitops_bot.policy.rules import obstacle
from gitops_bot.store import passkeys, suspensions
from gitops_bot.store.engine import Tx
from gitops_bot.store.passkeys import Passkey

MOST_PASSKEYS: Final = 50
SHOWN_ID: Final = 8
_KINDS: Final = {
    IdentityKind.GITHUB: "account on the forge, by number",
    IdentityKind.PASSKEY: "passkey that the policy names",
    IdentityKind.OIDC: "sign-in elsewhere, by issuer and subject",
    IdentityKind.OPENPGP: "OpenPGP certificate, by fingerprint",
    IdentityKind.SSH: "SSH key",
}


@dataclass(frozen=True, slots=True)
class IdentityShown:
    """What stands for a principal: a kind, how people call it, its value. An SSH key has its dates (ms)."""

    kind: str
    called: str
    value: str
    fingerprint: str | None = None
    security_key: bool | None = None
    not_before: int | None = None
    not_after: int | None = None


@dataclass(frozen=True, slots=True)
class PasskeyShown:
    """A passkey: `id` for its owner's acts, `short` for eyes. `label` is its owner's; times in ms."""

    id: str
    short: str
    label: str
    created_at: int
    rests_until: int
    rests: bool
    used_at: int | None
    revoked_at: int | None
    revoked_by: str | None
    backed_up: bool
    counts: bool


@dataclass(frozen=True, slots=True)
class VotesOn:
    """A verb on which a person may vote; `obstacle` says why they could not whatever they did, None when they could."""

    verb: str
    gated: bool
    approve: int
    obstacle: str | None


@dataclass(frozen=True, slots=True)
class PersonShown:
    """A principal of the policy. `suspended` says by whom: the policy, the host, or nobody (None)."""

    name: PrincipalName
    kind: str
    owner: PrincipalName | None
    role: str | None
    suspended: str | None
    identities: tuple[IdentityShown, ...]
    passkeys: tuple[PasskeyShown, ...]
    policy_names_passkeys: bool
    votes_on: tuple[VotesOn, ...]


def people_shown(tx: Tx, rules: Rules) -> tuple[PersonShown, ...]:
    """Read everybody whom the policy names, people first, each by name."""
    on_host = suspensions.suspended(tx)
    ordered = sorted(rules.policy.people.items(), key=lambda one: (one[1].principal.kind.value, one[0]))
    return tuple(_person(tx, rules.policy, name, person, name in on_host) for name, person in ordered)


def person_shown(tx: Tx, rules: Rules, name: PrincipalName) -> PersonShown | None:
    """Read one principal of the policy; None where there is none of that name."""
    person = rules.policy.people.get(name)
    if person is None:
        return None
    return _person(tx, rules.policy, name, person, name in suspensions.suspended(tx))


def _person(tx: Tx, policy: Policy, name: PrincipalName, person: Person, on_host: bool) -> PersonShown:
    principal = person.principal
    named = frozenset(one.value for one in principal.identities if one.kind is IdentityKind.PASSKEY)
    human = principal.kind is PrincipalKind.HUMAN
    return PersonShown(
        name=name,
        kind=principal.kind.value,
        owner=principal.owner,
        role=principal.role,
        suspended="policy" if principal.suspended else "host" if on_host else None,
        identities=tuple(_identity(person, one) for one in principal.identities),
        passkeys=tuple(_passkey(tx, one, named) for one in passkeys.of(tx, name)[-MOST_PASSKEYS:]) if human else (),
        policy_names_passkeys=bool(named),
        votes_on=tuple(_votes_on(policy, name, person)) if human else (),
    )


def _identity(person: Person, one: Identity) -> IdentityShown:
    key = _ssh(person.ssh, one) if one.kind is IdentityKind.SSH else None
    if key is None:
        return IdentityShown(one.kind.value, _KINDS[one.kind], one.value)
    return IdentityShown(
        one.kind.value,
        "SSH security key" if key.security_key else "SSH key",
        one.value,
        key.key.fingerprint,
        key.security_key,
        key.not_before,
        key.not_after,
    )


def _ssh(keys: Iterable[SshKey], one: Identity) -> SshKey | None:
    return next((key for key in keys if key.line == one.value), None)


def _passkey(tx: Tx, one: Passkey, named: frozenset[str]) -> PasskeyShown:
    return PasskeyShown(
        id=one.id,
        short=f"{one.id[:SHOWN_ID]}…",
        label=one.label,
        created_at=one.created_at,
        rests_until=one.rests_until,
        rests=one.rests_until > tx.now,
        used_at=one.used_at,
        revoked_at=one.revoked_at,
        revoked_by=one.revoked_by,
        backed_up=one.backed_up,
        # Where the policy names passkeys, only those count.
        counts=one.revoked_at is None and (not named or one.id in named),
    )


def _votes_on(policy: Policy, name: PrincipalName, person: Person) -> Iterable[VotesOn]:
    for verb, rule in sorted(policy.verbs.items()):
        if any(_may(tier, name) for tier in rule.every_tier):
            yield VotesOn(verb, rule.gated, rule.approve, obstacle(person, rule))


def _may(rule: VerbRule, name: PrincipalName) -> bool:
    return name in rule.voters.people or rule.voters.owner
