"""The pages at the door: sign in, let a first key in by a code, add a second key, let a shell in.

They show and ask; every step of a ceremony is a POST that `static/js/ceremonies.js` sends to `/api/v1/auth`.
"""

from typing import Final
from urllib.parse import urlencode

from flask import Blueprint, redirect, render_template, request
from werkzeug.wrappers import Response as Answer

from gitops_bot.authority import shells
from gitops_bot.authority.site import Site
from gitops_bot.store import passkeys
from workspace.auth import oidc
from workspace.auth.people import person_or_none
from workspace.pages.frame import open_page
from workspace.pages.nexts import next_of
from workspace.serving import services

signing_in: Final = Blueprint("signing_in", __name__)

MOST_CODE: Final = 40
_UNITS: Final = ((86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute"), (1_000, "second"))


@signing_in.get("/sign-in")
def sign_in() -> str | Answer:
    """Show how to sign in; whoever is signed in already goes on."""
    following = next_of(request.args.get("next"))
    if person_or_none() is not None:
        return redirect(following, 303)
    way = oidc.oidc_here()
    elsewhere = None if way is None else {"name": way.provider.name, "href": _departing(following)}
    return _alone("signing/sign_in.html", next=following, oidc=elsewhere)


@signing_in.get("/enrol")
def enrol() -> str:
    """Show where a code from the host is typed."""
    return _alone("signing/enrol.html", rest=resting(services().site))


@signing_in.get("/enrol/second")
def second() -> str:
    """Offer a second key to whoever has let the first one in."""
    with open_page() as page:
        mine = [key for key in passkeys.of(page.tx, page.name) if key.revoked_at is None]
        return page.show("signing/second.html", keys=mine)


@signing_in.get("/shell")
def shell() -> str:
    """Show the shell that waits under a code, to compare and confirm; without one, where the code is typed."""
    with open_page() as page:
        code = request.args.get("code", "").strip()
        found = shells.shown(page.tx, code) if 0 < len(code) <= MOST_CODE else None
        grouped = "" if found is None else "-".join(found.code[at : at + 4] for at in range(0, len(found.code), 4))
        return page.show("signing/shell.html", shell=found, grouped=grouped, tried=bool(code))


def _departing(following: str) -> str:
    return f"/sign-in/oidc?{urlencode({'next': following})}"


def _alone(template: str, **shown: object) -> str:
    """Render a page for somebody who is not signed in."""
    return render_template(template, person=None, site=services().site, single_keys=False, badge_text="", **shown)


def resting(site: Site) -> str:
    """Write in words how long a new key rests; '' when it counts at once."""
    for length, unit in _UNITS:
        if site.rest >= length:
            count = site.rest // length
            # A day is told in hours up to two of them: "24 hours" cannot be read as "until tomorrow".
            if unit == "day" and count < 3:
                continue
            return f"{count} {unit}{'' if count == 1 else 's'}"
    return ""
