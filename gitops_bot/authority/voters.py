"""Whether an account of the forge may vote on an ask: the policy first, the forge only where the policy asks for it.

Answers are allowed, denied, or unknown; unknown is `Unavailable`, so that the caller holds what it has and tries again
(I14). Accounts are numeric ids; a login only addresses the question to the forge.
"""

from dataclasses import dataclass
from typing import Final

from gitops_bot.authority.rules import Rules, rule_of
from gitops_bot.core.asks import Ask
from gitops_bot.core.errors import Refused
from gitops_bot.core.principals import Identity, IdentityKind, Principal
from gitops_bot.core.readings import Permission
from gitops_bot.core.verdicts import Channel, Decision
from gitops_bot.policy.lookup import Allowed, NeedsPermission, may_vote, principal_of
from gitops_bot.ports import Forge


@dataclass(frozen=True, slots=True)
class Held:
    """What was read about an account; None where the policy did not ask."""

    permission: Permission | None = None
    in_team: bool | None = None


NOTHING: Final = Held()


def principal(rules: Rules, account: int) -> Principal | None:
    """Find whose account this is; None when it is nobody's."""
    return principal_of(rules.policy, Identity(IdentityKind.GITHUB, str(account)))


def under_policy(
    rules: Rules, ask: Ask, account: int, decision: Decision, held: Held = NOTHING
) -> Allowed | NeedsPermission | Refused:
    """Ask the policy about an account, with what was read of it so far."""
    rule = rule_of(rules, ask)
    if isinstance(rule, Refused):
        return rule
    return may_vote(
        rules.policy,
        rule,
        principal(rules, account),
        Channel.FORGE,
        decision=decision,
        requester=ask.requester,
        agent_owner=ask.owner,
        candidates=ask.candidates,
        account=account,
        github_permission=held.permission,
        in_team=held.in_team,
    )


def read(
    forge: Forge, rules: Rules, repository: str, ask: Ask, account: int, login: str, decision: Decision
) -> Held | Refused:
    """Read of an account what the policy asks for. Whether that suffices is decided again where the vote is counted.

    Raises:
        Unavailable: the forge could not tell.
    """
    allowed = under_policy(rules, ask, account, decision)
    if isinstance(allowed, Refused):
        return allowed
    if isinstance(allowed, Allowed):
        return NOTHING
    permission = None if allowed.floor is None else forge.permission(repository, login, account)
    in_team = None if allowed.team is None else forge.team_member(repository, allowed.team, login, account)
    return Held(permission, in_team)
