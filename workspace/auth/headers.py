"""What every answer says to the browser about itself: where its parts may come from, and that nobody may frame it.

Scripts run only from a file of ours whose tag carries the nonce of this very answer; nothing inline, nothing remote,
no plug-in, no base address, no form to elsewhere (Content Security Policy Level 3). An answer that is no page may load
nothing at all.
"""

import secrets
from typing import Final

from flask import Flask, Response, g

from workspace.auth.people import csrf_token
from workspace.guards import ALWAYS, KEPT_NOWHERE, NO_PAGE
from workspace.serving import services

_PAGE: Final = (
    "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'self' 'nonce-{nonce}'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
STRICT_TRANSPORT: Final = "max-age=31536000"


def csp_nonce() -> str:
    """Give the nonce of the answer at hand, for `<script nonce=…>`; another for every answer."""
    if "csp_nonce" not in g:
        g.csp_nonce = secrets.token_urlsafe(16)
    nonce: str = g.csp_nonce
    return nonce


def guard(response: Response) -> Response:
    """Write the headers of an answer; what a view said of caching stands."""
    page = response.mimetype == "text/html"
    policy = _PAGE.format(nonce=csp_nonce()) if page else NO_PAGE
    response.headers["Content-Security-Policy"] = policy
    for name, value in ALWAYS.items():
        response.headers[name] = value
    response.headers.setdefault("Cache-Control", KEPT_NOWHERE)
    if services().site.origin.startswith("https://"):
        response.headers["Strict-Transport-Security"] = STRICT_TRANSPORT
    return response


def install(app: Flask) -> None:
    """Let every answer of an application carry them, and give templates the nonce and the session's token."""
    app.after_request(guard)
    app.context_processor(lambda: {"csp_nonce": csp_nonce, "csrf_token": csrf_token})
