"""The routes of `/api/v1` that agents, shells and loops use; each parses, calls one service and renders.

No GET decides anything. What is wrong with a request is raised and rendered by `workspace.problems`.
"""

from typing import Any, Final, cast

from flask import Blueprint, Response, current_app, jsonify, request

from gitops_bot.api.grammar import (
    parse_ask,
    parse_capture,
    parse_loop,
    parse_page,
    parse_reason,
    parse_verb,
    parse_wait,
)
from gitops_bot.authority.queries import AskView
from gitops_bot.core.errors import Refusal
from workspace import asking, capturing, registering
from workspace.api import bodies, documents
from workspace.api import requests as here
from workspace.api.described import AGENT, described
from workspace.api.requests import WAITING
from workspace.api.shapes import COUNT, FLAG, PAGE, STRING, WAIT, obj, or_null, page_of, ref
from workspace.waiting import GONE, Waiting

api: Final = Blueprint("api", __name__, url_prefix="/api/v1")


def _whole(view: AskView) -> dict[str, Any]:
    services = here.services()
    return documents.ask_whole(view, services.rules.environment, services.approvals)


def _listed(items: list[dict[str, Any]], following: str | None) -> Response:
    return jsonify({"items": items, "next": following})


@api.post("/asks")
@described(
    "Open a plain question.",
    by=(AGENT,),
    body=bodies.ASK,
    answers={200: ref("AskOpened"), 201: ref("AskOpened")},
    refusals=(403, 409, 422, 429),
)
def open_ask() -> tuple[Response, int]:
    """Open a plain question."""
    token = here.agent_token()
    view, repeated = asking.open_question(here.services(), token, parse_ask(here.body()))
    return jsonify({**_whole(view), "repeated": repeated}), 200 if repeated else 201


@api.get("/asks")
@described(
    "List the caller's own asks.", by=(AGENT,), query={**PAGE, "open": FLAG}, answers={200: page_of(ref("AskShort"))}
)
def list_asks() -> Response:
    """List the caller's own asks."""
    token = here.agent_token()
    found, following = asking.list_asks(here.services(), token, parse_page(here.query()))
    return _listed([documents.ask_short(ask) for ask in found], following)


@api.get("/asks/<ask_id>")
@described(
    "Show one ask; with `wait` as soon as it ended or somebody voted, or after so many seconds.",
    by=(AGENT,),
    query={"wait": WAIT},
    answers={200: ref("Ask")},
)
def show_ask(ask_id: str) -> Response:
    """Show one ask, with `wait` as soon as it ended or somebody voted."""
    token, services, wait = here.agent_token(), here.services(), parse_wait(here.query())
    view = asking.show_ask(services, token, here.ask_id(ask_id))
    if wait and view.ask.ended_at is None:
        waiting = cast("Waiting", current_app.extensions[WAITING])
        gone = request.environ.get(GONE, lambda: False)
        waiting.until(lambda: asking.has_moved(services, view), wait, gone)
        view = asking.show_ask(services, token, ask_id)
    return jsonify(_whole(view))


@api.post("/asks/<ask_id>/cancel")
@described(
    "Withdraw an ask; it approves nothing, and withdrawn is not denied.",
    by=(AGENT,),
    body=bodies.REASON,
    optional_body=True,
    answers={200: ref("Ask")},
    refusals=(409, 410),
)
def cancel_ask(ask_id: str) -> Response:
    """Withdraw one of the caller's own asks."""
    token = here.agent_token()
    view = asking.cancel_ask(here.services(), token, here.ask_id(ask_id), parse_reason(here.body(optional=True)))
    return jsonify(_whole(view))


@api.post("/asks/<ask_id>/answer")
@described("Refuse.", by=(AGENT,), answers={})
def answer_ask(ask_id: str) -> Response:
    """Refuse an answer: whoever gets here holds an agent's token, and those never answer."""
    token = here.agent_token()
    here.body()
    raise Refusal(asking.refuse_answer(here.services(), token, here.ask_id(ask_id)))


@api.post("/verbs/<verb>/requests")
@described(
    "Ask for an action: opens the ask that the policy demands for it.",
    by=(AGENT,),
    body=bodies.VERB,
    answers={200: ref("AskOpened"), 201: ref("AskOpened")},
    refusals=(403, 409, 410, 422, 429),
)
def request_verb(verb: str) -> tuple[Response, int]:
    """Ask for an action: opens the ask that the policy demands for it."""
    token = here.agent_token()
    view, repeated = asking.request_verb(here.services(), token, verb, parse_verb(here.body()))
    return jsonify({**_whole(view), "repeated": repeated}), 200 if repeated else 201


@api.post("/captures")
@described(
    "Ask for a measured trace.",
    by=(AGENT,),
    body=bodies.CAPTURE,
    answers={200: ref("CaptureAnswered"), 202: ref("CaptureAnswered")},
    refusals=(403, 409, 410, 422, 429),
)
def request_capture() -> tuple[Response, int]:
    """Ask for a capture."""
    token = here.agent_token()
    body = parse_capture(here.body())
    result = capturing.request_capture(here.services(), token, body)
    status = 202 if result.status in ("submitted", "pending_approval") else 200
    return jsonify(documents.answered(result, body.regime.trace_id)), status


@api.get("/captures")
@described("List captures.", by=(AGENT,), query={**PAGE, "open": FLAG}, answers={200: page_of(ref("Capture"))})
def list_captures() -> Response:
    """List the captures that the caller has to do with."""
    token = here.agent_token()
    found, following = capturing.list_captures(here.services(), token, parse_page(here.query()))
    return _listed([documents.capture(row) for row in found], following)


@api.get("/captures/<capture_id>")
@described("Show one capture.", by=(AGENT,), answers={200: ref("Capture")})
def show_capture(capture_id: str) -> Response:
    """Show one capture."""
    token = here.agent_token()
    return jsonify(documents.capture(capturing.show_capture(here.services(), token, here.ask_id(capture_id))))


@api.post("/captures/<capture_id>/cancel")
@described(
    "Take a wish for a capture back.",
    by=(AGENT,),
    body=bodies.REASON,
    optional_body=True,
    answers={200: ref("Capture")},
    refusals=(409, 410),
)
def cancel_capture(capture_id: str) -> Response:
    """Take the caller's wish for a capture back."""
    token = here.agent_token()
    reason = parse_reason(here.body(optional=True))
    return jsonify(documents.capture(capturing.cancel_capture(here.services(), token, here.ask_id(capture_id), reason)))


@api.post("/loops")
@described(
    "Register a loop; the token of its run travels once, here.",
    by=(AGENT,),
    body=bodies.LOOP,
    answers={201: obj({"run": STRING, "run_version": COUNT, "agent_token": STRING, "claims": or_null(STRING)})},
    refusals=(409,),
)
def register_loop() -> tuple[Response, int]:
    """Register a loop; the token of its run travels once, here."""
    token, services = here.agent_token(), here.services()
    registered = registering.register_loop(services, token, parse_loop(here.body()))
    run = registered.run
    document = {"run": run.id, "run_version": run.version, "agent_token": registered.agent_token}
    return jsonify({**document, "claims": registering.claims_refused(services)}), 201
