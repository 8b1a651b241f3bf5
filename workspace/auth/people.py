"""Which person a request stands for, read from the rows when it is asked; nobody is signed in by a row of yesterday.

A person comes with the cookie of a browser or with the credential of a shell as a bearer (`gbs_…`). Views ask once
before they work, and every change asks `again` inside its own transaction. Whether the person may do it is the
services' to say; that the request was meant by its person is checked before any view (`workspace.auth.csrf`).
"""

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlsplit

from flask import abort, g, redirect, request
from werkzeug.datastructures import WWWAuthenticate
from werkzeug.exceptions import Unauthorized

from gitops_bot.api.door.grammar import parse_fresh
from gitops_bot.api.grammar import parse_bearer
from gitops_bot.authority.sessions import SHELL_PREFIX, TOUCHED_EVERY, Person, authenticate
from gitops_bot.core.errors import Reason, Refused, refuse
from gitops_bot.store.engine import Tx
from workspace.auth import cookies
from workspace.serving import services

if TYPE_CHECKING:
    from gitops_bot.authority.signing_in import Confirmed

SIGN_IN: Final = "/sign-in"
_NOT_HERE: Final = "Nobody is signed in here, or no longer. Sign in, or run `gitops-bot login`."
_MAX_NEXT: Final = 500


def secret_here() -> str | None:
    """Give the secret of the session that the request at hand carries; a bearer counts before a cookie."""
    header = request.headers.get("Authorization")
    if header is not None:
        token = parse_bearer(header)
        return token if token is not None and token.startswith(SHELL_PREFIX) else None
    return cookies.read(request.headers.get("Cookie"))


def has_agent_token() -> bool:
    """Tell whether the request carries a bearer that is no person's, for routes that serve both."""
    token = parse_bearer(request.headers.get("Authorization"))
    return token is not None and not token.startswith(SHELL_PREFIX)


def person_or_none() -> Person | None:
    """Give the person of this request, None when nobody is signed in. Notes the session's use once a minute."""
    if "person" not in g:
        secret = secret_here()
        g.person = None if secret is None else _look(secret)
    found: Person | None = g.person
    return found


def _look(secret: str) -> Person | None:
    mine = services()
    with mine.database.read() as tx:
        person = authenticate(tx, mine.rules, mine.site, secret, touch=False)
        stale = person is not None and tx.now - person.session.seen_at >= TOUCHED_EVERY
    if stale:
        return mine.write(lambda tx: authenticate(tx, mine.rules, mine.site, secret))
    return person


def person_here() -> Person:
    """Give the person of this request.

    Raises:
        Unauthorized: nobody is signed in.
    """
    person = person_or_none()
    if person is None:
        raise unauthorized()
    return person


def page_person() -> Person:
    """Give the person who looks at a page; whoever is not signed in is sent to sign in, and back here afterwards."""
    person = person_or_none()
    if person is None:
        wanted = request.full_path.rstrip("?") if request.method in ("GET", "HEAD") else "/"
        abort(redirect(f"{SIGN_IN}?next={quote(local_path(wanted), safe='')}", 303))
    return person


def again(tx: Tx, person: Person) -> Person:
    """Give the person as the rows of this transaction know them: still signed in, in the same session.

    Raises:
        Unauthorized: no longer.
    """
    secret, mine = secret_here(), services()
    found = None if secret is None else authenticate(tx, mine.rules, mine.site, secret, touch=tx.writable)
    if found is None or found.session.id != person.session.id or found.principal.name != person.principal.name:
        raise unauthorized()
    return found


def unauthorized(description: str = _NOT_HERE) -> Unauthorized:
    """Make the answer to somebody who is not signed in."""
    return Unauthorized(description, www_authenticate=WWWAuthenticate("bearer", {"realm": "gitops-bot"}))


def local_path(text: str | None) -> str:
    """Give a path of this workspace to go on to; anything that could lead elsewhere becomes the front page."""
    if not text or len(text) > _MAX_NEXT or not text.startswith("/") or text[1:2] in ("/", "\\"):
        return "/"
    if any(not "\x21" <= character <= "\x7e" or character == "\\" for character in text):
        return "/"
    parts = urlsplit(text)
    return "/" if parts.scheme or parts.netloc else text


def csrf_token() -> str:
    """Give the token that every change by this browser's session must carry in `X-CSRF-Token`; '' without a session."""
    secret = cookies.read(request.headers.get("Cookie"))
    return "" if secret is None else csrf_of(secret)


def csrf_of(secret: str) -> str:
    """Derive a session's token; whoever has it cannot come back to the session's secret."""
    mac = hmac.digest(secret.encode("ascii"), b"gitops-bot/csrf/v1", hashlib.sha256)
    return base64.urlsafe_b64encode(mac).rstrip(b"=").decode("ascii")


def confirmed(tx: Tx, person: Person, act: Mapping[str, Any]) -> "Confirmed | Refused":
    """Check that the person confirmed this very act with a passkey just now.

    A refusal `assertion_required` holds the act as JSON in its fact `act`: whoever is asked begins
    `POST /auth/fresh/begin` with it, and sends the same request again with `fresh`. For work that commits its refusals
    (`Services.decide`), so that a failed ceremony stays in the ledger.
    """
    from gitops_bot.authority.signing_in import finish_fresh

    given = parse_fresh(request.get_data())
    if given is None:
        told = json.dumps(act, ensure_ascii=True, sort_keys=True)
        return refuse(Reason.ASSERTION_REQUIRED, "Confirm this with your passkey.", act=told)
    mine = services()
    return finish_fresh(tx, mine.rules, mine.site, person, given.ceremony, given.credential, act)
