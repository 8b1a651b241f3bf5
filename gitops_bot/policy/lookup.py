"""What the policy says about one request and one voter. No match denies.

Each answer is a value of a closed union. What must be read on the forge first is `NeedsPermission`, never a guess: a
look-up that failed is for the caller to hold and retry (I14).
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from gitops_bot.core.errors import Reason, Refused, refuse
from gitops_bot.core.principals import Identity, IdentityKind, Principal, PrincipalKind, PrincipalName
from gitops_bot.core.readings import Permission, at_least
from gitops_bot.core.verdicts import Channel, Decision
from gitops_bot.policy.model import QUESTION, Policy, VerbRule
from gitops_bot.policy.params import check_closed, check_values
from gitops_bot.policy.rules import ACCOUNT_PREFIX, excluded, voters_of
from gitops_bot.policy.tables import nearest, shown


@dataclass(frozen=True, slots=True)
class Allowed:
    """This voter may vote so; `voter` is a declared name or `github:<id>`."""

    voter: PrincipalName


@dataclass(frozen=True, slots=True)
class NeedsPermission:
    """All else allows it; read this account's permission and team membership on the forge, then ask again."""

    account: int
    floor: Permission | None
    team: int | None


Answerable = Allowed | Refused | NeedsPermission


def principal_of(policy: Policy, identity: Identity) -> Principal | None:
    """Find whose identity this is; None when it is nobody's."""
    for person in policy.people.values():
        if identity in person.principal.identities:
            return person.principal
    return None


def account_name(account: int) -> PrincipalName:
    """Name an account of the forge that the policy does not declare."""
    return PrincipalName(f"{ACCOUNT_PREFIX}{account}")


def lookup(policy: Policy, verb: str, params: Mapping[str, object]) -> VerbRule | Refused:
    """Find the rule for an action, with the values of its tier. Limits are *not* checked: they need what was spent."""
    rule = policy.verbs.get(verb)
    if rule is None:
        near = nearest(verb, tuple(policy.verbs))
        return refuse(Reason.UNKNOWN_VERB, near.removeprefix("; ").capitalize(), verb=shown(verb))
    refused = check_params(rule, params)
    return refused if refused is not None else resolve_tier(rule, params)


def lookup_question(policy: Policy) -> VerbRule | Refused:
    """Find the rule for plain questions."""
    if policy.question is None:
        return refuse(Reason.NOT_AUTHORISED, f"The policy has no [{QUESTION}], so nobody answers questions.")
    return policy.question


def check_params(rule: VerbRule, params: Mapping[str, object]) -> Refused | None:
    """Hold a request's parameters against the verb's schema; without one any canonical, printable values fit."""
    refused = check_values(params)
    if refused is None and rule.params is not None:
        refused = check_closed(rule.params, params)
    return refused


def resolve_tier(rule: VerbRule, params: Mapping[str, object]) -> VerbRule:
    """Give the rule with the values of the first tier whose conditions all hold, else the verb's own.

    The parameters fit the schema (`check_params`).
    """
    for number, tier in enumerate(rule.tiers, 1):
        if all(condition.holds(params.get(condition.param)) for condition in tier.where):
            return rule.at_tier(number)
    return rule


def may_vote(
    policy: Policy,
    rule: VerbRule,
    principal: Principal | None,
    channel: Channel,
    *,
    decision: Decision,
    requester: PrincipalName,
    agent_owner: PrincipalName | None,
    candidates: Collection[PrincipalName] = (),
    account: int | None = None,
    github_permission: Permission | None = None,
    in_team: bool | None = None,
) -> Answerable:
    """Decide whether somebody may vote so on an ask under a rule from `lookup` or `lookup_question`.

    `principal` is None when the identity is nobody's; `account` is the forge account that acted, where one did.
    `github_permission` and `in_team` are what was read for the account that `NeedsPermission` named, None before.
    Whoever says that somebody is suspended since the bundle was adopted passes a principal that says so. The ask's
    state, binding and earlier votes are *not* checked.
    """
    refused = _check_channel(rule, channel)
    if refused is not None:
        return refused
    voter = _voter(policy, principal, account)
    if isinstance(voter, Refused):
        return voter
    if decision in (Decision.APPROVE, Decision.ANSWER) and voter in excluded(rule, requester, agent_owner):
        return refuse(Reason.SELF_APPROVAL, voter=voter)
    as_account = rule.voters.undeclared and channel is Channel.FORGE and account is not None
    if voter not in voters_of(policy, rule, agent_owner) and not as_account:
        return refuse(Reason.UNKNOWN_PRINCIPAL if principal is None else Reason.NOT_AUTHORISED, voter=voter)
    if candidates and voter not in candidates:
        return refuse(Reason.NOT_CANDIDATE, voter=voter)
    return _check_floor(rule, voter, principal, account, github_permission, in_team)


def _check_channel(rule: VerbRule, channel: Channel) -> Refused | None:
    if rule.gated and channel is not Channel.SIGNED:
        return refuse(Reason.GATED, verb=rule.name)
    if channel not in rule.channels:
        accepted = tuple(sorted(rule.channels))
        return refuse(Reason.WRONG_CHANNEL, f"It accepts {', '.join(accepted)}.", verb=rule.name, accepted=accepted)
    return None


def _voter(policy: Policy, principal: Principal | None, account: int | None) -> PrincipalName | Refused:
    """Name the voter; the policy's own word counts, beside a suspension that the caller knows of."""
    if principal is None:
        if account is None or principal_of(policy, Identity(IdentityKind.GITHUB, str(account))) is not None:
            return refuse(Reason.UNKNOWN_PRINCIPAL)
        return account_name(account)
    person = policy.people.get(principal.name)
    if person is None:
        return refuse(Reason.UNKNOWN_PRINCIPAL, voter=principal.name)
    declared = person.principal
    if PrincipalKind.SERVICE in (declared.kind, principal.kind):
        return refuse(Reason.SERVICE_IDENTITY, voter=declared.name)
    if declared.suspended or principal.suspended:
        return refuse(Reason.SUSPENDED, voter=declared.name)
    if account is not None and Identity(IdentityKind.GITHUB, str(account)) not in declared.identities:
        return refuse(Reason.UNKNOWN_PRINCIPAL, voter=declared.name)
    return declared.name


def _check_floor(
    rule: VerbRule,
    voter: PrincipalName,
    principal: Principal | None,
    account: int | None,
    permission: Permission | None,
    in_team: bool | None,
) -> Answerable:
    floor, team = rule.voters.github_permission, rule.voters.team
    if floor is None and team is None:
        return Allowed(voter)
    if account is None:
        account = _own_account(principal)
    if account is None:
        return refuse(Reason.NOT_AUTHORISED, "The policy asks for a permission on the forge.", voter=voter)
    if (floor is not None and permission is None) or (team is not None and in_team is None):
        return NeedsPermission(account, floor, team)
    if floor is not None and (permission is None or not at_least(permission, floor)):
        held = None if permission is None else permission.value
        detail = f"It takes {floor.value} permission on the repository."
        return refuse(Reason.NOT_AUTHORISED, detail, voter=voter, permission=held)
    if team is not None and not in_team:
        return refuse(Reason.NOT_AUTHORISED, "It takes membership of a team.", voter=voter, team=team)
    return Allowed(voter)


def _own_account(principal: Principal | None) -> int | None:
    accounts = (
        int(identity.value)
        for identity in (() if principal is None else principal.identities)
        if identity.kind is IdentityKind.GITHUB
    )
    return next(accounts, None)
