"""Who is left to approve, whoever asks: the sentences that show whether a rule stays reachable (domain, Quorum).

A bundle in which a gated verb is not reachable does not load; this tells people how near it is to that.
"""

from gitops_bot.core.principals import PrincipalName
from gitops_bot.policy.model import Policy, VerbRule
from gitops_bot.policy.rules import obstacle


def reachability(policy: Policy, rule: VerbRule) -> list[str]:
    """Say for each owner of an agent, and for anybody else, who could approve what they ask, and how many are spare."""
    if rule.question:
        return []
    able = [name for name in rule.voters.people if obstacle(policy.people[name], rule) is None]
    lines = []
    if rule.gated and not rule.owner_may_approve:
        owners = {one.principal.owner for one in policy.people.values() if one.principal.owner is not None}
        lines = [_line(rule, f"an agent of {owner}", able, owner) for owner in sorted(owners & set(able))]
    return [*lines, _line(rule, "anybody else" if lines else "anybody", able, None)]


def _line(rule: VerbRule, who: str, able: list[PrincipalName], away: PrincipalName | None) -> str:
    left = [name for name in able if name != away]
    named = ", ".join(left) or "nobody"
    if rule.voters.owner:
        named += " and the asking agent's owner"
    if rule.voters.undeclared:
        named += " and any account on the forge"
    if rule.voters.owner or rule.voters.undeclared:
        return f"asked by {who}: {named} could approve; it takes {rule.approve}"
    spare = len(left) - rule.approve
    word = f"{spare} to spare" if spare >= 0 else "not reachable"
    return f"asked by {who}: {named} could approve; it takes {rule.approve}, {word}"
