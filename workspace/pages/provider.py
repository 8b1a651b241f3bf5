"""The way out to an OpenID provider and back. The page that a browser comes back to sends what it was given to the API
itself: a GET opens no session, and the cookie of the journey travels with requests of our own pages alone.
"""

from typing import Final

from flask import Blueprint, redirect, render_template, request
from werkzeug.exceptions import NotFound, ServiceUnavailable
from werkzeug.wrappers import Response as Answer

from gitops_bot.core.errors import Unavailable
from workspace.auth import cookies, limits, oidc
from workspace.pages.nexts import next_of
from workspace.serving import services

provider: Final = Blueprint("provider", __name__)


@provider.get("/sign-in/oidc")
def depart() -> Answer:
    """Send a browser to the provider."""
    way = oidc.oidc_here()
    if way is None:
        raise NotFound
    limits.ceremony()
    journey = oidc.depart(next_of(request.args.get("next")))
    try:
        response = redirect(way.address(journey), 303)
    except Unavailable as error:
        told = "The OpenID provider does not answer. Sign in with a passkey, or try again."
        raise ServiceUnavailable(told, retry_after=5) from error
    cookies.keep(response, journey.secret, oidc.LASTS, cookies.BEFORE)
    return response


@provider.get(oidc.BACK)
def back() -> str:
    """Show the page that finishes what the browser came back with."""
    way = oidc.oidc_here()
    if way is None:
        raise NotFound
    return render_template(
        "signing/back.html",
        person=None,
        site=services().site,
        single_keys=False,
        badge_text="",
        provider=way.provider.name,
    )
