"""The ceremonies by which people come in and confirm what they do: signing in with a passkey, and fresh assertions.

Each ceremony is begun and finished by one call each: `begin` gives the options for the browser, `finish` takes the
credential. Whoever comes in gets the cookie of a new session, never of the one that the request came with; what is
wrong is told in words that do not say whether anybody of that name, key or code exists.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from flask import Blueprint, Response, jsonify, request

from gitops_bot.api.door.grammar import parse_act, parse_finish, parse_nothing
from gitops_bot.authority import signing_in
from gitops_bot.authority.challenges import Challenge
from gitops_bot.authority.signing_in import SignedIn
from gitops_bot.core.errors import Refusal, Refused
from gitops_bot.store import sessions as rows
from gitops_bot.store.engine import Tx
from workspace.api import door_shapes as shapes
from workspace.api import requests as here
from workspace.api.described import ANYONE, PERSON, described
from workspace.auth import cookies, limits
from workspace.auth.csrf import Door, door
from workspace.auth.people import again, csrf_of, person_here
from workspace.serving import services

signing: Final = Blueprint("auth", __name__, url_prefix="/api/v1/auth")
_PROGRAMS: Final = (
    ("Edg", "Edge"), ("OPR/", "Opera"), ("Firefox/", "Firefox"), ("Chrom", "Chrome"), ("Safari/", "Safari"),
)  # fmt: skip
_SYSTEMS: Final = (
    ("Android", "Android"), ("iPhone", "iPhone"), ("iPad", "iPad"), ("CrOS", "ChromeOS"), ("Windows", "Windows"),
    ("Mac OS X", "macOS"), ("Linux", "Linux"),
)  # fmt: skip
T = TypeVar("T")


def anonymous(work: Callable[[Tx], T | Refused]) -> T:
    """Do one piece of work for somebody who is not signed in; a refusal is kept, and counts for more than one try."""
    try:
        return services().decide(work)
    except Refusal:
        limits.failed()
        raise


def challenge(begun: Challenge) -> Response:
    """Answer with what a browser needs to ask an authenticator."""
    return jsonify({"id": begun.id, "options": dict(begun.options)})


def let_in(signed: SignedIn, *, status: int = 200, more: Mapping[str, Any] | None = None) -> Response:
    """Answer somebody who came in: who they are, and the cookie of their new session."""
    response = jsonify(
        {
            "person": signed.person.principal.name,
            "csrf": csrf_of(signed.secret),
            "session": shapes.session(signed.person.session, signed.person.session.id),
            **(more or {}),
        }
    )
    response.status_code = status
    cookies.keep(response, signed.secret, services().site.lasts // 1000)
    return response


def earlier() -> str | None:
    """Name the session that this browser has, for the new one to replace: its secret opens nothing after that."""
    secret = cookies.read(request.headers.get("Cookie"))
    if secret is None:
        return None
    with services().database.read() as tx:
        found = rows.by_secret(tx, secret)
    return None if found is None else found.id


def browser() -> str:
    """Name the browser at hand, so that a person can tell their sessions apart."""
    told = request.headers.get("User-Agent", "")[:400]
    program = next((name for mark, name in _PROGRAMS if mark in told), "")
    system = next((name for mark, name in _SYSTEMS if mark in told), "")
    return f"{program} on {system}" if program and system else program or system or "a browser"


@signing.post("/sign-in/begin")
@door(Door.BROWSER)
@described("Begin to sign in.", by=(ANYONE,), body=shapes.NOTHING, optional_body=True, answers={200: shapes.CHALLENGE})
def begin_sign_in() -> Response:
    """Give the options of an assertion by any passkey of this workspace."""
    parse_nothing(here.body(optional=True))
    return challenge(services().write(lambda tx: signing_in.begin_sign_in(tx, services().site)))


@signing.post("/sign-in/finish")
@door(Door.BROWSER)
@described(
    "Sign in with a passkey.", by=(ANYONE,), body=shapes.FINISH, answers={200: shapes.SIGNED_IN}, refusals=(403, 409)
)
def finish_sign_in() -> Response:
    """Open a session for whoever the passkey stands for."""
    given = parse_finish(here.body())

    mine, label, before = services(), browser(), earlier()

    def work(tx: Tx) -> SignedIn | Refused:
        return signing_in.finish_sign_in(
            tx, mine.rules, mine.site, given.ceremony, given.credential, label=label, replacing=before
        )

    return let_in(anonymous(work))


@signing.post("/fresh/begin")
@described(
    "Begin to confirm one act with a passkey; the same act is sent with `fresh` afterwards.",
    by=(PERSON,),
    body=shapes.ACT,
    answers={200: shapes.CHALLENGE},
    refusals=(409,),
)
def begin_fresh() -> Response:
    """Give the options of an assertion for one act."""
    person, act = person_here(), parse_act(here.body())
    mine = services()
    return challenge(mine.decide(lambda tx: signing_in.begin_fresh(tx, mine.rules, mine.site, again(tx, person), act)))
