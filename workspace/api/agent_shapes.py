"""Agents and their threads, as values and as schemas side by side. Texts of agents are told as texts, by whom."""

from collections.abc import Mapping
from typing import Any, Final

from gitops_bot.api.person.grammar import MAX_MESSAGE, MAX_PURPOSE
from gitops_bot.authority.agents import Added, Changed
from gitops_bot.authority.agents_read import AgentRow
from gitops_bot.authority.shown import AgentText
from gitops_bot.authority.threads_read import ThreadItem
from gitops_bot.core.asks import AskKind
from gitops_bot.core.status import AgentStatus
from gitops_bot.store.agents import Agent
from gitops_bot.store.states import AgentKind, AgentState
from workspace.api.bodies import FRESH
from workspace.api.described import Schema
from workspace.api.shapes import (
    BOOLEAN,
    COUNT,
    LIMIT,
    MS,
    NAME,
    SLUG,
    STRING,
    ULID,
    many,
    obj,
    one_of,
    or_empty,
    or_null,
    page_of,
    text,
)

_AGENT: Final[Mapping[str, Schema]] = {
    "id": ULID,
    "slug": STRING,
    "kind": one_of([kind.value for kind in AgentKind]),
    "principal": STRING,
    "owner": or_null(STRING),
    "purpose": STRING,
    "state": one_of([state.value for state in AgentState]),
    "pause_reason": or_null(STRING),
}
_ASK: Final = obj(
    {
        "id": ULID,
        "kind": one_of([kind.value for kind in AskKind]),
        "verb": or_null(STRING),
        "summary": or_null(STRING),
        "text": STRING,
        "opened_at": MS,
        "expires_at": or_null(MS),
        "blocks": STRING,
    }
)
_LOOP: Final = obj({"id": STRING, "version": COUNT, "registered_at": MS, "shutdown_at": or_null(MS)})
ROW: Final = obj(
    {
        **_AGENT,
        "status": one_of([status.value for status in AgentStatus]),
        "needs_person": BOOLEAN,
        "doing": STRING,
        "open_asks": many(_ASK),
        "more_asks": BOOLEAN,
        "loops": many(_LOOP),
        "last_activity": or_null(MS),
    }
)
AGENTS: Final = page_of(ROW)
AGENTS_QUERY: Final[Mapping[str, Schema]] = {"after": or_empty(SLUG), "limit": LIMIT}
_LINE: Final = obj(
    {
        "id": STRING,
        "kind": one_of(["message", "report", "notice", "ask"]),
        "author_kind": one_of(["person", "agent", "system"]),
        "author": STRING,
        "at": MS,
        "text": STRING,
        "ask": or_null(ULID),
        "ask_kind": or_null(STRING),
        "state": or_null(STRING),
        "summary": or_null(STRING),
        "ended_by": or_null(STRING),
        "ended_at": or_null(MS),
    }
)
THREAD: Final = obj({"items": many(_LINE), "next": STRING})
THREAD_QUERY: Final[Mapping[str, Schema]] = {
    "after": text(
        pattern=r"[0-9]{1,18}(?:\.[0-9a-z]{0,26})?", description="a number, or the `next` of the page before"
    ),
    "limit": LIMIT,
}
MESSAGE: Final = obj({"text": text(MAX_MESSAGE)})
POSTED: Final = obj({"message": COUNT})
ADD: Final = obj(
    {"slug": SLUG, "principal": NAME},
    {"purpose": or_null(text(MAX_PURPOSE)), "loop": or_null(BOOLEAN), "fresh": FRESH},
)
ADDED: Final = obj({**_AGENT, "token": STRING})
REASONED: Final = obj({}, {"reason": or_null(text(1_000)), "fresh": FRESH})
CONFIRMED: Final = obj({}, {"fresh": FRESH})
CHANGED: Final = obj({**_AGENT, "repeated": BOOLEAN, "withdrawn": many(ULID)})


def agent(one: Agent) -> dict[str, Any]:
    """Show an agent as stored."""
    return {
        "id": one.id,
        "slug": one.slug,
        "kind": one.kind.value,
        "principal": one.principal,
        "owner": one.owner,
        "purpose": one.purpose,
        "state": one.state.value,
        "pause_reason": one.pause_reason,
    }


def row(one: AgentRow) -> dict[str, Any]:
    """Show an agent with its derived status and what it is doing."""
    return {
        **agent(one.agent),
        "status": one.status.value,
        "needs_person": one.needs_person,
        "doing": one.doing,
        "open_asks": [
            {
                "id": ask.id,
                "kind": ask.kind,
                "verb": ask.verb,
                "summary": ask.summary,
                "text": ask.text.text,
                "opened_at": ask.opened_at,
                "expires_at": ask.expires_at,
                "blocks": ask.blocks,
            }
            for ask in one.open_asks
        ],
        "more_asks": one.more,
        "loops": [
            {
                "id": loop.id,
                "version": loop.version,
                "registered_at": loop.registered_at,
                "shutdown_at": loop.shutdown_at,
            }
            for loop in one.loops
        ],
        "last_activity": one.last_activity,
    }


def line(item: ThreadItem) -> dict[str, Any]:
    """Show one line of a thread."""
    return {
        "id": item.id,
        "kind": item.kind,
        "author_kind": item.author_kind,
        "author": item.author,
        "at": item.at,
        "text": item.text.text if isinstance(item.text, AgentText) else item.text,
        "ask": item.ask,
        "ask_kind": item.ask_kind,
        "state": item.state,
        "summary": item.summary,
        "ended_by": item.ended_by,
        "ended_at": item.ended_at,
    }


def added(one: Added) -> dict[str, Any]:
    """Show a new agent with its token, this once."""
    return {**agent(one.agent), "token": one.token}


def changed(one: Changed) -> dict[str, Any]:
    """Show an agent after it was changed."""
    return {**agent(one.agent), "repeated": one.repeated, "withdrawn": list(one.withdrawn)}
