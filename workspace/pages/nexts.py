"""Where a person goes on after signing in: a path of this workspace, never another place.

What comes in is a query parameter that anybody may put into a link.
"""

import re
from typing import Final
from urllib.parse import urlsplit

HOME: Final = "/needs-you"
MOST: Final = 500

# Printable ASCII that a path and its query may hold as they are (RFC 3986); a browser reads a backslash as a slash and
# drops tabs and line ends (WHATWG URL, "basic URL parser").
_PATH: Final = re.compile(r"/(?![/\\])[A-Za-z0-9._~!$&'()*+,;=:@%/?-]*", re.ASCII)
_NOT_AFTER: Final = ("/sign-in", "/enrol", "/api", "/static")
"""Pages that are only on the way, and what is no page."""


def next_of(wanted: str | None) -> str:
    """Give the path to go on to; the inbox for whatever is no path of a page here."""
    if not wanted or len(wanted) > MOST or _PATH.fullmatch(wanted) is None:
        return HOME
    try:
        parts = urlsplit(wanted)
    except ValueError:
        return HOME
    if parts.scheme or parts.netloc or any(_is_under(parts.path, place) for place in _NOT_AFTER):
        return HOME
    return wanted


def _is_under(path: str, place: str) -> bool:
    return path == place or path.startswith(f"{place}/")
