"""The thread of an agent as people read it: messages, reports and notices, and its asks in their place in time.

A cursor is `MESSAGE.ASK`, the last message and the last ask that were shown; `MESSAGE` alone stands for the first ask
after or before it. Nothing that is written here answers an ask.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gitops_bot.authority.queries import summary_of
from gitops_bot.authority.rules import Rules
from gitops_bot.authority.shown import AgentText
from gitops_bot.core.asks import Ask, AskId
from gitops_bot.core.errors import Malformed
from gitops_bot.store import page_rows
from gitops_bot.store.agents import Agent
from gitops_bot.store.engine import Tx
from gitops_bot.store.inbox import FIRST
from gitops_bot.store.page_rows import ThreadMessage

MOST: Final = 100
_CURSOR: Final = re.compile(r"([0-9]{1,18})(?:\.([0-9a-z]{0,26}))?", re.ASCII)
_END: Final = 10**18 - 1
"""Above every id, and as long as a cursor may be."""


@dataclass(frozen=True, slots=True)
class ThreadItem:
    """One line of a thread. `kind` is message, report, notice or ask; `author_kind` person, agent or system. The text
    is a `str` where a person wrote it; what this product wrote repeats words of agents. An `ask` item has its state,
    its summary and who ended it."""

    kind: str
    author_kind: str
    author: str
    at: int
    text: str | AgentText
    id: str
    ask: AskId | None = None
    ask_kind: str | None = None
    state: str | None = None
    summary: str | None = None
    ended_by: str | None = None
    ended_at: int | None = None


@dataclass(frozen=True, slots=True)
class Thread:
    """Items oldest first; `older` leads to those before, `newer` to those that will come; None when there are none."""

    items: tuple[ThreadItem, ...]
    older: str | None
    newer: str


def parse_cursor(text: str) -> tuple[int, str]:
    """Read a cursor of a thread.

    Raises:
        Malformed: it is none.
    """
    found = _CURSOR.fullmatch(text)
    if found is None:
        raise Malformed("a cursor of a thread is a number, or NUMBER.ASK", where="cursor")
    return int(found[1]), found[2] or ""


def thread(tx: Tx, rules: Rules, agent: Agent, before: str | None, limit: int) -> Thread:
    """Read the newest lines of a thread, or those before a cursor.

    Raises:
        Malformed: the cursor is none.
    """
    message, ask = (_END, FIRST) if before is None else parse_cursor(before)
    wanted = min(max(1, limit), MOST)
    said = page_rows.messages_of(tx, agent.id, message, wanted + 1)
    asked = page_rows.asks_of(tx, agent.id, ask or FIRST, wanted + 1)
    items = sorted(_items(rules, agent, said, asked), key=_order, reverse=True)
    shown = items[:wanted]
    older = None
    if len(items) > wanted:
        older = f"{_edge(shown, message, last=True)}.{_ask_edge(shown, ask or FIRST, last=True)}"
    newest_message = max((one.id for one in said), default=0) if before is None else message
    newest_ask = max((one.id for one in asked), default=AskId("")) if before is None else ask
    return Thread(tuple(reversed(shown)), older, f"{newest_message}.{newest_ask}")


def thread_after(tx: Tx, rules: Rules, agent: Agent, after: str, limit: int) -> Thread:
    """Read the lines of a thread after a cursor, oldest first.

    Raises:
        Malformed: the cursor is none.
    """
    message, ask = parse_cursor(after)
    wanted = min(max(1, limit), MOST)
    said = page_rows.newer_messages_of(tx, agent.id, message, wanted)
    asked = page_rows.newer_asks_of(tx, agent.id, ask, wanted)
    shown = sorted(_items(rules, agent, said, asked), key=_order)[:wanted]
    newer = f"{_edge(shown, message, last=False)}.{_ask_edge(shown, ask, last=False)}"
    return Thread(tuple(shown), None, newer)


def _order(item: ThreadItem) -> tuple[int, bool, str]:
    return item.at, item.kind == "ask", item.id.rjust(26, "0")


def _edge(shown: Sequence[ThreadItem], start: int, *, last: bool) -> int:
    ids = [int(one.id) for one in shown if one.kind != "ask"]
    return start if not ids else min(ids) if last else max(ids)


def _ask_edge(shown: Sequence[ThreadItem], start: str, *, last: bool) -> str:
    ids = [one.id for one in shown if one.kind == "ask"]
    return start if not ids else min(ids) if last else max(ids)


def _items(rules: Rules, agent: Agent, said: Sequence[ThreadMessage], asked: Sequence[Ask]) -> list[ThreadItem]:
    return [_message(agent, one) for one in said] + [_ask(rules, agent, one) for one in asked]


def _message(agent: Agent, one: ThreadMessage) -> ThreadItem:
    """A message by a token is shown as that agent's, never a person's. Reports repeat what agents wrote."""
    ours = one.author_kind == "person"
    author = one.author if ours else "gitops-bot" if one.author_kind == "system" else agent.slug
    text: str | AgentText = one.text if ours else AgentText(one.text, author)
    ask = None if one.ask is None else AskId(one.ask)
    return ThreadItem(one.kind, one.author_kind, author, one.at, text, str(one.id), ask)


def _ask(rules: Rules, agent: Agent, ask: Ask) -> ThreadItem:
    return ThreadItem(
        kind="ask",
        author_kind="agent",
        author=agent.slug,
        at=ask.opened_at,
        text=AgentText(ask.text, agent.slug),
        id=ask.id,
        ask=ask.id,
        ask_kind=ask.kind.value,
        state=ask.state.value,
        summary=summary_of(rules, ask) or (ask.verb if ask.verb is not None else None),
        ended_by=ask.ended_by,
        ended_at=ask.ended_at,
    )
