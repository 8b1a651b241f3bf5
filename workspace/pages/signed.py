"""The signed channel to look at: branches, open gated asks, what was refused. No form of this page answers anything."""

from typing import Final

from flask import Blueprint

from gitops_bot.bootstrap.showing import signed_channel
from workspace.pages.frame import open_page

signed: Final = Blueprint("signed", __name__)


@signed.get("/signed")
def channel() -> str:
    """Show the channel as the broker last saw it."""
    with open_page() as page:
        shown = signed_channel(page.services, page.tx)
        return page.show("signed/page.html", shown=shown, shared_uid=page.services.shared_uid)
