"""Captures over the API: asked for by agents, seen by them and by people, cancelled by either."""

from typing import Final

from flask import Blueprint, Response, jsonify

from gitops_bot.api.grammar import parse_capture, parse_page, parse_reason
from gitops_bot.core.errors import Reason, Refusal, refuse
from gitops_bot.store import captures as rows
from workspace import capturing
from workspace.api import bodies, documents
from workspace.api import requests as here
from workspace.api.described import AGENT, PERSON, described
from workspace.api.shapes import FLAG, PAGE, page_of, ref
from workspace.auth.people import has_agent_token
from workspace.serving import services

captures: Final = Blueprint("api_captures", __name__, url_prefix="/api/v1")


@captures.post("/captures")
@described(
    "Ask for a measured trace.",
    by=(AGENT,),
    body=bodies.CAPTURE,
    answers={200: ref("CaptureAnswered"), 202: ref("CaptureAnswered")},
    refusals=(409, 410),
)
def request_capture() -> tuple[Response, int]:
    """Ask for a capture."""
    token = here.agent_token()
    body = parse_capture(here.body())
    result = capturing.request_capture(services(), token, body)
    status = 202 if result.status in ("submitted", "pending_approval") else 200
    return jsonify(documents.answered(result, body.regime.trace_id)), status


@captures.get("/captures")
@described(
    "List captures, oldest first: those that an agent has to do with, or for a person all.",
    by=(PERSON, AGENT),
    query={**PAGE, "open": FLAG},
    answers={200: page_of(ref("Capture"))},
)
def list_captures() -> Response:
    """List captures."""
    if has_agent_token():
        token = here.agent_token()
        found, following = capturing.list_captures(services(), token, parse_page(here.query()))
    else:
        here.person()
        found, following = capturing.list_all(services(), parse_page(here.query()))
    return here.listed([documents.capture(row) for row in found], following)


@captures.get("/captures/<capture_id>")
@described("Show one capture.", by=(PERSON, AGENT), answers={200: ref("Capture")})
def show_capture(capture_id: str) -> Response:
    """Show one capture."""
    if has_agent_token():
        token = here.agent_token()
        return jsonify(documents.capture(capturing.show_capture(services(), token, here.ask_id(capture_id))))
    here.person()
    wanted = here.ask_id(capture_id)
    with services().database.read() as tx:
        found = rows.get(tx, wanted)
    if found is None:
        raise Refusal(refuse(Reason.NOT_FOUND, capture=wanted))
    return jsonify(documents.capture(found))


@captures.post("/captures/<capture_id>/cancel")
@described(
    "Take an agent's wish for a capture back; as the owner of the agent that asked, cancel it for all who wait.",
    by=(PERSON, AGENT),
    body=bodies.REASON,
    optional_body=True,
    answers={200: ref("Capture")},
    refusals=(409, 410),
)
def cancel_capture(capture_id: str) -> Response:
    """Cancel a capture."""
    if has_agent_token():
        token = here.agent_token()
        reason = parse_reason(here.body(optional=True))
        done = capturing.cancel_capture(services(), token, here.ask_id(capture_id), reason)
    else:
        person = here.person()
        reason = parse_reason(here.body(optional=True))
        done = capturing.cancel_as_owner(services(), person, here.ask_id(capture_id), reason)
    return jsonify(documents.capture(done))
