"""What was spent of a verb within its longest window, for its limits: at the ask, and again at the spend."""

from gitops_bot.authority.rules import params_of
from gitops_bot.core.canonical import action_hash
from gitops_bot.core.errors import Reason, Refused, refuse
from gitops_bot.policy.limits import Spent, check_limits, longest
from gitops_bot.policy.model import VerbRule
from gitops_bot.store import executions
from gitops_bot.store.engine import Tx


def over_limit(tx: Tx, rule: VerbRule, action: bytes) -> Refused | None:
    """Refuse an action that does not fit beside what was spent lately; None when it does, or nothing is limited.

    What was spent counts by the bytes that were approved: where a row holds others, nothing fits.
    """
    if not rule.limits:
        return None
    spent: list[Spent] = []
    for earlier, approved, at in executions.spent_actions(tx, rule.name, tx.now - longest(rule)):
        if action_hash(earlier) != approved:
            return refuse(Reason.LIMIT_EXCEEDED, "What was spent before cannot be summed: its bytes were changed.")
        spent.append(Spent(params_of(earlier), at))
    return check_limits(rule, params_of(action), spent, tx.now)
