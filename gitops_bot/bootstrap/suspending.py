"""A person on the host stops somebody's keys and accounts at once, on every surface, and later takes that back.

The row, its ledger entry and a look at every grant that waits are one transaction: a decision that commits after it
sees it (`authority.suspension`). Reinstating is the host's, or an adopted bundle's that gives the person other keys.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from gitops_bot.core.errors import Fact, Reason, Refusal, refuse
from gitops_bot.core.ledger import Entry, EventKind
from gitops_bot.core.principals import PrincipalKind, PrincipalName
from gitops_bot.policy.model import Policy
from gitops_bot.policy.rules import obstacle
from gitops_bot.store import due, grants_read, ledger, signed_votes, suspensions
from gitops_bot.store.engine import Database


@dataclass(frozen=True, slots=True)
class Suspended:
    """What suspending did: grants that count the person's vote and are looked at now, and the verbs that cannot reach
    their threshold while they are suspended."""

    person: PrincipalName
    grants: tuple[str, ...]
    unreachable: tuple[str, ...]


def suspend(database: Database, policy: Policy, name: str, reason: str | None) -> Suspended:
    """Suspend a human of the policy.

    Raises:
        Refusal: the policy knows no such person, or they are suspended.
    """
    from gitops_bot.signed.barrier import SPEND

    person = _human(policy, name)
    with database.write() as tx:
        if person in suspensions.suspended(tx):
            raise Refusal(refuse(Reason.SUSPENDED, f"{person} is suspended already."))
        suspensions.suspend(tx, person, reason)
        grants = grants_read.minted(tx)
        counted = [
            one.id for one in grants if any(vote.principal == person for vote in signed_votes.of_ask(tx, one.ask))
        ]
        for grant in counted:
            due.set_due(tx, SPEND, grant, tx.now)
        facts: dict[str, Fact] = {"by": "host", "why": reason, "grants": tuple(counted)}
        ledger.append(tx, Entry(EventKind.PERSON_SUSPENDED, tx.now, principal=person, facts=facts))
        standing = suspensions.suspended(tx)
    return Suspended(person, tuple(counted), tuple(unreachable(policy, standing)))


def lift(database: Database, policy: Policy, name: str, reason: str | None) -> PrincipalName:
    """Reinstate somebody whom the host suspended; a suspension of the policy's own stays.

    Raises:
        Refusal: the policy knows no such person, or nobody suspended them.
    """
    person = _human(policy, name)
    with database.write() as tx:
        if person not in suspensions.suspended(tx):
            raise Refusal(refuse(Reason.NOT_FOUND, f"Nobody on this host suspended {person}."))
        suspensions.lift(tx, person, reason)
        facts: dict[str, Fact] = {"by": "host", "why": reason}
        ledger.append(tx, Entry(EventKind.PERSON_REINSTATED, tx.now, principal=person, facts=facts))
    return person


def unreachable(policy: Policy, suspended: Sequence[str] | frozenset[PrincipalName]) -> list[str]:
    """Name the verbs whose threshold cannot be reached without some people, whoever asks."""
    found = []
    for rule in policy.verbs.values():
        able = [
            one for one in rule.voters.people if one not in suspended and obstacle(policy.people[one], rule) is None
        ]
        if len(able) < rule.approve and not rule.voters.undeclared and not rule.voters.owner:
            found.append(rule.name)
    return found


def _human(policy: Policy, name: str) -> PrincipalName:
    found = policy.people.get(PrincipalName(name))
    if found is None or found.principal.kind is not PrincipalKind.HUMAN:
        people = ", ".join(one for one, who in policy.people.items() if who.principal.kind is PrincipalKind.HUMAN)
        detail = f"The policy knows no person {ascii(name)[1:-1][:40]}; it knows {people or 'none'}."
        raise Refusal(refuse(Reason.UNKNOWN_PRINCIPAL, detail))
    return found.principal.name
