"""Whether a webhook's raw bytes were signed with a secret of ours (GitHub, validating webhook deliveries). Pure.

Only the body is under the signature; the event's name and the delivery's id are not. A body that was heard once can be
sent again with another id, so what comes of a delivery must not depend on how often it comes. Nothing is parsed here.
"""

import hashlib
import hmac
import re
from collections.abc import Sequence
from typing import Final

HEADER: Final = "X-Hub-Signature-256"

_FORM: Final = re.compile(r"sha256=([0-9a-f]{64})", re.ASCII)


def sign(secret: bytes, body: bytes) -> str:
    """Write the header's value for a body."""
    return "sha256=" + hmac.new(secret, body, hashlib.sha256).hexdigest()


def is_signed(body: bytes, header: str | None, secrets: Sequence[bytes]) -> bool:
    """Tell whether a header is the signature of a body under one of the secrets (several while one is rotated).

    Every secret is tried, in constant time. No secret, or an empty one, signs nothing (I13).
    """
    given = _FORM.fullmatch(header) if header is not None and len(header) < 100 else None
    if given is None:
        return False
    found = False
    for secret in secrets:
        fits = hmac.compare_digest(hmac.new(secret, body, hashlib.sha256).hexdigest(), given[1])
        found = found or (fits and bool(secret))
    return found
