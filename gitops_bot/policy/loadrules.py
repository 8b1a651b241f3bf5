"""Rules between the parts of one bundle: voters exist, thresholds are reachable, `policy.adopt` is the strictest.

Reachable means: with the asking agent's owner away (the worst case over the bundle's services) and one more voter,
unless the verb says `owner_may_approve` or `accept_no_spare` (design/domain.md, Quorum). Whether a key's dates have
passed needs a clock and is left to `doctor` and to the signed channel.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gitops_bot.core.durations import show_duration
from gitops_bot.core.principals import PrincipalKind, PrincipalName
from gitops_bot.policy.faults import DoesNotLoad, LoadFault
from gitops_bot.policy.model import ADOPT, KeyKind, Person, VerbRule
from gitops_bot.policy.rules import obstacle
from gitops_bot.policy.tables import nearest


@dataclass(frozen=True, slots=True)
class Strictness:
    """A threshold, a key kind and a delay (ms)."""

    approve: int
    keys: KeyKind
    delay: int


def check_rules(
    people: Mapping[PrincipalName, Person], verbs: Mapping[str, VerbRule], question: VerbRule | None
) -> None:
    """Check every rule between people and verbs of one bundle.

    Raises:
        DoesNotLoad: with the first rule that is broken.
    """
    for rule in (*verbs.values(), *(() if question is None else (question,))):
        for tier in rule.every_tier:
            _check_reachable(people, tier)
    demanded = strictest(verbs.values())
    if demanded is not None:
        check_adopt(verbs.get(ADOPT), demanded, "this bundle")


def strictest(rules: Iterable[VerbRule]) -> Strictness | None:
    """Give the highest threshold, key kind and delay of the gated verbs but `policy.adopt`, over all tiers.

    None when there is no such verb.
    """
    gated = [rule for rule in rules if rule.gated and rule.name != ADOPT]
    if not gated:
        return None
    tiers = [tier for rule in gated for tier in rule.every_tier]
    kinds = [rule.keys or KeyKind.ANY for rule in tiers]
    return Strictness(
        max(rule.approve for rule in tiers),
        max(kinds, key=lambda kind: kind.strength),
        max(rule.delay for rule in tiers),
    )


def check_adopt(adopt: VerbRule | None, demanded: Strictness, whose: str) -> None:
    """Hold `policy.adopt` against the strictest gated verb of a bundle.

    Raises:
        DoesNotLoad: it is missing, or weaker in threshold, key kind or delay.
    """
    where = f"verbs.{ADOPT}"
    if adopt is None:
        message = f"{whose} has a gated verb, so {ADOPT} must be there"
        raise DoesNotLoad(LoadFault.ADOPT_MISSING, message, where=where)
    held = adopt.keys or KeyKind.ANY
    if adopt.approve < demanded.approve:
        what = f"approve must be at least {demanded.approve}"
    elif held.strength < demanded.keys.strength:
        what = f'keys must be "{demanded.keys.value}"'
    elif adopt.delay < demanded.delay:
        what = f'delay must be at least "{show_duration(demanded.delay)}"'
    else:
        return
    raise DoesNotLoad(LoadFault.ADOPT_WEAKER, f"{what}, as the strictest gated verb of {whose} has it", where=where)


def _check_reachable(people: Mapping[PrincipalName, Person], rule: VerbRule) -> None:
    where = rule.name if rule.question else f"verbs.{rule.name}"
    if rule.tier is not None:
        where += f".tiers[{rule.tier}]"
    for name in rule.voters.people:
        person = people.get(name)
        if person is None:
            message = f"{name} is nobody in the bundle{nearest(name, tuple(people))}"
            raise DoesNotLoad(LoadFault.VOTERS, message, where=where)
        if person.principal.kind is not PrincipalKind.HUMAN:
            raise DoesNotLoad(LoadFault.VOTERS, f"{name} is a service; a service never votes", where=where)
    able = {name for name in rule.voters.people if obstacle(people[name], rule) is None}
    if rule.gated:
        _check_gated(people, rule, able, where)
    elif not rule.voters.undeclared:
        count = max(len(able), 1 if rule.voters.owner else 0)
        for key, needed in (("approve", rule.approve), ("deny", rule.deny)):
            if count < needed:
                raise _unreachable(where, key, needed, count, "")


def _check_gated(people: Mapping[PrincipalName, Person], rule: VerbRule, able: set[PrincipalName], where: str) -> None:
    owners = {person.principal.owner for person in people.values() if person.principal.owner is not None}
    spare = 0 if rule.accept_no_spare else 1
    owner = 0 if rule.owner_may_approve or not owners & able else 1
    away = [
        *(["the asking agent's owner"] if owner else []),
        *(["one more voter"] if spare else []),
    ]
    left = len(able) - owner - spare
    if left < rule.approve:
        raise _unreachable(where, "approve", rule.approve, max(left, 0), " and ".join(away))
    if len(able) - spare < rule.deny:
        raise _unreachable(where, "deny", rule.deny, max(len(able) - spare, 0), "one more voter" if spare else "")


def _unreachable(where: str, key: str, needed: int, left: int, away: str) -> DoesNotLoad:
    without = f" with {away} away" if away else ""
    message = (
        f"{key} = {needed} is not reachable: {left} could vote{without}; "
        "name more voters with keys and accounts that count, or lower it"
        + (", or say accept_no_spare = true" if "one more" in away else "")
    )
    return DoesNotLoad(LoadFault.UNREACHABLE, message, where=where)
