"""The backlog: decisions that ended without a verdict and wait for somebody to ask them again, newest first."""

from dataclasses import dataclass
from typing import Final

from gitops_bot.authority.queries import summary_of
from gitops_bot.authority.rules import Rules
from gitops_bot.authority.shown import AgentText
from gitops_bot.core.asks import AskId
from gitops_bot.core.texts import storable
from gitops_bot.store import page_rows
from gitops_bot.store.engine import Tx
from gitops_bot.store.inbox import FIRST

MOST: Final = 100


@dataclass(frozen=True, slots=True)
class BacklogItem:
    """One decision of nobody's. `cause` is expired, withdrawn or the code of what moved."""

    ask: AskId
    agent: str
    kind: str
    verb: str | None
    summary: str | None
    text: AgentText
    cause: str
    entered_at: int
    opened_at: int


@dataclass(frozen=True, slots=True)
class Backlog:
    """A page, and the cursor of the next; None at the end. A page may be short, or empty, although there is a next."""

    items: tuple[BacklogItem, ...]
    next: str | None


def backlog_page(tx: Tx, rules: Rules, before: str | None, limit: int) -> Backlog:
    """Read what waits in the backlog below an id, newest first."""
    found, following = page_rows.backlog_before(
        tx, FIRST if before is None else storable(before), min(max(1, limit), MOST)
    )
    items = tuple(
        BacklogItem(
            ask=one.ask.id,
            agent=one.slug,
            kind=one.ask.kind.value,
            verb=one.ask.verb,
            summary=summary_of(rules, one.ask),
            text=AgentText(one.ask.text, one.slug),
            cause=one.cause,
            entered_at=one.entered_at,
            opened_at=one.ask.opened_at,
        )
        for one in found
    )
    return Backlog(items, following)
