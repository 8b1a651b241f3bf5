"""Two policies become sentences that say what changes for people: who gains, who loses, what takes more and what less.

Nothing that differs goes unsaid: what no sentence below covers is named as changed.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields

from gitops_bot.core.durations import show_duration
from gitops_bot.core.principals import IdentityKind, PrincipalName
from gitops_bot.policy.model import QUESTION, Person, Policy, SshKey, SumLimit, Tier, VerbRule, Voters

_IDENTITY: Mapping[IdentityKind, str] = {
    IdentityKind.GITHUB: "GitHub account",
    IdentityKind.PASSKEY: "passkey",
    IdentityKind.OIDC: "sign-in",
    IdentityKind.OPENPGP: "OpenPGP certificate",
    IdentityKind.SSH: "SSH key",
}


def difference(old: Policy, new: Policy) -> tuple[str, ...]:
    """Say in plain sentences how `new` differs from `old`; none when the bundles are the same bytes."""
    if old.digest == new.digest:
        return ()
    said = (*_people(old.people, new.people), *_rules(old, new))
    head = f"Version {old.version} becomes version {new.version}."
    return (head, *(said or ("Only comments or the order of the files change; every rule stays as it is.",)))


def _people(old: Mapping[PrincipalName, Person], new: Mapping[PrincipalName, Person]) -> Iterator[str]:
    for name in sorted(old.keys() | new.keys()):
        before, after = old.get(name), new.get(name)
        if before is None and after is not None:
            yield f"{name} joins as a {after.principal.kind.value}{_holding(after)}."
        elif after is None:
            yield f"{name} is removed; the name is never used again."
        elif before is not None and before != after:
            yield from _person(name, before, after)


def _holding(person: Person) -> str:
    held = [f"{_IDENTITY[identity.kind]} {identity.value[:80]}" for identity in person.principal.identities]
    owner = person.principal.owner
    owned = f", owned by {owner}" if owner is not None else ""
    return owned + (f", with {', '.join(held)}" if held else ", without any identity")


def _person(name: PrincipalName, before: Person, after: Person) -> Iterator[str]:
    old, new = before.principal, after.principal
    if old.kind is not new.kind:
        yield f"{name} was a {old.kind.value} and becomes a {new.kind.value}."
    if old.owner != new.owner:
        yield f"The owner of {name} changes from {old.owner or 'nobody'} to {new.owner or 'nobody'}."
    if old.role != new.role:
        yield f"The role of {name} changes from {old.role or 'none'} to {new.role or 'none'}."
    if old.suspended != new.suspended:
        yield f"{name} is suspended." if new.suspended else f"{name} is reinstated."
    for identity in new.identities:
        if identity not in old.identities:
            yield f"{name} gains the {_IDENTITY[identity.kind]} {identity.value[:80]}."
    for identity in old.identities:
        if identity not in new.identities:
            yield f"{name} loses the {_IDENTITY[identity.kind]} {identity.value[:80]}."
    certificates = {certificate.facts.fingerprint: certificate for certificate in before.openpgp}
    for certificate in after.openpgp:
        fingerprint = certificate.facts.fingerprint
        if fingerprint in certificates and certificates[fingerprint] != certificate:
            yield f"The OpenPGP certificate {fingerprint} of {name} changes."
    lines: dict[str, SshKey] = {key.line: key for key in before.ssh}
    for key in after.ssh:
        if key.line in lines and lines[key.line] != key:
            yield f"The dates of the SSH key {key.key.fingerprint} of {name} change."


def _rules(old: Policy, new: Policy) -> Iterator[str]:
    before, after = dict(old.verbs), dict(new.verbs)
    if old.question is not None:
        before[QUESTION] = old.question
    if new.question is not None:
        after[QUESTION] = new.question
    for name in sorted(before.keys() | after.keys()):
        what = "Plain questions" if name == QUESTION else name
        if name not in before:
            yield f"{what} can now be decided: {_whole(after[name])}."
        elif name not in after:
            yield f"{what} can no longer be {'answered' if name == QUESTION else 'decided'} by anybody."
        elif before[name] != after[name]:
            yield from _rule(what, before[name], after[name])


def _whole(rule: VerbRule) -> str:
    gated = f"gated, keys {rule.keys.value}, " if rule.keys is not None else ""
    return f"{gated}by {show_voters(rule.voters)}, {rule.approve} to approve, through {_listed(rule.channels)}"


def _rule(what: str, old: VerbRule, new: VerbRule) -> Iterator[str]:
    if old.gated != new.gated:
        yield f"{what} becomes gated." if new.gated else f"{what} is no longer gated."
    yield from _moved(what, "can be answered through", old.channels, new.channels)
    yield from _voters(what, old.voters, new.voters)
    for key, verb in (("approve", "approving"), ("deny", "denying")):
        before, after = getattr(old, key), getattr(new, key)
        if before != after:
            yield f"For {what} {verb} takes {after} instead of {before}."
    for key, noun in (("expires", "An ask expires after"), ("delay", "A grant waits"), ("reuse", "An approval serves")):
        before, after = getattr(old, key), getattr(new, key)
        if before != after:
            yield f"{noun} {show_duration(after)} instead of {show_duration(before)} for {what}."
    if old.keys is not new.keys and old.keys is not None and new.keys is not None:
        yield f"For {what} keys must be {new.keys.value} instead of {old.keys.value}."
    if old.risk is not new.risk:
        yield f"The risk of {what} is {new.risk.value} instead of {old.risk.value}."
    if old.accept_no_spare != new.accept_no_spare:
        yield f"{what} {'no longer' if new.accept_no_spare else 'again'} keeps one voter to spare."
    if old.owner_may_approve != new.owner_may_approve:
        yield f"The owner of the asking agent may {'now' if new.owner_may_approve else 'no longer'} approve {what}."
    yield from _tiers(what, old.tiers, new.tiers)
    if old.limits != new.limits:
        yield from _limits(what, old.limits, new.limits)
    for key, noun in (("summary", "summary"), ("params", "parameters"), ("executor", "executor")):
        if getattr(old, key) != getattr(new, key):
            yield f"The {noun} of {what} change{'s' if key in ('summary', 'executor') else ''}."


def _limits(what: str, old: tuple[SumLimit, ...], new: tuple[SumLimit, ...]) -> Iterator[str]:
    before, after = set(old) - set(new), set(new) - set(old)
    if not before | after:
        yield f"The limits of {what} change."
    for limit in sorted(before, key=_limit):
        yield f"The sum of {_limit(limit)} in {what} no longer ends at {limit.at_most}."
    for limit in sorted(after, key=_limit):
        yield f"The sum of {_limit(limit)} in {what} may be at most {limit.at_most} now."


def _limit(limit: SumLimit) -> str:
    apart = f" for each {' and '.join(limit.by)}" if limit.by else ""
    return f"{limit.param} within {show_duration(limit.per)}{apart}"


def _voters(what: str, old: Voters, new: Voters) -> Iterator[str]:
    for name in new.people:
        if name not in old.people:
            yield f"{name} may now vote on {what}."
    for name in old.people:
        if name not in new.people:
            yield f"{name} may no longer vote on {what}."
    if old.owner != new.owner:
        yield f"The asking agent's owner may {'now' if new.owner else 'no longer'} vote on {what}."
    if old.undeclared != new.undeclared:
        yield f"Accounts that nobody declared may {'now' if new.undeclared else 'no longer'} vote on {what}."
    if old.github_permission is not new.github_permission:
        before, after = (floor.value if floor else "none" for floor in (old.github_permission, new.github_permission))
        yield f"The permission that voters on {what} need changes from {before} to {after}."
    if old.team != new.team:
        yield f"The team that voters on {what} must be in changes from {old.team or 'none'} to {new.team or 'none'}."


def _tiers(what: str, old: tuple[Tier, ...], new: tuple[Tier, ...]) -> Iterator[str]:
    if len(old) != len(new):
        yield f"{what} has {len(new)} tiers instead of {len(old)}."
    for number, (before, after) in enumerate(zip(old, new, strict=False), 1):
        changed = [field.name for field in fields(Tier) if getattr(before, field.name) != getattr(after, field.name)]
        if changed:
            yield f"Tier {number} of {what} changes its {', '.join(changed)}."


def _moved(what: str, verb: str, old: Iterable[str], new: Iterable[str]) -> Iterator[str]:
    gained, lost = set(new) - set(old), set(old) - set(new)
    if gained:
        yield f"{what} {verb} {_listed(gained)} now."
    if lost:
        yield f"{what} {verb} {_listed(lost)} no longer."


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


def show_voters(voters: Voters) -> str:
    """Name who may vote, with the floors, in a few words."""
    who: list[str] = [*voters.people]
    if voters.owner:
        who.append("the asking agent's owner")
    if voters.undeclared:
        who.append("any account on the forge")
    floors: list[str] = []
    if voters.github_permission is not None:
        floors.append(f"{voters.github_permission.value} permission")
    if voters.team is not None:
        floors.append(f"membership of team {voters.team}")
    return ", ".join(who) + (f" with {' and '.join(floors)}" if floors else "")
