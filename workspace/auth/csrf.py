"""Whether a change was meant by the person whose browser sends it, found out before any view is called.

What carries the session's cookie must come from a page of this workspace (`Origin`, else `Sec-Fetch-Site`) and hold the
session's token in `X-CSRF-Token`. Without the cookie a bearer must be there, which no other site can make a browser
send. The ceremonies by which people come in need neither, but a browser's origin is checked there too.
"""

import hmac
from collections.abc import Callable
from enum import StrEnum
from typing import Any, Final, TypeVar

from flask import Flask, current_app, request
from werkzeug.exceptions import Forbidden, UnsupportedMediaType

from gitops_bot.api.grammar import parse_bearer
from workspace.auth import cookies
from workspace.auth.people import csrf_of, unauthorized
from workspace.serving import services

HEADER: Final = "X-CSRF-Token"
SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_DOOR: Final = "__door__"
_ELSEWHERE: Final = "This request did not come from a page of this workspace. Open it at {origin} and try again."
_NO_TOKEN: Final = "The page is of a session that has ended or changed. Load it again and repeat what you did."  # noqa: S105 # a sentence
F = TypeVar("F", bound=Callable[..., Any])


class Door(StrEnum):
    """Who may call a changing route without being signed in: a browser with a page of ours, or a shell as well."""

    BROWSER = "browser"
    SHELL = "shell"


def door(who: Door) -> Callable[[F], F]:
    """Let a changing route be called by somebody who is not signed in; put it under the route's decorator."""

    def mark(view: F) -> F:
        setattr(view, _DOOR, who)
        return view

    return mark


def door_of(view: Callable[..., Any] | None) -> Door | None:
    """Tell who may call a view without being signed in; None: nobody."""
    found: Door | None = getattr(view, _DOOR, None)
    return found


def check() -> None:
    """Check the request at hand, before its view.

    Raises:
        Forbidden: it came from elsewhere, or without the session's token.
        Unauthorized: it carries neither a cookie nor a bearer.
        UnsupportedMediaType: its body is no JSON.
    """
    if request.method in SAFE or request.routing_exception is not None:
        return
    header = request.headers.get("Cookie")
    carries = cookies.carries(header)
    who = door_of(current_app.view_functions.get(request.endpoint or ""))
    if not carries and who is None:
        if parse_bearer(request.headers.get("Authorization")) is None:
            raise unauthorized()
        return
    if not _came_from_here(known=carries or who is Door.BROWSER):
        raise Forbidden(_ELSEWHERE.format(origin=services().site.origin))
    if request.mimetype != "application/json" and (request.content_length or "Transfer-Encoding" in request.headers):
        raise UnsupportedMediaType("Send the body as application/json.")
    if who is None and not _holds_token(cookies.read(header)):
        raise Forbidden(_NO_TOKEN)


def _came_from_here(*, known: bool) -> bool:
    """Tell whether a page of ours sent this; with `known` something must say so, else nothing may say otherwise.

    Browsers send Origin with every change that a script makes, and neither header can be set by a script (Fetch
    Standard, "Origin header" and "forbidden request-header").
    """
    origins = request.headers.getlist("Origin")
    site = request.headers.get("Sec-Fetch-Site")
    if site not in (None, "same-origin"):
        return False
    if origins:
        return origins == [services().site.origin]
    return site is not None or not known


def _holds_token(secret: str | None) -> bool:
    sent = request.headers.get(HEADER, "")
    if secret is None or not sent.isascii():
        return False
    return hmac.compare_digest(sent, csrf_of(secret))


def install(app: Flask) -> None:
    """Let an application check every request so."""
    app.before_request(check)
