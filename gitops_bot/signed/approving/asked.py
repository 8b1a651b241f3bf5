"""What a person may say on a request under the policy that this machine pins, decided before anything is signed.

Pure: a request and a policy become a rule or a refusal. That the bytes of both are the right ones, and whether the ask
still stands at the broker, is *not* checked: the broker's receipt says so.
"""

from dataclasses import dataclass
from typing import Final

from gitops_bot.core.asks import Ask, AskKind, AskState, Binding
from gitops_bot.core.canonical import Digest, action_bytes
from gitops_bot.core.errors import Malformed, Reason, Refused, refuse
from gitops_bot.core.principals import PrincipalKind, PrincipalName
from gitops_bot.core.verdicts import Channel as Surface
from gitops_bot.core.verdicts import Decision
from gitops_bot.policy.lookup import Allowed, lookup, may_vote
from gitops_bot.policy.model import Person, Policy, VerbRule
from gitops_bot.policy.summary import render
from gitops_bot.signed.rendering import Request

_PEOPLE_SHOWN: Final = 20


@dataclass(frozen=True, slots=True)
class Home:
    """What this machine was set up for: requests of anything else are another's."""

    repository: str
    repository_id: int
    environment: str
    epoch: int
    policy: Digest


def belongs(request: Request, home: Home) -> Refused | None:
    """Refuse a request of another repository, environment, epoch or policy than this machine's."""
    if request.environment != home.environment:
        detail = f"It is of the environment {request.environment}, and this machine signs for {home.environment}."
        return refuse(Reason.NOT_FOUND, detail, environment=request.environment)
    if (request.repository, request.repository_id) != (home.repository, home.repository_id):
        detail = (
            f"It is of {request.repository} ({request.repository_id}), and this machine signs for {home.repository}"
            f" ({home.repository_id}). A repository of the same name is another one."
        )
        return refuse(Reason.NOT_FOUND, detail, repository=request.repository)
    if request.epoch < home.epoch:
        detail = f"It is of epoch {request.epoch}, and this machine has seen epoch {home.epoch}."
        return refuse(Reason.EPOCH, detail, epoch=request.epoch)
    if request.policy != home.policy:
        detail = (
            f"It binds {request.policy}, and this machine pins {home.policy}. If it is older, answer the ask that"
            " replaced it; if it is newer, its adoption could not be verified here: compare the words of"
            " `gitops-bot trust show` on the broker's host and run `gitops-bot approval trust --pin DIGEST`."
        )
        return refuse(Reason.STALE_POLICY, detail, asked=request.policy, pinned=home.policy)
    return None


def rule_for(policy: Policy, request: Request) -> VerbRule | Refused:
    """Find the rule of a request's action, whose own sentence must be the request's summary."""
    rule = lookup(policy, request.verb, request.params)
    if isinstance(rule, Refused):
        return rule
    if not rule.gated or rule.summary is None:
        return refuse(Reason.WRONG_CHANNEL, f"{request.verb} is not gated by the policy; nobody signs for it.")
    try:
        summary = render(rule.summary, request.params)
    except Malformed as error:
        return refuse(Reason.BAD_PARAMS, str(error))
    if summary != request.summary:
        detail = f'The policy says "{summary}" of these parameters, and the request another sentence. Do not sign it.'
        return refuse(Reason.BYTES_DIFFER, detail)
    return rule


def may_say(
    policy: Policy, rule: VerbRule, request: Request, person: PrincipalName, decision: Decision, now: int
) -> Person | Refused:
    """Decide whether a person may say this on a request at a time in ms; give them as the policy has them."""
    found = policy.people.get(person)
    if found is None or found.principal.kind is not PrincipalKind.HUMAN:
        people = [name for name, one in policy.people.items() if one.principal.kind is PrincipalKind.HUMAN]
        detail = f"The pinned policy knows no person {person}; it knows {', '.join(people[:_PEOPLE_SHOWN])}."
        return refuse(Reason.UNKNOWN_PRINCIPAL, detail)
    allowed = may_vote(
        policy,
        rule,
        found.principal,
        Surface.SIGNED,
        decision=decision,
        requester=request.requester,
        agent_owner=owner_of(policy, request),
    )
    if isinstance(allowed, Refused):
        return allowed
    if not isinstance(allowed, Allowed):
        return refuse(Reason.NOT_AUTHORISED, "The policy asks for a permission on the forge.", person=person)
    if decision is Decision.APPROVE and request.expires_at <= now:
        return refuse(Reason.EXPIRED, "Have it asked again; expiry never approves.", expires_at=request.expires_at)
    return found


def owner_of(policy: Policy, request: Request) -> PrincipalName | None:
    """Name whom the policy says owns the asker."""
    requester = policy.people.get(request.requester)
    return None if requester is None else requester.principal.owner


def ask_of(policy: Policy, request: Request) -> Ask:
    """Give the ask that a request speaks of, as open, its asker's owner as the policy has it."""
    return Ask(
        id=request.ask,
        kind=AskKind.GATED,
        state=AskState.OPEN,
        verb=request.verb,
        text=request.summary,
        why="",
        action=action_bytes(request.repository, request.environment, request.verb, request.params),
        binding=Binding(request.action_hash, request.policy, request.run_version),
        options=(),
        candidates=(),
        agent="",
        run=request.run,
        requester=request.requester,
        owner=owner_of(policy, request),
        opened_at=request.opened_at,
        expires_at=request.expires_at,
    )
