"""The ledger, and people with their keys, over the API."""

from typing import Final

from flask import Blueprint, Response, jsonify, stream_with_context

from gitops_bot.api.query.grammar import LedgerQuery, parse_export, parse_ledger
from gitops_bot.authority.ledger_read import export_lines, ledger_page
from gitops_bot.authority.people_read import people_shown
from gitops_bot.core.errors import Malformed
from gitops_bot.store import agents
from gitops_bot.store.engine import Tx
from gitops_bot.store.ledger_pages import Narrowed
from workspace.api import history_shapes as shapes
from workspace.api import requests as here
from workspace.api.described import PERSON, Media, described
from workspace.serving import services

history: Final = Blueprint("api_history", __name__, url_prefix="/api/v1")
LINES: Final = "application/x-ndjson"


@history.get("/ledger")
@described(
    "Look the ledger up, newest first in sealed order; a page may be short although there is a next one.",
    by=(PERSON,),
    query=shapes.LEDGER_QUERY,
    answers={200: shapes.LEDGER},
)
def show_ledger() -> Response:
    """Show a page of the ledger."""
    here.person()
    wanted = parse_ledger(here.query())
    with services().database.read() as tx:
        found = ledger_page(tx, _narrowed(tx, wanted), wanted.before, wanted.limit)
    return jsonify(shapes.ledger(found))


def _narrowed(tx: Tx, wanted: LedgerQuery) -> Narrowed:
    agent = agents.by_slug(tx, wanted.agent) if wanted.agent else None
    # An agent that is not there has no entries: its name is no id.
    of = wanted.agent if agent is None else agent.id
    return Narrowed(wanted.kind, wanted.ask, of, wanted.principal, wanted.since, wanted.until)


@history.get("/ledger/export")
@described(
    "Take sealed entries away, one JSON document a line, in sealed order, with the seal of each.",
    by=(PERSON,),
    query=shapes.EXPORT_QUERY,
    answers={200: Media(LINES)},
)
def export_ledger() -> Response:
    """Export the ledger."""
    here.person()
    after = parse_export(here.query())
    lines = stream_with_context(export_lines(services().database, after))
    return Response(lines, content_type=LINES, headers={"Content-Disposition": 'attachment; filename="ledger.jsonl"'})


@history.get("/people")
@described("List people and services of the policy with their keys.", by=(PERSON,), answers={200: shapes.PEOPLE})
def list_people() -> Response:
    """List everybody whom the policy names."""
    person, mine = here.person(), services()
    if here.query():
        raise Malformed("people take no query", where="query")
    with mine.database.read() as tx:
        found = people_shown(tx, mine.rules)
    own = person.principal.name
    return jsonify({"items": [shapes.person(one, own=one.name == own) for one in found]})
