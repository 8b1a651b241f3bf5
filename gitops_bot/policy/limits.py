"""Sums over a window: what was spent of a verb within `per` ms, and this action, stay at or below the limit."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gitops_bot.core.errors import Reason, Refused, refuse
from gitops_bot.policy.model import VerbRule


@dataclass(frozen=True, slots=True)
class Spent:
    """The parameters of a grant that was spent, and when (ms)."""

    params: Mapping[str, object]
    at: int


def longest(rule: VerbRule) -> int:
    """Give the longest window of a rule's limits in ms; 0 without a limit."""
    return max((limit.per for limit in rule.limits), default=0)


def check_limits(rule: VerbRule, params: Mapping[str, object], spent: Iterable[Spent], now: int) -> Refused | None:
    """Hold an action against the limits of its verb, whatever its quorum; None when it fits."""
    earlier = tuple(spent)
    for limit in rule.limits:
        group = [params.get(name) for name in limit.by]
        within = [
            one for one in earlier if one.at > now - limit.per and [one.params.get(name) for name in limit.by] == group
        ]
        total = _amount(params.get(limit.param)) + sum(_amount(one.params.get(limit.param)) for one in within)
        if total > limit.at_most:
            detail = f"{limit.param} would sum to {total} in {limit.per // 60_000} minutes; at most {limit.at_most}."
            return refuse(Reason.LIMIT_EXCEEDED, detail, param=limit.param, at_most=limit.at_most)
    return None


def _amount(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
