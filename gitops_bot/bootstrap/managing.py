"""What the host does with agents: adds those that its fleet runs, pauses, resumes, retires and wakes them.

The host is no person of the policy: in the ledger it stands as `host`. It answers nothing, here or anywhere.
"""

from collections.abc import Callable
from typing import Final

from gitops_bot.authority import agents as acts
from gitops_bot.authority import fleet_agents
from gitops_bot.authority.agents import Changed, Wanted
from gitops_bot.authority.agents_read import AgentRow, AgentsPage, agent_shown, agents_page
from gitops_bot.authority.rules import Rules
from gitops_bot.core.errors import Malformed, Reason, Refusal, Refused, refuse
from gitops_bot.core.principals import PrincipalName
from gitops_bot.fleet import schedule
from gitops_bot.policy.model import Policy
from gitops_bot.store import agents, fleet
from gitops_bot.store.engine import Database, Tx
from gitops_bot.store.fleet import Setup
from gitops_bot.store.states import AgentKind, AgentState

HOST: Final = PrincipalName("host")


def add(
    database: Database, policy: Policy, setup: Setup, *, slug: str, principal: str, owner: str | None, purpose: str
) -> fleet_agents.Added:
    """Add an agent that the fleet runs. `owner` is the service's owner when None.

    Raises:
        Refusal: a name that is taken, no such service or person, or a setup that cannot be.
    """
    service = policy.people.get(PrincipalName(principal))
    named = PrincipalName(owner) if owner else (service.principal.owner if service else None)
    try:
        if setup.cron is not None and setup.zone is not None:
            schedule.check(setup.cron, setup.zone)
    except Malformed as error:
        raise Refusal(refuse(Reason.BAD_PARAMS, error.message)) from error
    with database.write() as tx:
        first = None
        if setup.cron is not None and setup.zone is not None:
            first = schedule.next_after(setup.cron, setup.zone, tx.now)
        wanted = Wanted(slug, principal, named, purpose, loop=False)
        added = fleet_agents.add(tx, policy, wanted, setup, first)
    if isinstance(added, Refused):
        raise Refusal(added)
    return added


def pause(database: Database, slug: str, reason: str) -> Changed:
    """Pause an agent; a turn that runs ends by itself.

    Raises:
        Refusal: there is no such agent, or it is retired.
    """
    return _changed(database, lambda tx: acts.pause(tx, slug, HOST, reason))


def resume(database: Database, slug: str) -> Changed:
    """Resume a paused agent, or start a draft.

    Raises:
        Refusal: as `pause`.
    """
    return _changed(database, lambda tx: acts.resume(tx, slug, HOST))


def retire(database: Database, slug: str, reason: str) -> Changed:
    """Retire an agent for good: what it asked is withdrawn to the backlog, and denied by nobody.

    Raises:
        Refusal: as `pause`.
    """

    def work(tx: Tx) -> Changed | Refused:
        agent = agents.by_slug(tx, slug)
        if agent is not None and agent.kind is AgentKind.LOOP:
            detail = (
                "An agent with loops is retired in the workspace, where the captures that they wait for are let go."
            )
            return refuse(Reason.WRONG_CHANNEL, detail)
        return acts.retire(tx, slug, HOST, reason)

    return _changed(database, work)


def wake(database: Database, slug: str) -> agents.Agent:
    """Make a fleet agent due now, whatever its schedule says.

    Raises:
        Refusal: there is no such agent, no fleet runs it, or people let it rest.
    """
    with database.write() as tx:
        agent = agents.by_slug(tx, slug)
        if agent is None or agent.kind is not AgentKind.AGENT:
            raise Refusal(refuse(Reason.NOT_FOUND, "There is no agent of this name that the fleet runs."))
        if agent.state is not AgentState.ACTIVE:
            detail = f"It is {agent.state.value}; `gitops-bot agent resume {slug}` lets it run again."
            raise Refusal(refuse(Reason.NOT_AUTHORISED, detail))
        fleet.wake(tx, agent.id, "person")
    return agent


def page(database: Database, rules: Rules, after: str, limit: int) -> AgentsPage:
    """Read agents with their derived status."""
    with database.read() as tx:
        return agents_page(tx, rules, after, limit)


def shown(database: Database, rules: Rules, slug: str) -> tuple[AgentRow, fleet.Standing | None]:
    """Read one agent with its derived status, and where it stands in the fleet.

    Raises:
        Refusal: there is no such agent.
    """
    with database.read() as tx:
        row = agent_shown(tx, rules, slug)
        if row is None:
            raise Refusal(refuse(Reason.NOT_FOUND, f"No agent {slug[:64]!r}."))
        return row, fleet.get(tx, row.agent.id)


def _changed(database: Database, work: Callable[[Tx], Changed | Refused]) -> Changed:
    with database.write() as tx:
        changed = work(tx)
    if isinstance(changed, Refused):
        raise Refusal(changed)
    return changed
