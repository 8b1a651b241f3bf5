"""Agents and their threads, as values and as schemas side by side. Texts of agents are told as texts, by whom."""

from collections.abc import Mapping
from typing import Any, Final

from gitops_bot.api.person.grammar import MAX_MESSAGE, MAX_PURPOSE
from gitops_bot.authority.agents import Added, Changed
from gitops_bot.authority.agents_read import AgentRow
from gitops_bot.authority.shown import AgentText
from gitops_bot.authority.threads_read import ThreadItem
from gitops_bot.authority.turns_read import TurnShown
from gitops_bot.core.asks import AskKind
from gitops_bot.core.status import AgentStatus
from gitops_bot.ports import BodyStop
from gitops_bot.store.agents import Agent
from gitops_bot.store.fleet_rows import FleetRow
from gitops_bot.store.states import AgentKind, AgentState, HarnessKind, WakePolicy
from gitops_bot.store.turn_rows import TurnRow
from workspace.api.bodies import FRESH
from workspace.api.described import Schema
from workspace.api.shapes import (
    BOOLEAN,
    COUNT,
    INTEGER,
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
_FLEET: Final = obj(
    {
        "harness": one_of([kind.value for kind in HarnessKind]),
        "wakes": one_of([policy.value for policy in WakePolicy]),
        "lane": STRING,
        "lane_opens_at": MS,
        "due_at": or_null(MS),
        "due_reason": or_null(STRING),
        "outcome": or_null(STRING),
        "settled_at": or_null(MS),
        "errors": COUNT,
    }
)
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
        "fleet": or_null(_FLEET),
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
        "run": or_null(ULID),
    }
)
THREAD: Final = obj({"items": many(_LINE), "next": STRING})
THREAD_QUERY: Final[Mapping[str, Schema]] = {
    "after": text(
        pattern=r"[0-9]{1,18}(?:\.[0-9a-z]{0,26})?", description="a number, or the `next` of the page before"
    ),
    "limit": LIMIT,
}
_TURN: Final[Mapping[str, Schema]] = {
    "run": ULID,
    "version": COUNT,
    "lane": STRING,
    "reason": STRING,
    "started_at": MS,
    "body_at": or_null(MS),
    "ended_at": or_null(MS),
    "stop": or_null(one_of([stop.value for stop in BodyStop])),
    "exit_code": or_null(INTEGER),
    "detail": or_null(STRING),
    "outcome": or_null(STRING),
}
TURNS: Final = page_of(obj(_TURN))
TURNS_QUERY: Final[Mapping[str, Schema]] = {"before": MS, "limit": LIMIT}
TURN: Final = obj({**_TURN, "capsule": STRING, "text": or_null(STRING), "cut": COUNT, "lines": many(_LINE)})
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
        "fleet": None if one.fleet is None else _fleet(one.fleet),
    }


def _fleet(one: FleetRow) -> dict[str, Any]:
    return {
        "harness": one.harness.value,
        "wakes": one.policy.value,
        "lane": one.lane,
        "lane_opens_at": one.lane_opens_at,
        "due_at": one.due_at,
        "due_reason": one.due_reason,
        "outcome": one.outcome,
        "settled_at": one.settled_at,
        "errors": one.errors,
    }


def turn(one: TurnRow) -> dict[str, Any]:
    """Show a turn: why it began, and how it ended."""
    return {
        "run": one.run,
        "version": one.version,
        "lane": one.lane,
        "reason": one.reason,
        "started_at": one.started_at,
        "body_at": one.body_at,
        "ended_at": one.ended_at,
        "stop": None if one.stop is None else one.stop.value,
        "exit_code": one.exit_code,
        "detail": one.detail,
        "outcome": one.outcome,
    }


def whole_turn(one: TurnShown) -> dict[str, Any]:
    """Show a turn with its capsule, what its body said so far, and what landed of it."""
    return {
        **turn(one.row),
        "capsule": one.capsule,
        "text": None if one.text is None else one.text.text,
        "cut": one.cut,
        "lines": [line(item) for item in one.lines],
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
        "run": item.run,
    }


def added(one: Added) -> dict[str, Any]:
    """Show a new agent with its token, this once."""
    return {**agent(one.agent), "token": one.token}


def changed(one: Changed) -> dict[str, Any]:
    """Show an agent after it was changed."""
    return {**agent(one.agent), "repeated": one.repeated, "withdrawn": list(one.withdrawn)}
