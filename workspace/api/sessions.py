"""Sessions, preferences and notices of whoever is signed in."""

from typing import Final

from flask import Blueprint, Response, jsonify

from gitops_bot.api.door.grammar import parse_nothing, parse_preferences, parse_read
from gitops_bot.authority import sessions
from gitops_bot.core.errors import Reason, Refused, refuse
from gitops_bot.store import notices, preferences
from gitops_bot.store.engine import Tx
from workspace.api import door_shapes as shapes
from workspace.api import requests as here
from workspace.api.described import PERSON, described
from workspace.auth import cookies
from workspace.auth.people import again, csrf_token, person_here
from workspace.serving import services

own: Final = Blueprint("sessions", __name__, url_prefix="/api/v1/auth")


@own.get("/session")
@described("Who is signed in here.", by=(PERSON,), answers={200: shapes.HERE})
def show_session() -> Response:
    """Show the person and session of this request."""
    person = person_here()
    with services().database.read() as tx:
        single = preferences.single_keys(tx, person.principal.name)
    return jsonify(
        {
            "person": person.principal.name,
            "csrf": csrf_token(),
            "session": shapes.session(person.session, person.session.id),
            "single_keys": single,
        }
    )


@own.post("/sign-out")
@described("End this session.", by=(PERSON,), body=shapes.NOTHING, optional_body=True, answers={200: shapes.OK})
def sign_out() -> Response:
    """End the session of this request."""
    person = person_here()
    parse_nothing(here.body(optional=True))
    services().write(lambda tx: sessions.end(tx, person.session.id, again(tx, person).principal.name))
    response = jsonify({"ok": True})
    cookies.drop(response)
    response.headers["Clear-Site-Data"] = '"cache"'
    return response


@own.get("/sessions")
@described("One's own sessions, newest first.", by=(PERSON,), answers={200: shapes.SESSIONS})
def list_sessions() -> Response:
    """List the person's sessions."""
    person = person_here()
    with services().database.read() as tx:
        found = sessions.of_person(tx, person.principal.name)
    return jsonify({"items": [shapes.session(row, person.session.id) for row in found]})


@own.post("/sessions/<session>/revoke")
@described(
    "End another session of one's own.",
    by=(PERSON,),
    body=shapes.NOTHING,
    optional_body=True,
    answers={200: shapes.OK},
)
def revoke_session(session: str) -> Response:
    """End one session of the person."""
    person, wanted = person_here(), here.ask_id(session)
    parse_nothing(here.body(optional=True))

    def work(tx: Tx) -> Refused | None:
        ended = sessions.end(tx, wanted, again(tx, person).principal.name)
        return None if ended else refuse(Reason.NOT_FOUND, session=wanted)

    services().decide(work)
    return jsonify({"ok": True})


@own.post("/sessions/others/revoke")
@described(
    "End every other session of one's own.",
    by=(PERSON,),
    body=shapes.NOTHING,
    optional_body=True,
    answers={200: shapes.ENDED},
)
def revoke_others() -> Response:
    """End all sessions of the person but this one."""
    person = person_here()
    parse_nothing(here.body(optional=True))

    def work(tx: Tx) -> int:
        one = again(tx, person)
        return sessions.end_all(tx, one.principal.name, one.principal.name, but=one.session.id)

    return jsonify({"ended": services().write(work)})


@own.post("/preferences")
@described(
    "Switch shortcuts by single keys on or off.",
    by=(PERSON,),
    body=shapes.PREFERENCES,
    answers={200: shapes.PREFERENCES},
)
def set_preferences() -> Response:
    """Keep a choice of the person."""
    person, single = person_here(), parse_preferences(here.body())
    services().write(lambda tx: preferences.set_single_keys(tx, again(tx, person).principal.name, single))
    return jsonify({"single_keys": single})


@own.post("/notices/read")
@described("Mark notices as read.", by=(PERSON,), body=shapes.READ, answers={200: shapes.OK})
def read_notices() -> Response:
    """Mark the person's notices up to one as read."""
    person, upto = person_here(), parse_read(here.body())
    services().write(lambda tx: notices.read(tx, again(tx, person).principal.name, upto))
    return jsonify({"ok": True})
