"""`POST /mcp`: who comes with the token of a run that goes on may call the broker's tools (streamable HTTP).

Before the protocol's library sees anything, the origin, the token and the frame are judged; what reaches it is one JSON
object of bounded size and depth, without the token. No session is kept and no stream is open: GET and DELETE are not
served. Of the protocol's revisions, those that know structured results are served (`SERVED`).
"""

import asyncio
import json
from collections.abc import Callable
from typing import Any, Final

from werkzeug.exceptions import Unauthorized

from gitops_bot.api.grammar import parse_bearer
from gitops_bot.api.tools.grammar import MAX_MESSAGE, message
from gitops_bot.bootstrap.workspace import Services
from gitops_bot.core.errors import Malformed, Unavailable
from gitops_bot.store.states import TokenScope
from workspace.asgi import ABORT, GUARDS, Application, Message, Receive, Scope, Send, Turned, start, turn_away
from workspace.bodies import Failed, linger, read_body
from workspace.callers import authenticate
from workspace.mcp_tools.server import BEARER, Run, build
from workspace.screening import Headers, field_of

PATH: Final = "/mcp"
SERVED: Final = ("2025-06-18", "2025-11-25", "2026-07-28")
"""Revisions of the protocol; the last one has no handshake."""
BODY_SECONDS: Final = 10.0
WRITE_SECONDS: Final = 10.0
MOST_AT_ONCE: Final = 32
_VERSION: Final = b"mcp-protocol-version"
_TOO_OLD: Final = ("2024-11-05", "2025-03-26")
_KEPT_BACK: Final = (b"authorization", b"cookie", b"mcp-session-id", b"transfer-encoding", b"content-length")
_PARSE_ERROR: Final = -32_700
_INVALID_REQUEST: Final = -32_600
_FROM_HERE: Final = ("same-origin", "none")
_ELSEWHERE: Final = Turned(403, "This came from a page of another origin.")
_NOBODY: Final = Turned(
    401,
    "Send the token of your run as `Authorization: Bearer …`.",
    headers={"www-authenticate": 'Bearer realm="gitops-bot"'},
)
_INVALID: Final = Turned(
    401,
    "This token stands for no run, or its run has ended.",
    headers={"www-authenticate": 'Bearer realm="gitops-bot", error="invalid_token"'},
)
_OTHER_SCOPE: Final = Turned(
    403,
    "This takes the token of a run.",
    "not_authorised",
    {"www-authenticate": 'Bearer realm="gitops-bot", error="insufficient_scope", scope="run"'},
)
_NOT_JSON: Final = Turned(415, "Send the message as application/json.")
_BUSY: Final = Turned(503, "Too many calls are at hand. Try again.", None, {"retry-after": "1"})
_UNAVAILABLE: Final = Turned(503, "The database did not answer. Try again.", None, {"retry-after": "1"})
_TURNED: Final = {
    Failed.OVER: Turned(413, f"A message may have {MAX_MESSAGE} bytes.", "limit_exceeded"),
    Failed.LATE: Turned(408, "The message did not arrive in time."),
}


class Wrong(Exception):
    """A frame that is not answered by the library: the JSON-RPC error that is said instead, and more of it."""

    def __init__(self, code: int, text: str, data: object = None) -> None:
        super().__init__(text)
        self.error = {"code": code, "message": text, **({} if data is None else {"data": data})}


class Tools:
    """The route. `run` lets a thread of the workspace's do what may wait."""

    def __init__(self, services: Services, run: Run) -> None:
        self._services = services
        self._run = run
        self._application: Application | None = None
        self._building = asyncio.Lock()
        self._at_hand = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one message."""
        if self._at_hand >= MOST_AT_ONCE:
            await _away(receive, send, _BUSY)
            return
        self._at_hand += 1
        try:
            await self._serve(scope, receive, send)
        finally:
            self._at_hand -= 1

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers: Headers = scope["headers"]
        token = await self._token(headers)
        if isinstance(token, Turned):
            await _away(receive, send, token)
            return
        declared = field_of(headers, b"content-length") or ""
        length = int(declared[:20]) if declared.isdigit() else None
        body = await read_body(receive, length, MAX_MESSAGE, BODY_SECONDS)
        if body is Failed.GONE:
            return
        if isinstance(body, Failed):
            await _away(receive, send, _TURNED[body])
            return
        try:
            kept = await self._run(lambda: framed(headers, body))
        except Wrong as wrong:
            await _say(send, wrong)
            return
        application = await self._loaded()
        inner = [pair for pair in headers if pair[0] not in _KEPT_BACK]
        inner.append((b"content-length", str(len(kept)).encode("ascii")))
        await application(
            {**scope, "headers": inner, BEARER: token},
            _Replay(kept, receive),
            _Guarded(send, scope.get(ABORT, _nothing)),
        )

    async def _token(self, headers: Headers) -> str | Turned:
        """Give the token of whoever may call."""
        origin, site = field_of(headers, b"origin"), field_of(headers, b"sec-fetch-site")
        if origin not in (None, self._services.site.origin) or (site is not None and site not in _FROM_HERE):
            return _ELSEWHERE
        token = parse_bearer(field_of(headers, b"authorization"))
        if token is None:
            return _NOBODY
        try:
            turned = await self._run(lambda: self._judged(token))
        except Unavailable:
            return _UNAVAILABLE
        kind = (field_of(headers, b"content-type") or "").partition(";")[0].strip().lower()
        return turned or (token if kind == "application/json" else _NOT_JSON)

    def _judged(self, token: str) -> Turned | None:
        with self._services.database.read() as tx:
            try:
                caller = authenticate(tx, token)
            except Unauthorized:
                return _INVALID
        return None if caller.scope is TokenScope.RUN else _OTHER_SCOPE

    async def _loaded(self) -> Application:
        async with self._building:
            if self._application is None:
                self._application = await self._run(lambda: build(self._services, self._run))
        return self._application


def framed(headers: Headers, body: bytes) -> bytes:
    """Judge a frame and its revision; give the bytes that are handed on. Who offers a revision that is not served is
    offered the oldest one that is.

    Raises:
        Wrong: it is not handed on.
    """
    try:
        found = dict(message(body))
    except Malformed as error:
        code = _INVALID_REQUEST if "not a JSON object" in str(error) else _PARSE_ERROR
        raise Wrong(code, f"{error}.") from None
    versions = [value.decode("latin-1") for name, value in headers if name == _VERSION]
    if len(versions) > 1:
        raise Wrong(_INVALID_REQUEST, "MCP-Protocol-Version came twice.")
    params = found.get("params")
    if found.get("method") == "initialize" and isinstance(params, dict):
        if params.get("protocolVersion") not in SERVED[:2]:
            found["params"] = {**params, "protocolVersion": SERVED[0]}
            return json.dumps(found).encode("ascii")
    elif not versions or versions[0] in _TOO_OLD:
        told = "Name the revision of the protocol in MCP-Protocol-Version, one that is served here."
        raise Wrong(_INVALID_REQUEST, told, {"supported": list(SERVED), "requested": versions[0] if versions else None})
    return body


async def _away(receive: Receive, send: Send, turned: Turned) -> None:
    """Turn somebody away who may still be sending."""
    await turn_away(send, turned, finish=False)
    await linger(receive)
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _say(send: Send, wrong: Wrong) -> None:
    answer = json.dumps({"jsonrpc": "2.0", "id": None, "error": wrong.error}).encode("ascii")
    await start(send, 400, {"content-type": "application/json", "content-length": str(len(answer))})
    await send({"type": "http.response.body", "body": answer, "more_body": False})


def _nothing() -> None:
    return None


class _Replay:
    """Receives a body that was read, and then what else comes."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._body: bytes | None = body
        self._receive = receive

    async def __call__(self) -> Message:
        body, self._body = self._body, None
        if body is not None:
            return {"type": "http.request", "body": body, "more_body": False}
        return await self._receive()


class _Guarded:
    """Sends with the guards of every answer; a reader who takes nothing is cut off."""

    def __init__(self, send: Send, abort: Callable[[], Any]) -> None:
        self._send = send
        self._abort = abort

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            taken = {name for name, _ in GUARDS}
            rest = [pair for pair in message.get("headers", ()) if pair[0].lower() not in taken]
            message = {**message, "headers": [*GUARDS, *rest]}
        try:
            async with asyncio.timeout(WRITE_SECONDS):
                await self._send(message)
        except TimeoutError:
            self._abort()
