"""The body of a request, read whole before anybody works on it, and never more of it than may be kept.

A sender who promises or sends too much is answered at once and listened to a little longer, for who is cut off while
still sending does not see the answer. One who sends too slowly is told so.
"""

import asyncio
import enum
from typing import Final

from workspace.asgi import Receive

LINGER_SECONDS: Final = 2.0
LINGER_BYTES: Final = 16 * 1024 * 1024


class Failed(enum.Enum):
    """Why there is no body: too much, too slow, or its sender went away."""

    OVER = enum.auto()
    LATE = enum.auto()
    GONE = enum.auto()


async def read_body(receive: Receive, declared: int | None, cap: int, seconds: float) -> bytes | Failed:
    """Read a body of at most `cap` bytes in so many seconds; `declared`: what its sender promises, if it does."""
    if declared is not None and declared > cap:
        return Failed.OVER
    parts, size = [], 0
    try:
        async with asyncio.timeout(seconds):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    return Failed.GONE
                part = message.get("body", b"")
                size += len(part)
                if size > cap:
                    return Failed.OVER
                parts.append(part)
                if not message.get("more_body", False):
                    return b"".join(parts)
    except TimeoutError:
        return Failed.LATE


async def linger(receive: Receive) -> None:
    """Read on for a moment and keep nothing, so that an answer already written is seen before the connection ends."""
    left = LINGER_BYTES
    try:
        async with asyncio.timeout(LINGER_SECONDS):
            while left > 0:
                message = await receive()
                if message["type"] != "http.request" or not message.get("more_body", False):
                    return
                left -= len(message.get("body", b""))
    except TimeoutError:
        return
