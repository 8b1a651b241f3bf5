"""Why the policy asks, in sentences: who may answer, how many, where, which tier and why, until when, within what.

Every sentence is made from the rule that decides the ask under the policy in force; none from anybody's words.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from gitops_bot.authority.card_values import plain, show
from gitops_bot.authority.shown import Surroundings, Voter
from gitops_bot.core.asks import Ask
from gitops_bot.core.durations import show_duration
from gitops_bot.core.principals import PrincipalName
from gitops_bot.core.verdicts import Channel
from gitops_bot.policy.diff import show_voters
from gitops_bot.policy.model import KeyKind, Policy, SumLimit, VerbRule
from gitops_bot.policy.params import Condition
from gitops_bot.policy.rules import excluded, stands

WHERE: Final = {
    Channel.WORKSPACE: "here in the workspace",
    Channel.FORGE: "by a comment on the pull request",
    Channel.OPERATOR: "by the operator at the loop's bridge",
    Channel.APP: "on the application's own page",
    Channel.SIGNED: "by signed commits alone",
}
_KEYS: Final = {
    KeyKind.ANY: "Any key counts that the policy names, so whatever runs as a signer can approve as that person.",
    KeyKind.PRESENCE: "Only security keys count, touched for each signature.",
    KeyKind.VERIFIED: "Only security keys count, touched and unlocked (PIN or finger) for each signature.",
}


def policy_sentences(rule: VerbRule, ask: Ask) -> tuple[str, ...]:
    """Say why and how the policy has this ask decided."""
    return tuple(_sentences(rule, ask))


def _sentences(rule: VerbRule, ask: Ask) -> Iterator[str]:
    what = "A plain question" if rule.question else rule.name
    who = show_voters(rule.voters)
    if rule.question:
        yield f"A plain question is answered by the first of: {who}."
    else:
        yield f"{what} needs {rule.approve} to approve and {rule.deny} to deny, of: {who}."
    yield f"It can be answered {_listed([WHERE[channel] for channel in sorted(rule.channels)])}."
    if rule.tier is not None:
        because = _listed([_condition(one) for one in rule.tiers[rule.tier - 1].where])
        yield f"Tier {rule.tier} of {what} applies, because {because}."
    elif rule.tiers:
        yield f"None of its {len(rule.tiers)} tiers applies to these parameters."
    if ask.candidates:
        yield f"It was put to {_listed(list(ask.candidates))}; nobody else answers it."
    yield from _barred(rule, ask)
    if rule.expires and ask.expires_at is not None:
        yield f"It expires after {show_duration(ask.expires_at - ask.opened_at)}; expiry never approves."
    if rule.gated:
        yield from _gated(rule)
    elif not rule.question:
        yield f"An approval of the very same action serves for {show_duration(rule.reuse)}."


def _barred(rule: VerbRule, ask: Ask) -> Iterator[str]:
    for name in sorted(excluded(rule, ask.requester, ask.owner)):
        part = "asked for it" if name == ask.requester else "owns the agent that asks"
        yield f"{plain(name)} {part}, and cannot approve it."


def _gated(rule: VerbRule) -> Iterator[str]:
    if rule.keys is not None and rule.keys is not KeyKind.ANY:  # that one is a warning
        yield _KEYS[rule.keys]
    delay = f"waits {show_duration(rule.delay)} and " if rule.delay else ""
    yield f"A grant {delay}can be spent up to {show_duration(rule.spend_within)} after it was minted."
    for limit in rule.limits:
        yield f"At most {limit.at_most:,} {_limit(limit)}, checked when it is asked and when it is spent."


def _limit(limit: SumLimit) -> str:
    apart = f" for each {' and '.join(limit.by)}" if limit.by else ""
    return f"of {limit.param} within {show_duration(limit.per)}{apart}"


def _condition(condition: Condition) -> str:
    if condition.values:
        return f"{condition.param} is {_listed([show(value) for value in condition.values], 'or')}"
    low, high = condition.at_least, condition.at_most
    if low is not None and high is not None:
        return f"{condition.param} is from {low} to {high}"
    return f"{condition.param} is at least {low}" if low is not None else f"{condition.param} is at most {high}"


def _listed(words: Sequence[str], last: str = "and") -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}" if words else "nowhere"


def warnings_of(rule: VerbRule, surroundings: Surroundings) -> tuple[str, ...]:
    """Say what weakens an answer to this ask; shown on every card that it concerns."""
    found = []
    if rule.accept_no_spare:
        found.append(
            "accept_no_spare: with the asking agent's owner away nobody is to spare; all the others must sign."
        )
    if rule.gated and rule.keys is KeyKind.ANY:
        found.append(_KEYS[KeyKind.ANY])
    if rule.gated and surroundings.shared_uid:
        found.append(
            "shared_uid: agents on this host may run as the broker's user, and could read its keys and database;"
            " SECURITY.md says what that means."
        )
    return tuple(found)


def voters_shown(policy: Policy, rule: VerbRule, ask: Ask, said: dict[PrincipalName, str]) -> tuple[Voter, ...]:
    """Name whom the rule lets answer, what each said, and why one cannot approve. Suspended people are named, too."""
    named = dict.fromkeys(rule.voters.people)
    if rule.voters.owner and ask.owner is not None:
        named[ask.owner] = None
    barred = excluded(rule, ask.requester, ask.owner)
    return tuple(Voter(name, said.get(name), _why_not(policy, ask, barred, name)) for name in named)


def _why_not(policy: Policy, ask: Ask, barred: frozenset[PrincipalName], name: PrincipalName) -> str | None:
    if not stands(policy, name):
        return "is suspended, or no person of the policy any more"
    if ask.candidates and name not in ask.candidates:
        return "is not among its candidates"
    if name in barred:
        return "asked for it" if name == ask.requester else "owns the agent that asks; may deny"
    return None
