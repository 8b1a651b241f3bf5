"""What every decision is made under: the policy in force, the domain of actions, the limits against floods."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gitops_bot.core.asks import Ask, AskKind
from gitops_bot.core.errors import Refused
from gitops_bot.core.strictjson import loads
from gitops_bot.policy.lookup import lookup, lookup_question
from gitops_bot.policy.model import Policy, VerbRule


@dataclass(frozen=True, slots=True)
class AskLimits:
    """Floods: per agent at most so many open gated and bound asks; a denied action rests `repeat_after` ms."""

    max_open_gated: int = 5
    max_open_bound: int = 20
    max_open_questions: int = 100
    repeat_after: int = 24 * 3_600_000


@dataclass(frozen=True, slots=True)
class Rules:
    """The policy in force and the domain: repository as `host/owner/name`, environment by name."""

    policy: Policy
    repository: str
    environment: str
    limits: AskLimits = field(default_factory=AskLimits)


def rule_of(rules: Rules, ask: Ask) -> VerbRule | Refused:
    """Give the rule that an ask is decided by under the policy in force."""
    if ask.kind is AskKind.QUESTION:
        return lookup_question(rules.policy)
    assert ask.verb is not None and ask.action is not None
    return lookup(rules.policy, ask.verb, params_of(ask.action))


def params_of(action: bytes) -> Mapping[str, Any]:
    """Read the parameters out of stored action bytes, which we wrote ourselves."""
    params = loads(action)["params"]
    assert isinstance(params, dict)
    return params
