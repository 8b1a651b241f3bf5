"""One ask on a page of its own, as a card for the inbox, and as a row that settles in the list."""

from typing import Final

from flask import Blueprint, abort, request

from gitops_bot.authority.shown import Card
from gitops_bot.bootstrap.showing import remedy, show
from workspace.pages.carding import batchable, card_shown, line_of, tone
from workspace.pages.choosing import choose, id_of
from workspace.pages.frame import Page, open_page

cards: Final = Blueprint("cards", __name__)
cards.add_app_template_filter(tone)
cards.add_app_template_filter(remedy)
cards.add_app_template_filter(batchable, "card_batchable")


@cards.app_template_filter("card_headline")
def card_headline(card: Card) -> str:
    """Give the line that a card is known by in the list."""
    return line_of(card.view.ask, card.summary)


@cards.app_template_filter("is_address")
def is_address(url: str) -> bool:
    """Tell whether a link may be shown as one: of the web, or a path of ours."""
    return url.startswith(("https://", "http://")) or (url.startswith("/") and not url.startswith(("//", "/\\")))


@cards.get("/asks/<ask_id>")
def ask_page(ask_id: str) -> str:
    """Show one ask on a page of its own."""
    with open_page() as page:
        return page.show("ask.html", **card_shown(page, _card(page, ask_id)), back_url="/needs-you")


@cards.get("/asks/<ask_id>/card")
def card_fragment(ask_id: str) -> str:
    """Show one ask as a card alone."""
    with open_page() as page:
        back = f"/needs-you{choose(request.args).query()}"
        return page.show("parts/card.html", **card_shown(page, _card(page, ask_id)), back_url=back, badge=0)


@cards.get("/asks/<ask_id>/row")
def row_fragment(ask_id: str) -> str:
    """Show one ask as a row of the list, as it is now: settled, voted on, or still open."""
    with open_page() as page:
        card = _card(page, ask_id)
        url = f"/needs-you{choose(request.args).query(ask=card.view.ask.id)}"
        return page.show("parts/card_row.html", card=card, url=url, badge=0)


def _card(page: Page, ask_id: str) -> Card:
    wanted = id_of(ask_id)
    found = None if wanted is None else show(page.services, page.tx, wanted, page.name)
    if found is None:
        abort(404)
    return found
