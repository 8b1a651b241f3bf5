"""The routes of `/api/v1` by which agents, shells and loops ask; each parses, calls one service and renders.

What is wrong with a request is raised and rendered by `workspace.problems`.
"""

from typing import Final

from flask import Blueprint, Response, jsonify

from gitops_bot.api.grammar import parse_ask, parse_loop, parse_verb
from workspace import asking, registering
from workspace.api import bodies
from workspace.api import requests as here
from workspace.api.described import AGENT, described
from workspace.api.shapes import COUNT, STRING, obj, or_null, ref
from workspace.serving import services

api: Final = Blueprint("api", __name__, url_prefix="/api/v1")
_OPENED: Final = {200: ref("AskOpened"), 201: ref("AskOpened")}


@api.post("/asks")
@described("Open a plain question.", by=(AGENT,), body=bodies.ASK, answers=_OPENED, refusals=(409,))
def open_ask() -> tuple[Response, int]:
    """Open a plain question."""
    token = here.agent_token()
    view, repeated = asking.open_question(services(), token, parse_ask(here.body()))
    return jsonify({**here.whole(view), "repeated": repeated}), 200 if repeated else 201


@api.post("/verbs/<verb>/requests")
@described(
    "Ask for an action: opens the ask that the policy demands for it.",
    by=(AGENT,),
    body=bodies.VERB,
    answers=_OPENED,
    refusals=(409, 410),
)
def request_verb(verb: str) -> tuple[Response, int]:
    """Ask for an action: opens the ask that the policy demands for it."""
    token = here.agent_token()
    view, repeated = asking.request_verb(services(), token, verb, parse_verb(here.body()))
    return jsonify({**here.whole(view), "repeated": repeated}), 200 if repeated else 201


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
    token, mine = here.agent_token(), services()
    registered = registering.register_loop(mine, token, parse_loop(here.body()))
    run = registered.run
    document = {"run": run.id, "run_version": run.version, "agent_token": registered.agent_token}
    return jsonify({**document, "claims": registering.claims_refused(mine)}), 201
