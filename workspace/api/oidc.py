"""The end of signing in through an OpenID provider; its begin and the page between are `workspace.pages.provider`."""

from typing import Final

from flask import Blueprint, Response, request
from werkzeug.exceptions import NotFound, ServiceUnavailable

from gitops_bot.api.door.grammar import parse_provided
from gitops_bot.authority import challenges, signing_in
from gitops_bot.authority.signing_in import SignedIn
from gitops_bot.core.errors import Refusal, Refused, Unavailable
from gitops_bot.store.engine import Tx
from gitops_bot.store.person_tables import Ceremony
from workspace.api import door_shapes as shapes
from workspace.api import requests as here
from workspace.api.described import ANYONE, described
from workspace.api.signing_in import anonymous, browser, earlier, let_in
from workspace.auth import cookies, limits, oidc
from workspace.auth.csrf import Door, door
from workspace.serving import services

provided: Final = Blueprint("oidc", __name__, url_prefix="/api/v1/auth")
SILENT: Final = "The OpenID provider does not answer. Sign in with a passkey, or try again."


@provided.post("/oidc/finish")
@door(Door.BROWSER)
@described(
    "Sign in with what the OpenID provider sent this browser back with; such a session answers no bound ask.",
    by=(ANYONE,),
    body=shapes.PROVIDED,
    answers={200: shapes.PROVIDED_IN},
    refusals=(404,),
)
def finish_oidc() -> Response:
    """Open a session for the person whose issuer and subject the policy names."""
    given = parse_provided(here.body())
    way, mine = oidc.oidc_here(), services()
    if way is None:
        raise NotFound
    journey = oidc.returned(cookies.read(request.headers.get("Cookie"), cookies.BEFORE), given.state)
    if journey is None:
        # Not in the ledger: anybody may make a state up, as often as they like.
        raise _refusal("no such journey", told=False)
    subject, before = _subject(way, journey, given.code), earlier()

    def work(tx: Tx) -> SignedIn | Refused:
        issuer = way.provider.issuer
        return signing_in.finish_oidc(tx, mine.rules, mine.site, issuer, subject, label=browser(), replacing=before)

    response = let_in(anonymous(work), more={"next": journey.next})
    cookies.drop(response, cookies.BEFORE)
    return response


def _subject(way: oidc.Door, journey: oidc.Journey, code: str) -> str:
    with services().database.read() as tx:
        now = tx.now
    try:
        found = way.subject(journey, code, now)
    except Unavailable as error:
        raise ServiceUnavailable(SILENT, retry_after=5) from error
    if isinstance(found, oidc.Unproven):
        raise _refusal(found.why)
    return found


def _refusal(why: str, *, told: bool = True) -> Refusal:
    """Keep why somebody was refused, and give the refusal in general words."""
    refused = services().write(lambda tx: challenges.failed(tx, Ceremony.OIDC, why, told=told))
    limits.failed()
    return Refusal(refused)
