"""The routes of `/api/v1` that agents, shells and loops use; each parses, calls one service and renders.

No GET decides anything. What is wrong with a request is raised and rendered by `workspace.problems`.
"""

from typing import Any, Final, cast

from flask import Blueprint, Response, current_app, jsonify, request
from werkzeug.exceptions import UnsupportedMediaType

from gitops_bot.api.grammar import (
    ID,
    parse_ask,
    parse_capture,
    parse_loop,
    parse_page,
    parse_reason,
    parse_verb,
    parse_wait,
)
from gitops_bot.authority.queries import AskView
from gitops_bot.bootstrap.workspace import Services
from gitops_bot.core.errors import Malformed, Reason, Refusal, refuse
from workspace import asking, capturing, registering
from workspace.api import documents
from workspace.callers import authenticate, bearer_token
from workspace.waiting import Waiting

api: Final = Blueprint("api", __name__, url_prefix="/api/v1")
SERVICES: Final = "gitops_bot.services"
WAITING: Final = "gitops_bot.waiting"


def _services() -> Services:
    return cast("Services", current_app.extensions[SERVICES])


def _token() -> str:
    """Give the token of the request, known to stand for somebody now: what follows may cost more than a look-up."""
    token = bearer_token()
    with _services().database.read() as tx:
        authenticate(tx, token)
    return token


def _body(*, optional: bool = False) -> bytes:
    raw = request.get_data()
    if optional and not raw:
        return raw
    if request.mimetype != "application/json":
        raise UnsupportedMediaType("Send the body as application/json.")
    return raw


def _query() -> dict[str, str]:
    found = request.args.to_dict(flat=False)
    for name, values in found.items():
        if len(values) > 1:
            raise Malformed(f"{name[:60]!r} twice", where="query")
    return {name: values[0] for name, values in found.items()}


def _id(text: str) -> str:
    if not ID.fullmatch(text):
        raise Refusal(refuse(Reason.NOT_FOUND))
    return text


def _whole(view: AskView) -> dict[str, Any]:
    services = _services()
    return documents.ask_whole(view, services.rules.environment, services.approvals)


def _listed(items: list[dict[str, Any]], following: str | None) -> Response:
    return jsonify({"items": items, "next": following})


@api.post("/asks")
def open_ask() -> tuple[Response, int]:
    """Open a plain question."""
    token = _token()
    view, repeated = asking.open_question(_services(), token, parse_ask(_body()))
    return jsonify({**_whole(view), "repeated": repeated}), 200 if repeated else 201


@api.get("/asks")
def list_asks() -> Response:
    """List the caller's own asks."""
    token = _token()
    found, following = asking.list_asks(_services(), token, parse_page(_query()))
    return _listed([documents.ask_short(ask) for ask in found], following)


@api.get("/asks/<ask_id>")
def show_ask(ask_id: str) -> Response:
    """Show one ask, with `wait` as soon as it ended or somebody voted."""
    token, services, wait = _token(), _services(), parse_wait(_query())
    view = asking.show_ask(services, token, _id(ask_id))
    if wait and view.ask.ended_at is None:
        waiting = cast("Waiting", current_app.extensions[WAITING])
        gone = request.environ.get("waitress.client_disconnected", lambda: False)
        waiting.until(lambda: asking.has_moved(services, view), wait, gone)
        view = asking.show_ask(services, token, ask_id)
    return jsonify(_whole(view))


@api.post("/asks/<ask_id>/cancel")
def cancel_ask(ask_id: str) -> Response:
    """Withdraw one of the caller's own asks."""
    token = _token()
    view = asking.cancel_ask(_services(), token, _id(ask_id), parse_reason(_body(optional=True)))
    return jsonify(_whole(view))


@api.post("/asks/<ask_id>/answer")
def answer_ask(ask_id: str) -> Response:
    """Refuse an answer: whoever gets here holds an agent's token, and those never answer."""
    token = _token()
    _body()
    raise Refusal(asking.refuse_answer(_services(), token, _id(ask_id)))


@api.post("/verbs/<verb>/requests")
def request_verb(verb: str) -> tuple[Response, int]:
    """Ask for an action: opens the ask that the policy demands for it."""
    token = _token()
    view, repeated = asking.request_verb(_services(), token, verb, parse_verb(_body()))
    return jsonify({**_whole(view), "repeated": repeated}), 200 if repeated else 201


@api.post("/captures")
def request_capture() -> tuple[Response, int]:
    """Ask for a capture."""
    token = _token()
    body = parse_capture(_body())
    result = capturing.request_capture(_services(), token, body)
    status = 202 if result.status in ("submitted", "pending_approval") else 200
    return jsonify(documents.answered(result, body.regime.trace_id)), status


@api.get("/captures")
def list_captures() -> Response:
    """List the captures that the caller has to do with."""
    token = _token()
    found, following = capturing.list_captures(_services(), token, parse_page(_query()))
    return _listed([documents.capture(row) for row in found], following)


@api.get("/captures/<capture_id>")
def show_capture(capture_id: str) -> Response:
    """Show one capture."""
    token = _token()
    return jsonify(documents.capture(capturing.show_capture(_services(), token, _id(capture_id))))


@api.post("/captures/<capture_id>/cancel")
def cancel_capture(capture_id: str) -> Response:
    """Take the caller's wish for a capture back."""
    token = _token()
    reason = parse_reason(_body(optional=True))
    return jsonify(documents.capture(capturing.cancel_capture(_services(), token, _id(capture_id), reason)))


@api.post("/loops")
def register_loop() -> tuple[Response, int]:
    """Register a loop; the token of its run travels once, here."""
    token, services = _token(), _services()
    registered = registering.register_loop(services, token, parse_loop(_body()))
    run = registered.run
    document = {"run": run.id, "run_version": run.version, "agent_token": registered.agent_token}
    return jsonify({**document, "claims": registering.claims_refused(services)}), 201
