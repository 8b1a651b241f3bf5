"""Where a person goes on after signing in: a page of this workspace, never another place, never the door again.

What comes in is a query parameter that anybody may put into a link.
"""

from typing import Final
from urllib.parse import urlsplit

from workspace.auth.people import local_path

HOME: Final = "/needs-you"
_NOT_AFTER: Final = ("/sign-in", "/enrol", "/api", "/static")
"""What is only on the way, or no page."""


def next_of(wanted: str | None) -> str:
    """Give the path to go on to; the inbox for whatever is no path of a page here."""
    path = local_path(wanted)
    plain = urlsplit(path).path
    on_the_way = any(plain == place or plain.startswith(f"{place}/") for place in _NOT_AFTER)
    return HOME if plain == "/" or on_the_way else path
