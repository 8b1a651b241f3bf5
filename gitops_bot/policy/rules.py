"""How far an ask is, as a value: who approved, who denied, who could still approve, how many are missing.

Distinct principals are counted, never votes or keys. A vote counts here only while its voter may vote under the rule,
so that a policy that was adopted since the vote is judged as it is now.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from gitops_bot.core.principals import IdentityKind, PrincipalKind, PrincipalName
from gitops_bot.core.verdicts import Channel, Decision
from gitops_bot.policy.model import KeyKind, Person, Policy, VerbRule

ACCOUNT_PREFIX = "github:"


class QuorumState(StrEnum):
    """What the votes amount to. `answered` is a plain question's end; a denial outweighs approvals."""

    OPEN = "open"
    APPROVED = "approved"
    DENIED = "denied"
    ANSWERED = "answered"


@dataclass(frozen=True, slots=True)
class Quorum:
    """A rule's state. `may_still` names declared people who could approve and have not voted; with `undeclared`
    accounts of the forge may, too. `missing` counts the approvals (for a question: answers) still needed."""

    approve_needed: int
    deny_needed: int
    approved_by: tuple[PrincipalName, ...]
    denied_by: tuple[PrincipalName, ...]
    may_still: tuple[PrincipalName, ...]
    undeclared: bool
    state: QuorumState
    missing: int


def excluded(rule: VerbRule, requester: PrincipalName, agent_owner: PrincipalName | None) -> frozenset[PrincipalName]:
    """Name who may not approve: the requester, and for a gated verb the asking agent's owner (I15)."""
    if rule.gated and not rule.owner_may_approve and agent_owner is not None:
        return frozenset({requester, agent_owner})
    return frozenset({requester})


def is_account(name: PrincipalName) -> bool:
    """Tell whether a name is that of an undeclared account, `github:<id>`; no declared name has a colon."""
    return name.startswith(ACCOUNT_PREFIX)


def voters_of(policy: Policy, rule: VerbRule, agent_owner: PrincipalName | None) -> tuple[PrincipalName, ...]:
    """Name the declared people who may vote, exclusions of I15 not applied; services and suspended people never are."""
    named = dict.fromkeys(rule.voters.people)
    if rule.voters.owner and agent_owner is not None:
        named[agent_owner] = None
    return tuple(name for name in named if stands(policy, name))


def stands(policy: Policy, name: PrincipalName) -> bool:
    """Tell whether a name is that of a human of the policy who is not suspended."""
    person = policy.people.get(name)
    if person is None:
        return False
    return person.principal.kind is PrincipalKind.HUMAN and not person.principal.suspended


def obstacle(person: Person, rule: VerbRule) -> str | None:
    """Say why a person named by a rule could not vote whatever they did; None when they could."""
    if person.principal.kind is not PrincipalKind.HUMAN:
        return "is a service"
    if person.principal.suspended:
        return "is suspended"
    if rule.gated:
        kind = rule.keys or KeyKind.VERIFIED
        return None if person.can_sign(kind) else f'has no key that counts under keys = "{kind.value}"'
    if any(identity.kind is IdentityKind.GITHUB for identity in person.principal.identities):
        return None
    if rule.voters.github_permission is not None or rule.voters.team is not None:
        return "has no GitHub account, and the rule asks for a permission there"
    return "has no GitHub account, and the forge is the only channel" if rule.channels == {Channel.FORGE} else None


def tally(
    policy: Policy,
    rule: VerbRule,
    votes: Iterable[tuple[PrincipalName, Decision]],
    *,
    requester: PrincipalName,
    agent_owner: PrincipalName | None,
) -> Quorum:
    """Compute the quorum from votes in the order in which they were counted. Channel, floor on the forge and candidates
    are *not* checked again: they were when the vote was counted."""
    declared = voters_of(policy, rule, agent_owner)
    barred = excluded(rule, requester, agent_owner)
    standing: dict[PrincipalName, Decision] = {}
    for name, decision in votes:
        # After one's own deny or revoke nothing of one's own follows.
        if standing.get(name) not in (Decision.DENY, Decision.REVOKE):
            standing[name] = decision
    counted = {name: decision for name, decision in standing.items() if _counts(policy, rule, declared, name)}
    yes = Decision.ANSWER if rule.question else Decision.APPROVE
    approved = tuple(name for name, said in counted.items() if said is yes and name not in barred)
    denied = tuple(name for name, said in counted.items() if said is Decision.DENY)
    if len(denied) >= rule.deny:
        state = QuorumState.DENIED
    elif len(approved) >= rule.approve:
        state = QuorumState.ANSWERED if rule.question else QuorumState.APPROVED
    else:
        state = QuorumState.OPEN
    return Quorum(
        approve_needed=rule.approve,
        deny_needed=rule.deny,
        approved_by=approved,
        denied_by=denied,
        may_still=tuple(name for name in declared if name not in standing and name not in barred),
        undeclared=rule.voters.undeclared,
        state=state,
        missing=max(rule.approve - len(approved), 0),
    )


def _counts(policy: Policy, rule: VerbRule, declared: tuple[PrincipalName, ...], name: PrincipalName) -> bool:
    if name in declared:
        return True
    # A declared person may also have come in as an account with the permission; a service never may.
    return rule.voters.undeclared and (is_account(name) or stands(policy, name))
