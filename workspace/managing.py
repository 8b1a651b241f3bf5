"""What people do with agents over HTTP: add, pause, resume, retire, write to; each confirmed with a passkey but the
last. Each function is one service: the person is looked at again inside its own transaction.

What stays of a retired agent is decided here too: captures that somebody else waits for go on without it.
"""

from collections.abc import Callable, Mapping

from gitops_bot.api.person.grammar import AgentBody
from gitops_bot.authority import agents as acts
from gitops_bot.authority.agents import Added, Author, Changed, Wanted
from gitops_bot.authority.sessions import Person
from gitops_bot.authority.suspension import standing_policy
from gitops_bot.bootstrap.workspace import Services
from gitops_bot.core.canonical import Value
from gitops_bot.core.errors import Reason, Refusal, Refused, refuse
from gitops_bot.core.principals import PrincipalName
from gitops_bot.store import agents
from gitops_bot.store.engine import Tx
from workspace.asking import ASKING
from workspace.auth.people import again, confirmed
from workspace.callers import authenticate
from workspace.capturing import leave_all

Work = Callable[[Tx, PrincipalName], "Changed | Refused"]


def add(services: Services, person: Person, body: AgentBody) -> Added:
    """Add an agent that belongs to the person.

    Raises:
        Refusal: the answer is no; `assertion_required` with the act that is to be confirmed.
    """
    act: dict[str, Value] = {
        "act": "agent.add",
        "slug": body.slug,
        "principal": body.principal,
        "purpose": body.purpose,
        "loop": body.loop,
    }

    def work(tx: Tx) -> Added | Refused:
        one = again(tx, person)
        given = confirmed(tx, one, act)
        if isinstance(given, Refused):
            return given
        policy = standing_policy(tx, services.rules.policy)
        wanted = Wanted(body.slug, body.principal, one.principal.name, body.purpose, body.loop)
        return acts.add_own(tx, policy, wanted, one.principal.name)

    return services.decide(work)


def pause(services: Services, person: Person, slug: str, reason: str) -> Changed:
    """Pause an agent.

    Raises:
        Refusal: as `add`.
    """
    act: dict[str, Value] = {"act": "agent.pause", "slug": slug}
    return _confirmed(services, person, slug, act, lambda tx, by: acts.pause(tx, slug, by, reason))


def resume(services: Services, person: Person, slug: str) -> Changed:
    """Resume a paused agent, or start a draft.

    Raises:
        Refusal: as `add`.
    """
    act: dict[str, Value] = {"act": "agent.resume", "slug": slug}
    return _confirmed(services, person, slug, act, lambda tx, by: acts.resume(tx, slug, by))


def retire(services: Services, person: Person, slug: str, reason: str) -> Changed:
    """Retire an agent for good.

    Raises:
        Refusal: as `add`.
    """
    act: dict[str, Value] = {"act": "agent.retire", "slug": slug}

    def work(tx: Tx, by: PrincipalName) -> Changed | Refused:
        agent = agents.by_slug(tx, slug)
        assert agent is not None
        others = leave_all(tx, agent, by, reason or f"the agent {slug} was retired")
        return acts.retire(tx, slug, by, reason, wanted_by_others=others)

    return _confirmed(services, person, slug, act, work)


def _confirmed(services: Services, person: Person, slug: str, act: Mapping[str, Value], work: Work) -> Changed:
    def decide(tx: Tx) -> Changed | Refused:
        one = again(tx, person)
        # Nobody is asked for their passkey for an agent that is not there.
        if agents.by_slug(tx, slug) is None:
            return refuse(Reason.NOT_FOUND, "There is no such agent.")
        given = confirmed(tx, one, act)
        return given if isinstance(given, Refused) else work(tx, one.principal.name)

    return services.decide(decide)


def post_as_person(services: Services, person: Person, slug: str, text: str) -> int:
    """Write to an agent's thread as a person; give the message's number. It answers nothing.

    Raises:
        Refusal: there is no such agent, it says nothing, or too much was said lately.
    """

    def work(tx: Tx) -> int | Refused:
        who = again(tx, person).principal.name
        agent = agents.by_slug(tx, slug)
        if agent is None:
            return refuse(Reason.NOT_FOUND, "There is no such agent.")
        return acts.post(tx, agent, Author("person", who, who), text)

    return services.decide(work)


def post_as_agent(services: Services, token: str, slug: str, text: str) -> int:
    """Write to the thread of the token's own agent, as that agent, whatever the words say; give the message's number.

    Raises:
        Refusal: as `post_as_person`; another agent's thread is not there.
    """

    def work(tx: Tx) -> int | Refused:
        caller = authenticate(tx, token)
        caller.require(*ASKING)
        if caller.agent.slug != slug:
            return refuse(Reason.NOT_FOUND, "There is no such agent.")
        author = Author("agent", caller.agent.slug, caller.agent.principal, caller.run_id)
        return acts.post(tx, caller.agent, author, text)

    return services.decide(work)


def own_agent(services: Services, token: str) -> agents.Agent:
    """Read the agent that a token stands for.

    Raises:
        Refusal: the token is for something else.
    """
    with services.database.read() as tx:
        caller = authenticate(tx, token)
        caller.require(*ASKING)
        return caller.agent


def own_thread_agent(services: Services, token: str, slug: str) -> agents.Agent:
    """Read the token's own agent by its slug.

    Raises:
        Refusal: it is another's, or there is none.
    """
    agent = own_agent(services, token)
    if agent.slug != slug:
        raise Refusal(refuse(Reason.NOT_FOUND, "There is no such agent."))
    return agent
