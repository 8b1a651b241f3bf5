"""A person whom the host suspended votes nowhere from that instant on: the policy as it stands in one transaction.

Every decision is made under `standing_rules` of its own transaction, so that a suspension which committed before it is
seen by it, on every surface. The policy's digest stays: what binds is the bundle.
"""

from collections.abc import Collection
from dataclasses import replace
from types import MappingProxyType

from gitops_bot.authority.rules import Rules
from gitops_bot.core.errors import Fact
from gitops_bot.core.ledger import Entry, EventKind
from gitops_bot.core.principals import IdentityKind, PrincipalName
from gitops_bot.policy.model import Person, Policy
from gitops_bot.store import ledger, suspensions
from gitops_bot.store.engine import Tx

_SIGNING = (IdentityKind.OPENPGP, IdentityKind.SSH)


def standing_rules(tx: Tx, rules: Rules) -> Rules:
    """Give the rules with everybody suspended who is suspended now."""
    return replace(rules, policy=without(rules.policy, suspensions.suspended(tx)))


def standing_policy(tx: Tx, policy: Policy, at: int | None = None) -> Policy:
    """Give the policy with everybody suspended who is suspended now, or was at a time (ms)."""
    return without(policy, suspensions.suspended(tx, at))


def without(policy: Policy, names: Collection[PrincipalName]) -> Policy:
    """Give the policy with some people suspended; the same policy when it knows none of them."""
    struck = {name: _suspended(policy.people[name]) for name in names if name in policy.people}
    if not struck:
        return policy
    return replace(policy, people=MappingProxyType({**policy.people, **struck}))


def _suspended(person: Person) -> Person:
    return replace(person, principal=replace(person.principal, suspended=True))


def reinstate(tx: Tx, old: Policy, new: Policy, ask: str) -> None:
    """Reinstate, as an adopted bundle says, whom the host suspended: who signs with none of the keys of before, and who
    was suspended in the bundle of before and is not any more. Everybody else stays suspended, whatever changed."""
    for name in sorted(suspensions.suspended(tx)):
        before, after = old.people.get(name), new.people.get(name)
        if before is None or after is None or after.principal.suspended:
            continue
        why = "the bundle names other keys of theirs" if _has_other_keys(before, after) else None
        if before.principal.suspended:
            why = "the bundle suspends them no longer"
        if why is not None:
            suspensions.lift(tx, name, why)
            facts: dict[str, Fact] = {"why": why, "policy": new.digest}
            entry = Entry(EventKind.PERSON_REINSTATED, tx.now, ask=ask, principal=name, channel="signed", facts=facts)
            ledger.append(tx, entry)


def _has_other_keys(before: Person, after: Person) -> bool:
    held, holds = (
        {key.material for one in person.openpgp for key in one.facts.components}
        | {one.key.material for one in person.ssh}
        | {identity.value for identity in person.principal.identities if identity.kind in _SIGNING}
        for person in (before, after)
    )
    return bool(holds) and not held & holds
