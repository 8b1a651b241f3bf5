"""An application has its pages: every blueprint, the words of the templates, the errors as pages, the files.

A page is a blueprint in a file of its own, named in `BLUEPRINTS`: it calls `frame.open_page`, reads, shows a template.
"""

from typing import Any, Final

from flask import Blueprint, Flask, Response, redirect, request
from werkzeug.wrappers import Response as Answer

from workspace.pages import assets, failing, meanings, words
from workspace.pages.agents import agents
from workspace.pages.backlog import backlog
from workspace.pages.captures import captures
from workspace.pages.cards import cards
from workspace.pages.inbox import inbox
from workspace.pages.keyboard import KEYBOARD, NAVIGATION
from workspace.pages.ledger import ledger
from workspace.pages.people import people
from workspace.pages.provider import provider
from workspace.pages.signed import signed
from workspace.pages.signing_in import signing_in

pages: Final = Blueprint("pages", __name__)

BLUEPRINTS: Final = (pages, inbox, cards, signing_in, provider, people, agents, captures, signed, backlog, ledger)
"""Every blueprint of pages."""


@pages.get("/static/<path:name>")
def static_file(name: str) -> Response:
    """Send a file of the pages."""
    return assets.serve(name)


@pages.get("/")
def front() -> Answer:
    """Go to what needs the person."""
    return redirect("/needs-you", 303)


def install(app: Flask) -> None:
    """Give an application its pages, and its templates the words that all of them use."""
    words.install(app)
    meanings.install(app)
    failing.install(app)
    app.jinja_env.trim_blocks = True
    app.jinja_env.lstrip_blocks = True
    app.jinja_env.globals.update(asset=assets.asset, static=assets.asset)
    app.context_processor(_everywhere)
    for blueprint in BLUEPRINTS:
        app.register_blueprint(blueprint)


def _everywhere() -> dict[str, Any]:
    return {"navigation": NAVIGATION, "keyboard": KEYBOARD, "here": _is_here}


def _is_here(path: str) -> bool:
    return request.path == path or request.path.startswith(f"{path}/") or (_on_ask() and path == "/needs-you")


def _on_ask() -> bool:
    return request.path.startswith("/asks/")
