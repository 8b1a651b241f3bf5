"""Agents come into being on the host: a row, a token that is shown once, two ledger entries, in one transaction."""

from gitops_bot.authority import agents as acts
from gitops_bot.core.errors import Refusal, Refused
from gitops_bot.core.principals import PrincipalName
from gitops_bot.policy.model import Policy
from gitops_bot.store import agents
from gitops_bot.store.engine import Database


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
    with database.write() as tx:
        added = acts.add(tx, policy, acts.Wanted(slug, principal, named, purpose, loop))
        if isinstance(added, Refused):
            raise Refusal(added)
    return added.agent, added.token
