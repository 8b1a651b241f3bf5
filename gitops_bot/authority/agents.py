"""What people decide about agents, and what is written to an agent's thread: each one change with its ledger row.

A retired agent stays retired: its tokens end, what it asked is withdrawn to the backlog and nothing of it is denied or
approved, all in one transaction. That the person confirmed the act with a passkey just now is *not* checked here.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from gitops_bot.authority.closing import Ended, withdraw
from gitops_bot.core.asks import AskId, is_blank
from gitops_bot.core.errors import Fact, Reason, Refused, refuse
from gitops_bot.core.ledger import Entry, EventKind
from gitops_bot.core.principals import PrincipalKind, PrincipalName
from gitops_bot.core.texts import is_storable, storable
from gitops_bot.policy.model import Policy
from gitops_bot.policy.rules import stands
from gitops_bot.store import agents, asks, fleet, ledger, threads, turns
from gitops_bot.store.engine import Tx
from gitops_bot.store.states import AgentKind, AgentState, CapsuleItem, TokenScope

SLUG: Final = re.compile(r"[a-z][a-z0-9-]{0,62}", re.ASCII)
MAX_PURPOSE: Final = 500
MAX_MESSAGE: Final = 8_000
MAX_REASON: Final = 500
MOST_AN_HOUR: Final = 60
_HOUR: Final = 3_600_000
_PAGE: Final = 100


@dataclass(frozen=True, slots=True)
class Wanted:
    """A new agent: the service of the policy that it acts as, and the person it belongs to (None: nobody). A loop's
    token registers loops and does nothing else; another asks as an application."""

    slug: str
    principal: str
    owner: PrincipalName | None
    purpose: str
    loop: bool


@dataclass(frozen=True, slots=True)
class Added:
    """The agent with its token, which nobody can read again."""

    agent: agents.Agent
    token: str


@dataclass(frozen=True, slots=True)
class Changed:
    """The agent as it is now; `repeated` when it was so before. `withdrawn` are the asks that ended with it."""

    agent: agents.Agent
    repeated: bool = False
    withdrawn: tuple[AskId, ...] = ()


def add(tx: Tx, policy: Policy, wanted: Wanted, by: PrincipalName | None = None) -> Added | Refused:
    """Add an agent; `by` is the person who does, None for the host. A refusal has written nothing."""
    refused = wrong(policy, wanted)
    if refused is not None:
        return refused
    turns.take(tx, f"agent:{wanted.slug}")
    if agents.by_slug(tx, wanted.slug) is not None:
        detail = f"There is an agent {wanted.slug}; choose another name."
        return refuse(Reason.ALREADY_SETTLED, detail, slug=wanted.slug)
    kind, scope = (AgentKind.LOOP, TokenScope.LOOP) if wanted.loop else (AgentKind.APPLICATION, TokenScope.AGENT)
    agent = agents.add(tx, wanted.slug, kind, PrincipalName(wanted.principal), wanted.owner, wanted.purpose)
    token = agents.issue_token(tx, agent.id, scope)
    facts: dict[str, Fact] = {"slug": agent.slug, "kind": kind.value, "owner": agent.owner}
    about: dict[str, str] = {"agent": agent.id, "principal": agent.principal}
    if by is not None:
        about["principal"] = by
        facts["as"] = agent.principal
    ledger.append(
        tx,
        Entry(EventKind.AGENT_ADDED, tx.now, facts=facts, **about),
        Entry(EventKind.TOKEN_ISSUED, tx.now, facts={"slug": agent.slug, "scope": scope.value}, **about),
    )
    return Added(agent, token)


def wrong(policy: Policy, wanted: Wanted) -> Refused | None:
    """Say what keeps an agent from being added: its name, its purpose, its service or its owner."""
    if not SLUG.fullmatch(wanted.slug):
        return refuse(Reason.BAD_PARAMS, "A slug is a letter, then letters, digits and dashes, all lower-case.")
    if len(wanted.purpose) > MAX_PURPOSE or not wanted.purpose.isprintable():
        return refuse(Reason.BAD_PARAMS, f"A purpose is one printable line of at most {MAX_PURPOSE} characters.")
    service = policy.people.get(PrincipalName(wanted.principal))
    if service is None or service.principal.kind is not PrincipalKind.SERVICE:
        services = ", ".join(name for name, one in policy.people.items() if one.principal.kind is PrincipalKind.SERVICE)
        return refuse(Reason.UNKNOWN_PRINCIPAL, f"The policy knows no such service; it knows {services or 'none'}.")
    person = None if wanted.owner is None else policy.people.get(wanted.owner)
    if wanted.owner is not None and (person is None or person.principal.kind is not PrincipalKind.HUMAN):
        return refuse(Reason.UNKNOWN_PRINCIPAL, f"The policy knows no person {wanted.owner[:40]!r}.")
    return None


def add_own(tx: Tx, policy: Policy, wanted: Wanted, by: PrincipalName) -> Added | Refused:
    """Add an agent as a person who is no host: it belongs to them, and acts as a service of theirs.

    Else somebody could have an agent ask that counts as another's, and answer it themselves (I15).
    """
    service = policy.people.get(PrincipalName(wanted.principal))
    if not stands(policy, by):
        return refuse(Reason.NOT_AUTHORISED, "Only a person of the policy adds agents.")
    if service is not None and service.principal.kind is PrincipalKind.SERVICE and service.principal.owner != by:
        whose = service.principal.owner or "nobody"
        detail = f"The service {wanted.principal} belongs to {whose}; its owner adds agents for it, or the host does."
        return refuse(Reason.NOT_AUTHORISED, detail, owner=service.principal.owner)
    return add(tx, policy, Wanted(wanted.slug, wanted.principal, by, wanted.purpose, wanted.loop), by)


def pause(tx: Tx, slug: str, by: PrincipalName, reason: str) -> Changed | Refused:
    """Pause an agent: nothing starts it until a person resumes it. What it asked stays open."""
    agent = _locked(tx, slug)
    if isinstance(agent, Refused):
        return agent
    if agent.state is AgentState.PAUSED:
        return Changed(agent, repeated=True)
    why = storable(reason)[:MAX_REASON] or f"paused by {by}"
    return _set(tx, agent, AgentState.PAUSED, EventKind.AGENT_PAUSED, by, why)


def resume(tx: Tx, slug: str, by: PrincipalName) -> Changed | Refused:
    """Resume a paused agent, or start a draft."""
    agent = _locked(tx, slug)
    if isinstance(agent, Refused):
        return agent
    if agent.state is AgentState.ACTIVE:
        return Changed(agent, repeated=True)
    changed = _set(tx, agent, AgentState.ACTIVE, EventKind.AGENT_RESUMED, by, None)
    fleet.wake(tx, agent.id, "resumed")
    return changed


def retire(
    tx: Tx, slug: str, by: PrincipalName, reason: str, *, wanted_by_others: Collection[str] = ()
) -> Changed | Refused:
    """Retire an agent for good: its tokens end and what it asked is withdrawn to the backlog, in this transaction.

    Asks of `wanted_by_others` stay open: somebody else waits for them too.
    """
    agent = _locked(tx, slug)
    if isinstance(agent, Refused):
        return Changed(found, repeated=True) if (found := _retired(tx, slug)) is not None else agent
    turns.take(tx, f"asks:{agent.id}")
    why = storable(reason)[:MAX_REASON] or f"retired by {by}"
    changed = _set(tx, agent, AgentState.RETIRED, EventKind.AGENT_RETIRED, by, why)
    if isinstance(changed, Refused):
        return changed
    withdrawn = _withdraw_all(tx, agent, by, wanted_by_others)
    tokens = agents.revoke_tokens(tx, agent.id)
    agents.end_parked(tx, agent.id, "retired")
    facts: dict[str, Fact] = {"slug": agent.slug, "tokens": tokens}
    ledger.append(tx, Entry(EventKind.TOKEN_REVOKED, tx.now, agent=agent.id, principal=by, facts=facts))
    return Changed(changed.agent, withdrawn=withdrawn)


def _withdraw_all(tx: Tx, agent: agents.Agent, by: PrincipalName, but: Collection[str]) -> tuple[AskId, ...]:
    # What an agent has open is bounded by the limits against floods.
    ended: list[AskId] = []
    after = ""
    while found := asks.page(tx, after, _PAGE, only_open=True, agent=agent.id):
        after = found[-1].id
        for ask in found:
            if ask.id in but:
                continue
            if isinstance(withdraw(tx, ask.id, by, f"the agent {agent.slug} was retired", to_backlog=True), Ended):
                ended.append(ask.id)
    return tuple(ended)


def _locked(tx: Tx, slug: str) -> agents.Agent | Refused:
    found = agents.by_slug(tx, slug) if SLUG.fullmatch(slug) else None
    agent = None if found is None else agents.get(tx, found.id, lock=True)
    if agent is None:
        return refuse(Reason.NOT_FOUND, "There is no such agent.")
    if agent.state is AgentState.RETIRED:
        return refuse(Reason.ALREADY_SETTLED, "The agent is retired, and stays so.", slug=agent.slug)
    return agent


def _retired(tx: Tx, slug: str) -> agents.Agent | None:
    found = agents.by_slug(tx, slug) if SLUG.fullmatch(slug) else None
    return found if found is not None and found.state is AgentState.RETIRED else None


def _set(
    tx: Tx, agent: agents.Agent, state: AgentState, kind: EventKind, by: PrincipalName, reason: str | None
) -> Changed | Refused:
    if not agents.set_state(tx, agent.id, state, reason):
        raise RuntimeError(f"agent {agent.slug} was retired under its own lock")
    facts: dict[str, Fact] = {"slug": agent.slug}
    ledger.append(tx, Entry(kind, tx.now, agent=agent.id, principal=by, reason=reason, facts=facts))
    changed = agents.get(tx, agent.id)
    assert changed is not None
    return Changed(changed)


@dataclass(frozen=True, slots=True)
class Author:
    """Who writes to a thread: a person by name, or an agent by slug; it stands beside each line and is never chosen by
    whoever writes."""

    kind: str
    name: str
    principal: PrincipalName
    run: str | None = None


def post(tx: Tx, agent: agents.Agent, author: Author, text: str, *, depth: int = 0) -> int | Refused:
    """Write a message to an agent's thread; give its number. It wakes the agent and answers nothing, whatever it says.

    `depth` is how many messages of agents led to this one, in a chain; whoever sends checks it.
    """
    if is_blank(text):
        return refuse(Reason.EMPTY, "A message needs its text.")
    if len(text) > MAX_MESSAGE or not is_storable(text):
        return refuse(Reason.BAD_PARAMS, f"A message has at most {MAX_MESSAGE} characters, and no zero among them.")
    if agent.state is AgentState.RETIRED:
        return refuse(Reason.ALREADY_SETTLED, "The agent is retired; nobody reads this.", slug=agent.slug)
    turns.take(tx, f"thread:{agent.id}")
    recent = threads.posted_since(tx, agent.id, author.kind, author.name, tx.now - _HOUR, 4 * MOST_AN_HOUR)
    if recent >= MOST_AN_HOUR:
        return refuse(Reason.RATE_LIMITED, f"At most {MOST_AN_HOUR} messages an hour.", most=MOST_AN_HOUR)
    number = threads.post(tx, agent.id, "message", text, author_kind=author.kind, author=author.name, run=author.run)
    facts: dict[str, Fact] = {"author_kind": author.kind, "author": author.name, "message": number}
    entry = Entry(
        EventKind.MESSAGE_POSTED, tx.now, run=author.run, agent=agent.id, principal=author.principal, facts=facts
    )
    ledger.append(tx, entry)
    if (author.kind, author.name) != ("agent", agent.slug):
        # What an agent writes to its own thread is no news to it.
        fleet.tell(tx, agent.id, CapsuleItem.MESSAGE, str(number), depth)
        fleet.wake(tx, agent.id, "message")
    return number
