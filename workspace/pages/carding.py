"""A card as the templates take it: the rows of its table with what changed in them, and to whom it can be handed on."""

from dataclasses import dataclass
from typing import Any, Final

from gitops_bot.authority.shown import Card
from gitops_bot.core.asks import AskState
from workspace.pages.frame import Page

_TONES: Final = {
    AskState.APPROVED: "good",
    AskState.ANSWERED: "good",
    AskState.DENIED: "danger",
    AskState.WITHDRAWN: "",
    AskState.EXPIRED: "warn",
    AskState.SUPERSEDED: "accent",
}


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


def tone(card: Card) -> str:
    """Give the colour of how an ask ended."""
    return _TONES.get(card.view.ask.state, "")


def delegates(card: Card, me: str) -> tuple[str, ...]:
    """Name those who may answer, but the person who looks."""
    return tuple(voter.name for voter in card.may_answer if voter.barred is None and voter.name != me)


def card_shown(page: Page, card: Card | None) -> dict[str, Any]:
    """Give what the templates of a card need."""
    if card is None:
        return {"card": None}
    return {"card": card, "rows": action_rows(card), "delegates": delegates(card, page.name)}
