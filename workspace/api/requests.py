"""What each view of the API takes from the request at hand: the services, a body, a query, an id in the path."""

from typing import Final, cast

from flask import current_app, request
from werkzeug.exceptions import UnsupportedMediaType

from gitops_bot.api.grammar import ID
from gitops_bot.bootstrap.workspace import Services
from gitops_bot.core.errors import Malformed, Reason, Refusal, refuse
from workspace.callers import authenticate, bearer_token

SERVICES: Final = "gitops_bot.services"
WAITING: Final = "gitops_bot.waiting"


def services() -> Services:
    """Give what this application calls with."""
    return cast("Services", current_app.extensions[SERVICES])


def agent_token() -> str:
    """Give the token of the request, known to stand for some agent now: what follows may cost more than a look-up.

    Raises:
        Unauthorized: there is none, or it stands for nobody.
    """
    token = bearer_token()
    with services().database.read() as tx:
        authenticate(tx, token)
    return token


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
