"""The vocabulary between the server and what it calls (ASGI 3), and the answers that are given without Flask.

What is answered here carries the same guards as a page: nothing is kept in caches, framed, sniffed or told to others.
"""

import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

from gitops_bot.authority.remedies import remedy_of
from workspace.guards import ALWAYS, KEPT_NOWHERE, NO_PAGE
from workspace.problems import MEDIA_TYPE

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

TARGET: Final = "gitops_bot.target"
"""Key of a scope: the request's target as it was sent."""
ABORT: Final = "gitops_bot.abort"
"""Key of a scope: cuts the connection, without waiting for what is still to be written."""

GUARDS: Final = tuple(
    (name.lower().encode("ascii"), value.encode("ascii"))
    for name, value in {
        "Cache-Control": KEPT_NOWHERE,
        "Content-Security-Policy": NO_PAGE,
        **ALWAYS,
    }.items()
)


@dataclass(frozen=True, slots=True)
class Turned:
    """A request that is not served: the status, what is said of it, its refusal code where it has one, more headers."""

    status: int
    detail: str
    reason: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


async def start(send: Send, status: int, headers: Mapping[str, str]) -> None:
    """Begin an answer with the guards."""
    named = [(name.encode("latin-1"), text.encode("latin-1")) for name, text in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": [*GUARDS, *named]})


async def turn_away(send: Send, turned: Turned, *, finish: bool = True) -> None:
    """Answer with a problem document (RFC 9457) and close the connection: what is left of the request is not read.

    Without `finish` the whole answer is written and the exchange left open, for who reads on before it ends.
    """
    title = HTTPStatus(turned.status).phrase
    document: dict[str, object] = {"status": turned.status, "type": "about:blank", "title": title}
    document |= {"detail": turned.detail, "reason": turned.reason, "facts": {}}
    document["remedy"] = remedy_of(turned.reason or "")
    body = json.dumps(document).encode("ascii")
    headers = {"content-type": MEDIA_TYPE, "content-length": str(len(body)), "connection": "close"}
    await start(send, turned.status, {**headers, **turned.headers})
    await send({"type": "http.response.body", "body": body, "more_body": not finish})
