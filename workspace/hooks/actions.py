"""`POST /hooks/actions`: a run of the one workflow hands a comment in, by its OIDC token, and hears how it stands.

Tries are counted before anything is verified (`workspace.auth.limits`), as for everybody who comes to the door.
"""

import re
from typing import Final

from flask import Blueprint, Response, jsonify, request
from werkzeug.datastructures import WWWAuthenticate
from werkzeug.exceptions import Unauthorized

from gitops_bot.authority import handed
from gitops_bot.core.errors import Reason, Refusal, refuse
from gitops_bot.forge.actions.grammar import NotOurs, NotValid, Run, read_handed
from workspace.api.requests import body
from workspace.auth.csrf import Door, door
from workspace.serving import services

PATH: Final = "/hooks/actions"
actions: Final = Blueprint("actions", __name__)
# A token of a run is longer than any of ours; what it is made of is looked at when it is verified.
_BEARER: Final = re.compile(r"[Bb]earer ([A-Za-z0-9._~+/-]{1,12000}=*)", re.ASCII)


@actions.post(PATH)
@door(Door.SHELL)
def hand_in() -> Response:
    """Take a hint."""
    mine = services()
    if mine.runs is None:
        raise Refusal(refuse(Reason.NOT_FOUND, "No repository of a forge is configured here."))
    found = _BEARER.fullmatch(request.headers.get("Authorization", ""))
    if found is None:
        raise _unauthorized("Send the run's OIDC token as `Authorization: Bearer`.", None)
    hint = read_handed(body())
    with mine.database.read() as tx:
        now = tx.now // 1000
    run = mine.runs.run(found[1], now)
    match run:
        case NotValid(why):
            raise _unauthorized(f"The token of the run is not taken: {why}.", "invalid_token")
        case NotOurs(why):
            raise Refusal(refuse(Reason.NOT_AUTHORISED, f"The token of the run is not taken: {why}."))
        case Run():
            told = mine.decide(lambda tx: handed.take(tx, run, hint))
    return jsonify({"decision": told.decision, "reason": told.reason, "ask": told.ask})


def _unauthorized(description: str, error: str | None) -> Unauthorized:
    values: dict[str, str | None] = {"realm": "gitops-bot", **({} if error is None else {"error": error})}
    return Unauthorized(description, www_authenticate=WWWAuthenticate("bearer", values))
