"""Flask behind the edge: each request whole, in one of a bounded number of threads, in the environment of a2wsgi.

A view never waits for the network: its body is there before it starts, and a reader who does not take the answer is cut
off instead of holding a thread. An answer goes back in one piece, only a long one in several: a2wsgi's own responder
crosses threads three times for each. Whether its caller is gone, or the process is about to end, is told by
`environ[GONE]`.
"""

import asyncio
import contextlib
import contextvars
import io
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, runtime_checkable

from a2wsgi.wsgi import build_environ

from gitops_bot.api.grammar import MAX_BODY
from workspace.asgi import ABORT, Message, Receive, Scope, Send, Turned, turn_away
from workspace.bodies import Failed, linger, read_body
from workspace.screening import Headers, field_of
from workspace.waiting import GONE

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

MOST_BODY: Final = 16 * MAX_BODY
"""Up to here the application itself says that a body is too large, in words that fit the route."""
BODY_SECONDS: Final = 20.0
"""How long a body may take to arrive."""
WRITE_SECONDS: Final = 20.0
PIECE: Final = 65_536
"""Bytes of an answer that are collected before they are sent; what is shorter goes in one piece."""
T = TypeVar("T")
_TURNED: Final = {
    Failed.OVER: Turned(413, f"A body may have {MAX_BODY} bytes.", "limit_exceeded"),
    Failed.LATE: Turned(408, "The body did not arrive in time."),
}


class Behind:
    """The application in its threads."""

    def __init__(self, application: "WSGIApplication", threads: int) -> None:
        self._application = application
        self._stopping = threading.Event()
        self._threads = ThreadPoolExecutor(threads, "flask")

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
        loop = asyncio.get_running_loop()
        watching = loop.create_task(_watch(receive, gone))
        answer = _Answer(_Patient(send, scope, gone), loop)
        inner: Any = {**scope, "headers": [*kept, *counted]}
        made: Any = io.BytesIO(body)
        environ: dict[str, Any] = {**build_environ(inner, made), "wsgi.errors": sys.stderr}
        environ[GONE] = lambda: gone.is_set() or self._stopping.is_set()
        try:
            await loop.run_in_executor(self._threads, contextvars.copy_context().run, self._work, environ, answer, gone)
            await answer.finish()
        finally:
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching

    def _work(self, environ: Any, answer: "_Answer", gone: threading.Event) -> None:
        if gone.is_set():
            # It waited for a thread longer than its caller did: nothing is done for nobody.
            answer.start("408 Request Timeout", [("Content-Length", "0")])
            return
        parts = self._application(environ, answer.start)
        try:
            for part in parts:
                answer.add(part)
        finally:
            if isinstance(parts, _Closeable):
                parts.close()

    async def run(self, work: Callable[[], T]) -> T:
        """Let one of the threads do something else than a request, and give what came of it."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

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


@runtime_checkable
class _Closeable(Protocol):
    def close(self) -> None:
        """Let go of what it holds (PEP 3333)."""


class _Answer:
    """An answer of the application, collected in its thread; what is longer than a piece is sent from there."""

    def __init__(self, send: "_Patient", loop: asyncio.AbstractEventLoop) -> None:
        self._send = send
        self._loop = loop
        self._head: Message | None = None
        self._is_begun = False
        self._parts: list[bytes] = []
        self._size = 0

    def start(self, status: str, headers: list[tuple[str, str]], exc_info: Any = None, /) -> Callable[[bytes], object]:
        """Take status and headers (WSGI's start_response)."""
        if exc_info is not None and self._is_begun:
            raise exc_info[1]
        named = [(name.lower().encode("latin-1"), text.encode("latin-1")) for name, text in headers]
        self._head = {"type": "http.response.start", "status": int(status[:3]), "headers": named}
        return self.add

    def add(self, part: bytes) -> None:
        """Take a part of the body."""
        self._parts.append(part)
        self._size += len(part)
        if self._size >= PIECE:
            asyncio.run_coroutine_threadsafe(self._flush(more=True), self._loop).result()

    async def finish(self) -> None:
        """Send what is left, and the end."""
        await self._flush(more=False)

    async def _flush(self, *, more: bool) -> None:
        if not self._is_begun:
            self._is_begun = True
            assert self._head is not None, "the application answered without a status"
            await self._send(self._head)
        body, self._parts, self._size = b"".join(self._parts), [], 0
        await self._send({"type": "http.response.body", "body": body, "more_body": more})


class _Patient:
    """Sends, and after `WRITE_SECONDS` without room for more cuts the connection; it never raises for that, because the
    thread that writes would wait for ever on a reader that is gone."""

    def __init__(self, send: Send, scope: Scope, gone: threading.Event) -> None:
        self._send = send
        self._abort: Callable[[], None] = scope.get(ABORT, lambda: None)
        self._gone = gone

    async def __call__(self, message: Message) -> None:
        if self._gone.is_set():
            return
        try:
            async with asyncio.timeout(WRITE_SECONDS):
                await self._send(message)
        except TimeoutError:
            self._gone.set()
            self._abort()
