"""Files of the pages have their content in their address: a browser keeps each for good, and never an old one.

`/static/NAME?v=HASH`: with the right hash the answer may be kept for a year; with any other it is asked for again.
"""

import hashlib
from functools import lru_cache
from pathlib import Path
from typing import Final

from flask import Response, abort, request, send_from_directory, url_for

ROOT: Final = Path(__file__).resolve().parent.parent / "static"
_FOR_GOOD: Final = "public, max-age=31536000, immutable"


@lru_cache(maxsize=128)
def version_of(name: str) -> str:
    """Give the version of a file of ours: the first 12 hex digits of its SHA-256; read once a process."""
    return hashlib.sha256((ROOT / name).read_bytes()).hexdigest()[:12]


def asset(name: str) -> str:
    """Give the address of a file of ours, for templates."""
    return url_for("pages.static_file", name=name, v=version_of(name))


def serve(name: str) -> Response:
    """Send one file.

    Raises:
        NotFound: there is none of that name.
    """
    wanted = request.args.get("v")
    found = send_from_directory(ROOT, name)
    if not found.direct_passthrough and found.status_code != 200:
        abort(404)
    found.headers["Cache-Control"] = _FOR_GOOD if wanted == version_of(name) else "no-cache"
    return found
