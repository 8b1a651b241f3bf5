"""Flask behind the edge: each request whole, in one of a bounded number of threads, through a2wsgi.

A view never waits for the network: its body is there before it starts, and a reader who does not take the answer is cut
off instead of holding a thread. Whether its caller is gone, or the process is about to end, is told by `environ[GONE]`.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

from a2wsgi import WSGIMiddleware

from gitops_bot.api.grammar import MAX_BODY
from workspace.asgi import ABORT, Message, Receive, Scope, Send, Turned, turn_away
from workspace.bodies import Failed, linger, read_body
from workspace.screening import Headers, field_of
from workspace.waiting import GONE

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

MOST_BODY: Final = 16 * MAX_BODY
"""Up to here the application itself says that a body is too large, in words that fit the route."""
BODY_SECONDS: Final = 20.0
"""How long a body may take to arrive."""
WRITE_SECONDS: Final = 20.0
_TURNED: Final = {
    Failed.OVER: Turned(413, f"A body may have {MAX_BODY} bytes.", "limit_exceeded"),
    Failed.LATE: Turned(408, "The body did not arrive in time."),
}


class Behind:
    """The application in its threads."""

    def __init__(self, application: "WSGIApplication", threads: int) -> None:
        self._application = application
        self._stopping = threading.Event()
        self._bridge = WSGIMiddleware(self._unless_gone)  # type: ignore[arg-type] # its own types of WSGI
        self._threads = self._bridge.executor = ThreadPoolExecutor(threads, "flask")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request that was screened."""
        headers: Headers = scope["headers"]
        declared = field_of(headers, b"content-length")
        length = None if declared is None or not declared.isdigit() else int(declared[:20])
        body = await read_body(receive, length, MOST_BODY, BODY_SECONDS)
        if body is Failed.GONE:
            return
        if isinstance(body, Failed):
            await turn_away(send, _TURNED[body], finish=False)
            await linger(receive)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
            return
        # The application is told the length that was counted, whatever way the body came.
        kept = [pair for pair in headers if pair[0] not in (b"content-length", b"transfer-encoding", b"expect")]
        counted = [(b"content-length", str(len(body)).encode("ascii"))] if body or length is not None else []
        gone = threading.Event()
        inner = {**scope, "headers": [*kept, *counted], GONE: lambda: gone.is_set() or self._stopping.is_set()}
        watching = asyncio.get_running_loop().create_task(_watch(receive, gone))
        try:
            await self._bridge(inner, _once(body), _Patient(send, scope, gone))  # type: ignore[arg-type] # as above
        finally:
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching

    def _unless_gone(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        gone: Callable[[], bool] = environ["asgi.scope"][GONE]
        if gone() and not self._stopping.is_set():
            # It waited for a thread longer than its caller did: nothing is done for nobody.
            start_response("408 Request Timeout", [("Content-Length", "0")])
            return [b""]
        environ[GONE] = gone
        return self._application(environ, start_response)

    def stop(self) -> None:
        """Let everything that waits in a view go on now."""
        self._stopping.set()

    def close(self) -> None:
        """Start nothing more; what runs ends by itself."""
        self._threads.shutdown(wait=False, cancel_futures=True)


async def _watch(receive: Receive, gone: threading.Event) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue
    gone.set()


def _once(body: bytes) -> Receive:
    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


class _Patient:
    """Sends, and after `WRITE_SECONDS` without room for more cuts the connection; it never raises for that, because the
    thread that writes would wait for ever on a reader that is gone."""

    def __init__(self, send: Send, scope: Scope, gone: threading.Event) -> None:
        self._send = send
        self._abort: Callable[[], None] = scope.get(ABORT, lambda: None)
        self._gone = gone

    async def __call__(self, message: Any) -> None:
        if self._gone.is_set():
            return
        try:
            async with asyncio.timeout(WRITE_SECONDS):
                await self._send(message)
        except TimeoutError:
            self._gone.set()
            self._abort()
