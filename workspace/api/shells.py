"""How a shell becomes a session of a person: it shows a code, the person confirms that code in the workspace with a
fresh assertion, and the shell takes its credential, once.
"""

from typing import Final

from flask import Blueprint, Response, jsonify

from gitops_bot.api.door.grammar import parse_shell, parse_take, parse_waiting
from gitops_bot.authority import shells
from gitops_bot.core.errors import Refusal, Refused
from gitops_bot.store.engine import Tx
from workspace.api import door_shapes as shapes
from workspace.api import requests as here
from workspace.api.described import ANYONE, PERSON, described
from workspace.auth import limits
from workspace.auth.csrf import Door, door
from workspace.auth.people import again, confirmed, person_here
from workspace.serving import services

waiting_shells: Final = Blueprint("shells", __name__, url_prefix="/api/v1/auth")


@waiting_shells.post("/shells/begin")
@door(Door.SHELL)
@described(
    "Ask that a person lets this shell in: gives a secret that the shell keeps and a code that the person compares.",
    by=(ANYONE,),
    body=shapes.SHELL_BEGIN,
    answers={201: shapes.SHELL},
)
def begin_shell() -> tuple[Response, int]:
    """Let a shell wait for a person."""
    label = parse_waiting(here.body())
    begun = services().write(lambda tx: shells.begin_shell(tx, label))
    url = f"{services().site.origin}/shell"
    document = {"secret": begun.secret, "code": begun.code, "url": url, "expires_at": begun.expires_at}
    return jsonify(document), 201


@waiting_shells.post("/shells/take")
@door(Door.SHELL)
@described(
    "Take the credential of a shell that a person confirmed; `pending` while nobody did.",
    by=(ANYONE,),
    body=shapes.TAKE,
    answers={200: shapes.TAKEN},
    refusals=(404, 409, 410),
)
def take_shell() -> Response:
    """Hand a confirmed shell its credential, once."""
    secret = parse_take(here.body())
    mine = services()
    try:
        taken = mine.decide(lambda tx: shells.take_shell(tx, mine.rules, mine.site, secret))
    except Refusal:
        limits.failed()
        raise
    if taken is None:
        return jsonify({"pending": True, "credential": None, "person": None})
    return jsonify({"pending": False, "credential": taken.secret, "person": taken.person.principal.name})


@waiting_shells.post("/shells/confirm")
@described(
    "Let a waiting shell in, by its code; needs a fresh assertion.",
    by=(PERSON,),
    body=shapes.CONFIRM,
    answers={200: shapes.OK},
    refusals=(409, 410),
)
def confirm_shell() -> Response:
    """Let one shell in as the person."""
    person, code = person_here(), parse_shell(here.body())

    def work(tx: Tx) -> Refused | None:
        one = again(tx, person)
        given = confirmed(tx, one, shells.confirming_shell(code))
        if isinstance(given, Refused):
            return given
        result = shells.confirm_shell(tx, one, code, given)
        return result if isinstance(result, Refused) else None

    services().decide(work)
    return jsonify({"ok": True})
