"""Several bound answers of one person at once: at most 20, of one verb, never of high risk; each has its own result.

An answer that is refused (its ask ended or moved meanwhile) is one result and stops none of the others. All are one
transaction with the assertion over their list, so that the challenge is used up exactly when its answers are stored.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from gitops_bot.authority.rules import Rules
from gitops_bot.authority.settling import Counted, Revoked, Settled, Voice, answer
from gitops_bot.core.asks import Ask, AskKind
from gitops_bot.core.errors import Reason, Refused, Unavailable, refuse
from gitops_bot.core.statements import MOST_IN_BATCH
from gitops_bot.core.verdicts import Answer
from gitops_bot.policy.lookup import NeedsPermission
from gitops_bot.policy.model import Risk
from gitops_bot.store import asks
from gitops_bot.store.engine import Tx


@dataclass(frozen=True, slots=True)
class Item:
    """One answer of a batch: the ask, what is said, and whose voice with its own part of the assertion."""

    ask: str
    given: Answer
    voice: Voice


@dataclass(frozen=True, slots=True)
class Answered:
    """What became of one item."""

    ask: str
    result: Settled | Counted | Revoked | Refused


def answer_batch(tx: Tx, rules: Rules, items: Sequence[Item]) -> tuple[Answered, ...] | Refused:
    """Take each answer, and give what became of each in the order given; or refuse the batch as one, with nothing done.

    That the person is who they say is *not* checked, and the assertions are settling's to compare.

    Raises:
        Unavailable: the forge has to be asked for a permission first; nothing was done.
    """
    # Locked in one order, whatever order they were shown in: two batches over the same asks never wait for each other.
    found = {ask_id: asks.get(tx, ask_id, lock=True) for ask_id in sorted({item.ask for item in items})}
    refused = _unfit(rules, items, [ask for ask in found.values() if ask is not None])
    if refused is not None:
        return refused
    return tuple(Answered(item.ask, _one(tx, rules, item)) for item in items)


def _one(tx: Tx, rules: Rules, item: Item) -> Settled | Counted | Revoked | Refused:
    result = answer(tx, rules, item.ask, item.given, item.voice)
    if isinstance(result, NeedsPermission):
        raise Unavailable("a permission on the forge was not read")
    return result


def _unfit(rules: Rules, items: Sequence[Item], found: Sequence[Ask]) -> Refused | None:
    if not items:
        return refuse(Reason.EMPTY, "A batch without an answer.")
    if len(items) > MOST_IN_BATCH:
        return refuse(Reason.LIMIT_EXCEEDED, f"A batch has at most {MOST_IN_BATCH} answers.", most=MOST_IN_BATCH)
    if len({item.ask for item in items}) < len(items):
        return refuse(Reason.BAD_PARAMS, "A batch names no ask twice.")
    if any(ask.kind is AskKind.GATED for ask in found):
        return refuse(Reason.GATED, "Signed commits answer it, one at a time.")
    if any(ask.kind is AskKind.QUESTION for ask in found):
        return refuse(Reason.BAD_PARAMS, "Plain questions are answered one at a time: each has its own options.")
    verbs = {ask.verb for ask in found}
    if len(verbs) > 1:
        return refuse(Reason.BAD_PARAMS, "A batch is of one verb.", verbs=tuple(sorted(str(verb) for verb in verbs)))
    rule = rules.policy.verbs.get(next(iter(verbs), None) or "")
    if rule is not None and rule.risk is Risk.HIGH:
        return refuse(Reason.BAD_PARAMS, "A verb of high risk is answered one at a time.", verb=rule.name)
    return None
