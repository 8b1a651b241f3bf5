"""The cookie of a person's session: read strictly from the raw header, written with every guard that browsers offer.

A browser keeps a `__Host-` cookie only when it came over a secure channel, for this host alone and for every path, so
no other host and no plain-text answer can plant one (RFC 6265bis, section 4.1.3). `http://localhost` counts as secure.
What a header holds twice, in another spelling or overlong is no cookie of ours: then nobody is signed in.
"""

import re
from typing import Final

from werkzeug.wrappers import Response

NAME: Final = "__Host-gitops-bot"
BEFORE: Final = "__Host-gitops-bot-before"
"""The cookie of somebody who is on their way through an OpenID provider; it stands for nobody."""
MAX_HEADER: Final = 16_384
_VALUE: Final = re.compile(r"(?!gbs_)[A-Za-z0-9_-]{16,200}", re.ASCII)
"""A secret of ours; the credential of a shell is none for a browser."""


def read(header: str | None, name: str = NAME) -> str | None:
    """Take a cookie's value out of a Cookie header; None when there is none, more than one, or one in disguise."""
    found = _named(header, name)
    if len(found) != 1:
        return None
    exact, value = found[0]
    return value if exact and _VALUE.fullmatch(value) else None


def carries(header: str | None) -> bool:
    """Tell whether a Cookie header holds anything that could pass for the session's cookie, well formed or not."""
    return bool(_named(header, NAME))


def _named(header: str | None, name: str) -> list[tuple[bool, str]]:
    """Find every pair of this name; the first member tells whether the name is spelled exactly so."""
    if header is None:
        return []
    if len(header) > MAX_HEADER:
        return [(False, "")]
    found = []
    for pair in header.split(";"):
        key, _, value = pair.lstrip(" ").partition("=")
        # Frameworks strip more than a space and some fold case; what would be ours to one of them is not to be trusted.
        if key.strip().lower() == name.lower():
            found.append((key == name, value.rstrip(" ")))
    return found


def keep(response: Response, secret: str, seconds: int, name: str = NAME) -> None:
    """Let the browser keep a secret for so many seconds."""
    response.set_cookie(name, secret, max_age=seconds, secure=True, httponly=True, samesite="Strict", path="/")


def drop(response: Response, name: str = NAME) -> None:
    """Let the browser forget a cookie."""
    response.delete_cookie(name, secure=True, httponly=True, samesite="Strict", path="/")
