"""`GET /api/v1/events`: the ledger in sealed order as server-sent events, ids only, for a person who is signed in.

It goes on after `Last-Event-ID` or `after`; nothing is skipped. It ends within seconds of the end of the session, when
its reader does not keep up, and when the process stops.
"""

import asyncio
import contextlib
import json
import re
from collections.abc import Callable
from typing import Final
from urllib.parse import parse_qsl

from gitops_bot.core.errors import Unavailable
from workspace.asgi import ABORT, Receive, Scope, Send, Turned, start, turn_away
from workspace.live import Full, Hub, Watch
from workspace.screening import Headers, field_of

PATH: Final = "/api/v1/events"
HEARTBEAT_SECONDS: Final = 15.0
WRITE_SECONDS: Final = 10.0
_RETRY_MS: Final = 2_000
_SEQ: Final = re.compile(r"0|[1-9][0-9]{0,17}", re.ASCII)
_FROM_HERE: Final = ("same-origin", "none")
_ELSEWHERE: Final = Turned(403, "This came from a page of another origin.")
_UNAVAILABLE: Final = Turned(503, "The database did not answer. Try again.", None, {"retry-after": "1"})
_TOO_MANY: Final = Turned(
    429, "Too many event streams are open, of this session or in all.", "rate_limited", {"retry-after": "10"}
)
Admit = Callable[[str | None, str | None], str | Turned]
"""Tells by Authorization and Cookie whose session asks, or why nobody's."""


class Events:
    """The route. `origin` is the one whose pages may read it."""

    def __init__(self, hub: Hub, admit: Admit, origin: str, *, heartbeat: float = HEARTBEAT_SECONDS) -> None:
        self._hub = hub
        self._admit = admit
        self._origin = origin
        self._heartbeat = heartbeat

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one stream until it ends."""
        watch = await self._begin(scope["headers"], scope["query_string"])
        if isinstance(watch, Turned):
            await turn_away(send, watch)
            return
        watching = asyncio.get_running_loop().create_task(_until_gone(receive, watch))
        try:
            await self._stream(watch, scope, send)
        finally:
            self._hub.leave(watch)
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching

    async def _begin(self, headers: Headers, query: bytes) -> Watch | Turned:
        if not self._from_here(headers):
            return _ELSEWHERE
        authorization, cookie = field_of(headers, b"authorization"), field_of(headers, b"cookie")
        try:
            session = await self._hub.run(lambda: self._admit(authorization, cookie))
            if isinstance(session, Turned):
                return session
            after = _after(query, field_of(headers, b"last-event-id"))
            return after if isinstance(after, Turned) else await self._hub.watch(session, after)
        except Full:
            return _TOO_MANY
        except Unavailable:
            return _UNAVAILABLE

    def _from_here(self, headers: Headers) -> bool:
        origin, site = field_of(headers, b"origin"), field_of(headers, b"sec-fetch-site")
        return origin in (None, self._origin) and (site is None or site in _FROM_HERE)

    async def _stream(self, watch: Watch, scope: Scope, send: Send) -> None:
        opening = {"content-type": "text/event-stream; charset=utf-8", "x-accel-buffering": "no"}
        first = f"retry: {_RETRY_MS}\n\n" + _named(
            "reset" if watch.reset else "ready", {"seq": watch.begun}, watch.begun
        )
        try:
            async with asyncio.timeout(WRITE_SECONDS):
                await start(send, 200, opening)
                await _write(send, first.encode("ascii"))
            while (found := await watch.next(self._heartbeat)) is not None:
                # A reader for whom there is no room for so long is dropped; it may come again and go on where it was.
                async with asyncio.timeout(WRITE_SECONDS):
                    await _write(send, found or b":\n\n")
            async with asyncio.timeout(WRITE_SECONDS):
                last = _named("ended", {"reason": watch.ended}).encode("ascii")
                await send({"type": "http.response.body", "body": last, "more_body": False})
        except TimeoutError:
            abort: Callable[[], None] = scope.get(ABORT, lambda: None)
            abort()


def _named(event: str, document: dict[str, object], place: int | None = None) -> str:
    told = "" if place is None else f"id: {place}\n"
    return f"event: {event}\n{told}data: {json.dumps(document, separators=(',', ':'))}\n\n"


async def _write(send: Send, text: bytes) -> None:
    await send({"type": "http.response.body", "body": text, "more_body": True})


async def _until_gone(receive: Receive, watch: Watch) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue
    watch.end("gone")


def _after(query: bytes, last: str | None) -> int | Turned | None:
    """Take the place to go on after: what the browser remembers counts before what the page's address says."""
    pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True)
    if any(name != "after" for name, _ in pairs) or len(pairs) > 1:
        return Turned(422, "The query may hold `after` and nothing else.", "bad_params")
    told = last or (pairs[0][1] if pairs else None)
    if told is None:
        return None
    return int(told) if _SEQ.fullmatch(told) else Turned(422, "`after` is no place in the ledger.", "bad_params")
