"""How keys come in and go: the first by a code from the broker's host, more of them and their end by their person.

A session whose person added a key goes on under a new secret.
"""

from collections.abc import Mapping
from typing import Any, Final

from flask import Blueprint, Response, g, jsonify

from gitops_bot.api.door.grammar import parse_confirming, parse_enrol, parse_finish, parse_label
from gitops_bot.authority import enrolling, sessions
from gitops_bot.authority.challenges import Challenge
from gitops_bot.authority.enrolling import Enrolled
from gitops_bot.authority.sessions import Person
from gitops_bot.core.errors import Refused
from gitops_bot.store.engine import Tx
from gitops_bot.store.person_tables import SessionKind
from workspace.api import door_shapes as shapes
from workspace.api import requests as here
from workspace.api.described import ANYONE, PERSON, described
from workspace.api.signing_in import anonymous, challenge, earlier, let_in
from workspace.auth import cookies
from workspace.auth.csrf import Door, door
from workspace.auth.people import again, confirmed, csrf_of, person_here, secret_here
from workspace.serving import services

enrolment: Final = Blueprint("enrolment", __name__, url_prefix="/api/v1/auth")


@enrolment.post("/enrol/begin")
@door(Door.BROWSER)
@described(
    "Begin to add a passkey with a code from the broker's host.",
    by=(ANYONE,),
    body=shapes.ENROL,
    answers={200: shapes.CHALLENGE},
    refusals=(403, 404, 409, 410),
)
def begin_enrolment() -> Response:
    """Give the options of a new passkey."""
    given = parse_enrol(here.body())
    mine = services()
    return challenge(
        anonymous(lambda tx: enrolling.begin_enrolment(tx, mine.rules, mine.site, given.code, given.label))
    )


@enrolment.post("/enrol/finish")
@door(Door.BROWSER)
@described(
    "Add the passkey, and sign in with it.",
    by=(ANYONE,),
    body=shapes.FINISH,
    answers={201: shapes.ENROLLED},
    refusals=(403, 404, 409, 410),
)
def finish_enrolment() -> Response:
    """Keep the passkey and open a session by it."""
    given = parse_finish(here.body())

    mine, before = services(), earlier()

    def work(tx: Tx) -> Enrolled | Refused:
        return enrolling.finish_enrolment(tx, mine.rules, mine.site, given.ceremony, given.credential, replacing=before)

    enrolled = anonymous(work)
    more = {"passkey": shapes.passkey(enrolled.passkey), "offer_another": enrolled.offer_another}
    if enrolled.signed_in is None:
        return _answer(201, {"person": None, "csrf": "", "session": None, **more})
    return let_in(enrolled.signed_in, status=201, more=more)


@enrolment.post("/passkeys/begin")
@described(
    "Begin to add another passkey of one's own; needs a fresh assertion.",
    by=(PERSON,),
    body=shapes.LABELLED,
    answers={200: shapes.CHALLENGE},
    refusals=(409,),
)
def begin_another() -> Response:
    """Give the options of one more passkey."""
    person, label = person_here(), parse_label(here.body())

    def work(tx: Tx) -> Challenge | Refused:
        mine = services()
        one = again(tx, person)
        given = confirmed(tx, one, enrolling.adding_passkey())
        if isinstance(given, Refused):
            return given
        return enrolling.begin_another(tx, mine.rules, mine.site, one, label, given)

    return challenge(services().decide(work))


@enrolment.post("/passkeys/finish")
@described("Add the other passkey.", by=(PERSON,), body=shapes.FINISH, answers={201: shapes.ADDED}, refusals=(409, 410))
def finish_another() -> Response:
    """Keep one more passkey; a browser's session goes on under a new secret, a shell's as it is."""
    person, given = person_here(), parse_finish(here.body())

    def work(tx: Tx) -> tuple[Enrolled, Person, str] | Refused:
        mine = services()
        one = again(tx, person)
        result = enrolling.finish_another(tx, mine.rules, mine.site, one, given.ceremony, given.credential)
        if isinstance(result, Refused):
            return result
        kept = one, secret_here() or ""
        return result, *(kept if one.session.kind is SessionKind.SHELL else sessions.rotate(tx, mine.site, one))

    enrolled, one, secret = services().decide(work)
    g.person = one
    more = {"passkey": shapes.passkey(enrolled.passkey), "offer_another": enrolled.offer_another}
    if secret.startswith(sessions.SHELL_PREFIX):
        return _answer(201, {"csrf": "", **more})
    response = _answer(201, {"csrf": csrf_of(secret), **more})
    cookies.keep(response, secret, services().site.lasts // 1000)
    return response


@enrolment.post("/passkeys/<passkey>/revoke")
@described(
    "Revoke a passkey of one's own and end the sessions that it opened; needs a fresh assertion.",
    by=(PERSON,),
    body=shapes.CONFIRMING,
    optional_body=True,
    answers={200: shapes.OK},
    refusals=(409,),
)
def revoke_passkey(passkey: str) -> Response:
    """Revoke one passkey."""
    person = person_here()
    parse_confirming(here.body(optional=True))

    def work(tx: Tx) -> Refused | None:
        mine = services()
        one = again(tx, person)
        given = confirmed(tx, one, enrolling.revoking_passkey(passkey))
        if isinstance(given, Refused):
            return given
        result = enrolling.revoke_passkey(tx, mine.rules, one, passkey, given)
        return result if isinstance(result, Refused) else None

    services().decide(work)
    return jsonify({"ok": True})


def _answer(status: int, document: Mapping[str, Any]) -> Response:
    response = jsonify(document)
    response.status_code = status
    return response
