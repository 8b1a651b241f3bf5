"""The inbox: what needs the person, newest blocker first, beside the card that is open; pieces of it for htmx.

Everything that the page shows is in its address: the filters, the page of the list, the open ask.
"""

from dataclasses import dataclass
from typing import Any, Final

from flask import Blueprint, Response, request

from gitops_bot.authority.inbox import Inbox, Row, needs_you
from gitops_bot.bootstrap.showing import show
from gitops_bot.core.asks import AskKind
from gitops_bot.core.verdicts import Channel
from gitops_bot.policy.model import Risk
from workspace.pages.carding import card_shown, line_of
from workspace.pages.choosing import Chosen, choose, id_of
from workspace.pages.doing import doing
from workspace.pages.frame import Page, badge_text, open_page
from workspace.pages.words import CHANNELS

inbox: Final = Blueprint("inbox", __name__)
PAGE: Final = 25
_KINDS: Final = ((AskKind.QUESTION, "question"), (AskKind.APPROVAL, "approval"), (AskKind.GATED, "gated"))


@inbox.app_template_filter("headline")
def headline(row: Row) -> str:
    """Give the line that a row is known by: our sentence of an action, else the agent's words in quotes."""
    return line_of(row.ask, row.summary)


@inbox.app_template_filter("batchable")
def batchable(row: Row) -> bool:
    """Tell whether a row may be marked: one that is bound, answerable here, and not of high risk."""
    return row.ask.kind is AskKind.APPROVAL and row.answerable and row.risk != Risk.HIGH.value


@inbox.app_template_filter("ask_url")
def ask_url(row: Row, chosen: Chosen) -> str:
    """Give the address of the inbox, so narrowed, with this ask open."""
    return f"/needs-you{chosen.query(ask=row.ask.id, before=id_of(request.args.get('before')))}"


@inbox.get("/needs-you")
def needs_you_page() -> str:
    """Show the inbox, with the ask open that the address names."""
    wanted = id_of(request.args.get("ask"))
    with open_page() as page:
        listed = _list(page)
        card = None if wanted is None else show(page.services, page.tx, wanted, page.name)
        return page.show(
            "inbox.html",
            **listed.shown(page),
            **card_shown(page, card),
            open_ask=wanted if card is not None else None,
            back_url=f"/needs-you{listed.chosen.query()}",
        )


@inbox.get("/needs-you/list")
def list_fragment() -> Response:
    """Show the list alone, or the rows after a cursor; the address of the page follows the filters."""
    before = id_of(request.args.get("before"))
    with open_page() as page:
        listed = _list(page)
        template = "parts/list.html" if before is None else "parts/rows.html"
        shown = Response(page.show(template, **listed.shown(page), open_ask=id_of(request.args.get("ask"))))
    if before is None and request.headers.get("HX-Trigger-Name") == "filters":
        shown.headers["HX-Replace-Url"] = f"/needs-you{listed.chosen.query()}"
    return shown


@inbox.get("/needs-you/badge")
def badge_fragment() -> Response:
    """Say how much needs the person, as the badge shows it."""
    with open_page() as page:
        return Response(badge_text(page.badge()), mimetype="text/plain")


@dataclass(frozen=True, slots=True)
class _Listed:
    chosen: Chosen
    inbox: Inbox

    def shown(self, page: Page) -> dict[str, Any]:
        """Give what the templates of the list need."""
        found = self.inbox
        empty = not found.rows
        return {
            "inbox": found,
            "badge": found.count,
            "chosen": self.chosen,
            "query": self.chosen,
            "list_url": f"/needs-you/list{self.chosen.query()}",
            "more_url": f"/needs-you{self.chosen.query(before=found.next)}",
            "more_fragment": f"/needs-you/list{self.chosen.query(before=found.next)}",
            "agents": sorted({row.agent for row in found.rows}),
            "selects": _selects(page),
            "doing": doing(page) if empty else (),
        }


def _list(page: Page) -> _Listed:
    chosen = choose(request.args)
    before = id_of(request.args.get("before"))
    return _Listed(chosen, needs_you(page.tx, page.rules, page.name, chosen.filters, before, PAGE))


def _selects(page: Page) -> tuple[tuple[str, str, tuple[tuple[str, str], ...]], ...]:
    return (
        ("kind", "Kind", tuple((kind.value, words) for kind, words in _KINDS)),
        ("verb", "Verb", tuple((name, name) for name in sorted(page.rules.policy.verbs))),
        ("risk", "Risk", tuple((risk.value, risk.value) for risk in Risk)),
        ("channel", "Channel", tuple((one.value, CHANNELS[one.value]) for one in Channel if one is not Channel.APP)),
    )
