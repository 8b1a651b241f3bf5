"""Agents come into being on the host: a row, a token that is shown once, two ledger entries, in one transaction."""

import re
from typing import Final

from gitops_bot.core.errors import Reason, Refusal, Refused, refuse
from gitops_bot.core.ledger import Entry, EventKind
from gitops_bot.core.principals import PrincipalKind, PrincipalName
from gitops_bot.policy.model import Policy
from gitops_bot.store import agents, ledger
from gitops_bot.store.engine import Database
from gitops_bot.store.states import AgentKind, TokenScope

SLUG: Final = re.compile(r"[a-z][a-z0-9-]{0,62}", re.ASCII)
MAX_PURPOSE: Final = 500


def add_agent(
    database: Database,
    policy: Policy,
    *,
    slug: str,
    principal: str,
    owner: str | None = None,
    purpose: str = "",
    loop: bool = False,
) -> tuple[agents.Agent, str]:
    """Add an agent that acts as a service of the policy; give it with its token, which nobody can read again.

    `owner` is the person it belongs to, the service's owner when None. With `loop` the token registers loops and does
    nothing else; without, it asks as an application.

    Raises:
        Refusal: a slug that is taken or of a wrong form, no such service, or no such person.
    """
    service = policy.people.get(PrincipalName(principal))
    named = PrincipalName(owner) if owner else (service.principal.owner if service else None)
    wrong = _wrong(policy, slug, principal, named, purpose)
    if wrong is not None:
        raise Refusal(wrong)
    kind, scope = (AgentKind.LOOP, TokenScope.LOOP) if loop else (AgentKind.APPLICATION, TokenScope.AGENT)
    with database.write() as tx:
        if agents.by_slug(tx, slug) is not None:
            raise Refusal(refuse(Reason.ALREADY_SETTLED, f"There is an agent {slug}; choose another name.", slug=slug))
        agent = agents.add(tx, slug, kind, PrincipalName(principal), named, purpose)
        token = agents.issue_token(tx, agent.id, scope)
        by = {"agent": agent.id, "principal": agent.principal}
        ledger.append(
            tx,
            Entry(EventKind.AGENT_ADDED, tx.now, facts={"slug": slug, "kind": kind.value, "owner": named}, **by),
            Entry(EventKind.TOKEN_ISSUED, tx.now, facts={"slug": slug, "scope": scope.value}, **by),
        )
    return agent, token


def _wrong(policy: Policy, slug: str, principal: str, owner: PrincipalName | None, purpose: str) -> Refused | None:
    if not SLUG.fullmatch(slug):
        return refuse(Reason.BAD_PARAMS, "A slug is a letter, then letters, digits and dashes, all lower-case.")
    if len(purpose) > MAX_PURPOSE or not purpose.isprintable():
        return refuse(Reason.BAD_PARAMS, f"A purpose is one printable line of at most {MAX_PURPOSE} characters.")
    service = policy.people.get(PrincipalName(principal))
    if service is None or service.principal.kind is not PrincipalKind.SERVICE:
        services = ", ".join(name for name, one in policy.people.items() if one.principal.kind is PrincipalKind.SERVICE)
        return refuse(Reason.UNKNOWN_PRINCIPAL, f"The policy knows no such service; it knows {services or 'none'}.")
    person = None if owner is None else policy.people.get(owner)
    if owner is not None and (person is None or person.principal.kind is not PrincipalKind.HUMAN):
        return refuse(Reason.UNKNOWN_PRINCIPAL, f"The policy knows no person {owner[:40]!r}.")
    return None
