"""The decisions that ended without a verdict; each can be asked again, as a new ask."""

from typing import Final

from flask import Blueprint, request

from gitops_bot.api.grammar import ID
from gitops_bot.authority.backlog_read import backlog_page
from workspace.pages.frame import open_page

backlog: Final = Blueprint("backlog", __name__)

ROWS: Final = 50


@backlog.get("/backlog")
def every() -> str:
    """List what waits to be asked again, newest first."""
    before = request.args.get("before", "")
    before = before if ID.fullmatch(before) else ""
    with open_page() as page:
        found = backlog_page(page.tx, page.rules, before or None, ROWS)
        return page.show("history/backlog.html", entries=found.items, next=found.next, before=before)
