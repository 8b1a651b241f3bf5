"""A card as the templates take it: the rows of its table with what changed in them, and to whom it can be handed on."""

import re
from dataclasses import dataclass
from typing import Any, Final

from gitops_bot.authority.shown import Card
from gitops_bot.core.asks import Ask, AskKind, AskState
from gitops_bot.policy.model import Risk
from workspace.pages.frame import Page
from workspace.texts import visible

_TONES: Final = {
    AskState.APPROVED: "good",
    AskState.ANSWERED: "good",
    AskState.DENIED: "danger",
    AskState.WITHDRAWN: "",
    AskState.EXPIRED: "warn",
    AskState.SUPERSEDED: "accent",
}

_LONGEST: Final = 300
_MARKS: Final = re.compile(r"\*\*|`")
_STOPPING: Final = frozenset({"hold", "withdraw"})
_HANDLING: Final = _STOPPING | {"snooze", "delegate", "claim"}


@dataclass(frozen=True, slots=True)
class ActionRow:
    """A parameter as the table shows it; `shown` None: it was there the last time and is no longer."""

    name: str
    shown: str | None
    raw: str
    changed: bool
    before: str | None


def action_rows(card: Card) -> tuple[ActionRow, ...]:
    """Give the table of what would be done, beside what was approved last."""
    changes = {change.name: change for change in card.changes}
    rows = [
        ActionRow(
            param.name,
            param.shown,
            param.raw_json,
            param.name in changes,
            changes[param.name].before if param.name in changes else None,
        )
        for param in card.params
    ]
    there = {param.name for param in card.params}
    gone = [ActionRow(name, None, "", True, change.before) for name, change in changes.items() if name not in there]
    return (*rows, *gone)


def line_of(ask: Ask, summary: str | None) -> str:
    """Give the line that an ask is known by: our sentence of an action, else the agent's words in quotes."""
    if summary:
        return visible(summary)
    if ask.kind is not AskKind.QUESTION:
        return ask.verb or ""
    # The marks of bold and code say nothing in a line of plain text.
    words = _MARKS.sub("", " ".join(ask.text[: 2 * _LONGEST].split()))
    return f"“{visible(words[:_LONGEST])}{'…' if len(words) > _LONGEST else ''}”"


def batchable(card: Card) -> bool:
    """Tell whether a card may be marked for a batch: bound, open, answerable by this person, not of high risk."""
    return card.view.ask.kind is AskKind.APPROVAL and "answer" in card.can and card.risk != Risk.HIGH.value


def tone(card: Card) -> str:
    """Give the colour of how an ask ended."""
    return _TONES.get(card.view.ask.state, "")


def delegates(card: Card, me: str) -> tuple[str, ...]:
    """Name those who may answer, but the person who looks."""
    return tuple(voter.name for voter in card.may_answer if voter.barred is None and voter.name != me)


def acts(card: Card) -> frozenset[str]:
    """Name what a person may do with it other than answer; with a gated ask nothing but stop it."""
    return card.can & (_STOPPING if card.gated is not None else _HANDLING)


def card_shown(page: Page, card: Card | None) -> dict[str, Any]:
    """Give what the templates of a card need."""
    if card is None:
        return {"card": None}
    return {"card": card, "rows": action_rows(card), "acts": acts(card), "delegates": delegates(card, page.name)}
