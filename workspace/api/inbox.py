"""What needs a person, and the backlog of what nobody decided, over the API."""

from typing import Final

from flask import Blueprint, Response, jsonify

from gitops_bot.api.person.grammar import parse_nothing
from gitops_bot.api.query.grammar import parse_inbox, parse_newest
from gitops_bot.authority import inbox as needs
from gitops_bot.authority.backlog_read import backlog_page
from gitops_bot.authority.inbox import Filters
from gitops_bot.core.asks import AskKind
from gitops_bot.core.verdicts import Channel
from gitops_bot.policy.model import Risk
from workspace.api import inbox_shapes as shapes
from workspace.api import requests as here
from workspace.api.described import PERSON, described
from workspace.api.shapes import obj, ref
from workspace.inbox import reopening
from workspace.serving import services

inbox: Final = Blueprint("api_inbox", __name__, url_prefix="/api/v1")


@inbox.get("/needs-you")
@described(
    "List the open asks that this person may answer, and gated ones with `answerable: false`; newest first."
    " `count` is how many badge, at most 100.",
    by=(PERSON,),
    query=shapes.INBOX_QUERY,
    answers={200: shapes.INBOX},
)
def needs_you() -> Response:
    """List what needs the person."""
    person = here.person()
    wanted = parse_inbox(here.query())
    filters = Filters(
        agent=wanted.agent,
        verb=wanted.verb,
        kind=None if wanted.kind is None else AskKind(wanted.kind),
        risk=None if wanted.risk is None else Risk(wanted.risk),
        channel=None if wanted.channel is None else Channel(wanted.channel),
        text=wanted.text,
        snoozed=wanted.snoozed,
    )
    mine = services()
    with mine.database.read() as tx:
        found = needs.needs_you(tx, mine.rules, person.principal.name, filters, wanted.before, wanted.limit)
    return here.listed([shapes.row(row) for row in found.rows], found.next, count=found.count)


@inbox.get("/backlog")
@described(
    "List decisions that ended without a verdict and were not reopened, newest first.",
    by=(PERSON,),
    query=shapes.NEWEST,
    answers={200: shapes.BACKLOG},
)
def list_backlog() -> Response:
    """List the backlog."""
    here.person()
    before, limit = parse_newest(here.query())
    mine = services()
    with mine.database.read() as tx:
        found = backlog_page(tx, mine.rules, before, limit)
    return here.listed([shapes.backlog(item) for item in found.items], found.next)


@inbox.post("/backlog/<ask_id>/reopen")
@described(
    "Ask a decision of the backlog anew, with a fresh binding.",
    by=(PERSON,),
    body=obj({}),
    optional_body=True,
    answers={201: ref("Ask")},
    refusals=(409, 410),
)
def reopen(ask_id: str) -> tuple[Response, int]:
    """Reopen a decision."""
    person = here.person()
    parse_nothing(here.body(optional=True))
    return jsonify(here.whole(reopening.reopen(services(), person, here.ask_id(ask_id)))), 201
