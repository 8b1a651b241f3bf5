"""What went wrong, as a page where a person looks at one: the same problem document, in words, with a way on.

A request for the API, and one that does not prefer HTML, keeps the document. The status and the headers stay.
"""

import json
from typing import Any, Final

from flask import Flask, Response, render_template, request

from workspace.problems import MEDIA_TYPE
from workspace.serving import services

_TITLES: Final = {
    400: "That request makes no sense here",
    401: "Nobody is signed in",
    403: "Not allowed",
    404: "There is no such page",
    405: "This page is only for reading",
    413: "That was too large",
    414: "That address is too long",
    422: "That does not fit",
    429: "Too many, too fast",
    500: "Something broke here",
    503: "Not reachable just now",
}
_TO_DO: Final = {
    401: "Sign in; you come back to what you wanted.",
    404: "The address may be mistyped, or what it named may be gone. What is open is under “Needs you”.",
    413: "Nothing of it was stored. Send less: a text may have 8,000 characters.",
    429: "Wait a minute, then load the page again.",
    500: "Nothing was decided by this. The fault is written down in the log; load the page again, or tell who runs it.",
    503: "Nothing was decided by this. Wait a moment and load the page again.",
}


def install(app: Flask) -> None:
    """Let an application show its problem documents so. After `problems.install`."""
    app.after_request(_shown)


def _shown(response: Response) -> Response:
    if response.mimetype != MEDIA_TYPE or not wants_page():
        return response
    problem: dict[str, Any] = json.loads(response.get_data(as_text=True))
    status = response.status_code
    response.set_data(
        render_template(
            "failed.html",
            person=None,
            site=services().site,
            single_keys=False,
            badge_text="",
            status=status,
            title=_TITLES.get(status, "That did not work"),
            told=None if status in (404, 500) else problem.get("detail"),
            to_do=_TO_DO.get(status) or problem.get("remedy", ""),
            reason=problem.get("reason"),
        )
    )
    response.mimetype = "text/html"
    return response


def wants_page() -> bool:
    """Tell whether the request at hand is a person's for a page: not the API's, HTML preferred to JSON."""
    if request.path.startswith("/api/") or request.method not in ("GET", "HEAD"):
        return False
    accepted = request.accept_mimetypes
    return accepted["text/html"] > max(accepted["application/json"], accepted[MEDIA_TYPE])
