"""Agents over the API: seen by people and by themselves, written to, and managed by people with a fresh assertion."""

from typing import Final

from flask import Blueprint, Response, jsonify

from gitops_bot.api.person.grammar import parse_agent, parse_message, parse_nothing, parse_reasoned
from gitops_bot.api.query.grammar import parse_agents, parse_thread
from gitops_bot.authority.agents_read import agent_shown, agents_page
from gitops_bot.authority.threads_read import thread_after
from gitops_bot.core.errors import Reason, Refusal, refuse
from gitops_bot.store import agents as rows
from workspace import managing
from workspace.api import agent_shapes as shapes
from workspace.api import requests as here
from workspace.api.described import AGENT, PERSON, described
from workspace.auth.people import has_agent_token
from workspace.serving import services

agents: Final = Blueprint("api_agents", __name__, url_prefix="/api/v1")


@agents.get("/agents")
@described(
    "List agents with their status and what they are doing; an agent sees itself alone.",
    by=(PERSON, AGENT),
    query=shapes.AGENTS_QUERY,
    answers={200: shapes.AGENTS},
)
def list_agents() -> Response:
    """List agents by slug."""
    mine = services()
    if has_agent_token():
        own = managing.own_agent(mine, here.agent_token())
        after, _ = parse_agents(here.query())
        with mine.database.read() as tx:
            shown = agent_shown(tx, mine.rules, own.slug) if own.slug > after else None
        return here.listed([] if shown is None else [shapes.row(shown)], None)
    here.person()
    after, limit = parse_agents(here.query())
    with mine.database.read() as tx:
        found = agents_page(tx, mine.rules, after, limit)
    return here.listed([shapes.row(row) for row in found.rows], found.next)


@agents.get("/agents/<slug>/thread")
@described(
    "Read an agent's thread: messages, reports, notices, and asks in their place; an agent reads its own.",
    by=(PERSON, AGENT),
    query=shapes.THREAD_QUERY,
    answers={200: shapes.THREAD},
)
def thread(slug: str) -> Response:
    """Read a thread after a cursor, oldest first."""
    mine = services()
    if has_agent_token():
        agent: rows.Agent | None = managing.own_thread_agent(mine, here.agent_token(), slug)
    else:
        here.person()
        with mine.database.read() as tx:
            agent = rows.by_slug(tx, slug)
    after, limit = parse_thread(here.query())
    if agent is None:
        raise Refusal(refuse(Reason.NOT_FOUND, "There is no such agent."))
    with mine.database.read() as tx:
        found = thread_after(tx, mine.rules, agent, after, limit)
    return jsonify({"items": [shapes.line(item) for item in found.items], "next": found.newer})


@agents.post("/agents/<slug>/messages")
@described(
    "Write to an agent's thread. It is a message and answers nothing; by a token it is shown as that agent's.",
    by=(PERSON, AGENT),
    body=shapes.MESSAGE,
    answers={201: shapes.POSTED},
    refusals=(409,),
)
def post_message(slug: str) -> tuple[Response, int]:
    """Post a message."""
    mine = services()
    if has_agent_token():
        token = here.agent_token()
        number = managing.post_as_agent(mine, token, slug, parse_message(here.body()))
    else:
        person = here.person()
        number = managing.post_as_person(mine, person, slug, parse_message(here.body()))
    return jsonify({"message": number}), 201


@agents.post("/agents")
@described(
    "Add an agent of one's own; its token is in the answer, this once. Needs a fresh assertion.",
    by=(PERSON,),
    body=shapes.ADD,
    answers={201: shapes.ADDED},
    refusals=(409,),
)
def add_agent() -> tuple[Response, int]:
    """Add an agent."""
    person = here.person()
    return jsonify(shapes.added(managing.add(services(), person, parse_agent(here.body())))), 201


@agents.post("/agents/<slug>/pause")
@described(
    "Pause an agent: nothing starts it, its asks stay open. Needs a fresh assertion.",
    by=(PERSON,),
    body=shapes.REASONED,
    optional_body=True,
    answers={200: shapes.CHANGED},
    refusals=(409,),
)
def pause_agent(slug: str) -> Response:
    """Pause an agent."""
    person = here.person()
    reason = parse_reasoned(here.body(optional=True))
    return jsonify(shapes.changed(managing.pause(services(), person, slug, reason)))


@agents.post("/agents/<slug>/resume")
@described(
    "Resume an agent. Needs a fresh assertion.",
    by=(PERSON,),
    body=shapes.CONFIRMED,
    optional_body=True,
    answers={200: shapes.CHANGED},
    refusals=(409,),
)
def resume_agent(slug: str) -> Response:
    """Resume an agent."""
    person = here.person()
    parse_nothing(here.body(optional=True))
    return jsonify(shapes.changed(managing.resume(services(), person, slug)))


@agents.post("/agents/<slug>/retire")
@described(
    "Retire an agent for good: its tokens end, what it asked is withdrawn. Needs a fresh assertion.",
    by=(PERSON,),
    body=shapes.REASONED,
    optional_body=True,
    answers={200: shapes.CHANGED},
    refusals=(409,),
)
def retire_agent(slug: str) -> Response:
    """Retire an agent."""
    person = here.person()
    reason = parse_reasoned(here.body(optional=True))
    return jsonify(shapes.changed(managing.retire(services(), person, slug, reason)))
