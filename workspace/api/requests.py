"""What each view of the API takes from the request at hand: the services, a body, a query, an id in the path."""

from typing import Any, Final

from flask import Response, jsonify, request
from werkzeug.exceptions import UnsupportedMediaType

from gitops_bot.api.grammar import ID
from gitops_bot.authority.queries import AskView
from gitops_bot.authority.sessions import Person
from gitops_bot.bootstrap.showing import history_of
from gitops_bot.core.errors import Malformed, Reason, Refusal, refuse
from workspace.api import documents
from workspace.auth.people import has_agent_token, person_here
from workspace.callers import authenticate, bearer_token
from workspace.serving import SERVICES as SERVICES
from workspace.serving import WAITING as WAITING
from workspace.serving import services as services

_PEOPLE_ONLY: Final = "This takes a person who is signed in; an agent's token never does it."


def agent_token() -> str:
    """Give the token of the request, known to stand for some agent now: what follows may cost more than a look-up.

    Raises:
        Unauthorized: there is none, or it stands for nobody.
    """
    token = bearer_token()
    with services().database.read() as tx:
        authenticate(tx, token)
    return token


def person() -> Person:
    """Give the person of the request.

    Raises:
        Unauthorized: nobody is signed in, or a token stands for nobody.
        Refusal: it is an agent's token.
    """
    if has_agent_token():
        agent_token()
        raise Refusal(refuse(Reason.NOT_AUTHORISED, _PEOPLE_ONLY))
    return person_here()


def body(*, optional: bool = False) -> bytes:
    """Give the bytes of the body; with `optional` none at all are well, too.

    Raises:
        UnsupportedMediaType: it is not said to be JSON.
        RequestEntityTooLarge: there is more than the application takes.
    """
    raw = request.get_data()
    if optional and not raw:
        return raw
    if request.mimetype != "application/json":
        raise UnsupportedMediaType("Send the body as application/json.")
    return raw


def query() -> dict[str, str]:
    """Give the query, each name once.

    Raises:
        Malformed: a name twice.
    """
    found = request.args.to_dict(flat=False)
    for name, values in found.items():
        if len(values) > 1:
            raise Malformed(f"{name[:60]!r} twice", where="query")
    return {name: values[0] for name, values in found.items()}


def ask_id(text: str) -> str:
    """Give an id out of a path.

    Raises:
        Refusal: it is none, so there is nothing of that id.
    """
    if not ID.fullmatch(text):
        raise Refusal(refuse(Reason.NOT_FOUND))
    return text


def whole(view: AskView) -> dict[str, Any]:
    """Show an ask with all that is known of its decision: a gated one's votes are the signed ones."""
    here = services()
    with here.database.read() as tx:
        voted, attempts = history_of(here, tx, view)
    return documents.ask_whole(view, here.rules.environment, here.approvals, voted, attempts)


def listed(items: list[dict[str, Any]], following: str | None, **more: Any) -> Response:
    """Answer with one page of a list."""
    return jsonify({"items": items, "next": following, **more})
