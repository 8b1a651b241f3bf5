"""Ids are lower-case ULIDs: they sort by the time of their transaction and are no secret."""

import secrets

from ulid import ULID


def new_id(now: int) -> str:
    """Make an id for something that happens at `now` (milliseconds since 1970 UTC)."""
    return str(ULID.from_bytes(now.to_bytes(6, "big") + secrets.token_bytes(10))).lower()
