"""uvicorn, with what a server on its own needs against slow and greedy clients; the one place that knows which it is.

A connection has `HEAD_SECONDS` for each request's head and `IDLE_SECONDS` between requests; its head ends by
`MAX_HEAD` bytes; there are `MOST_CONNECTIONS` at most, and when there are more, the one that has been waiting longest
without a request gives way. One process, one thread for the network: killed at any moment it leaves nothing behind.
"""

import asyncio
import contextlib
import signal
import socket
import struct
from collections.abc import Generator
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from workspace.asgi import ABORT, TARGET
from workspace.edge import Edge
from workspace.screening import MAX_HEAD

HEAD_SECONDS: Final = 10.0
IDLE_SECONDS: Final = 60
STOP_SECONDS: Final = 20
MOST_CONNECTIONS: Final = 1_000
BACKLOG: Final = 1_024
_AT_ONCE: Final = struct.pack("ii", 1, 0)
_TOO_LARGE: Final = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class _State(ServerState):
    """All connections, and in order of their waiting those from which no request is at hand."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: dict[_Connection, None] = {}


class _Connection(HttpToolsProtocol):
    """uvicorn's connection with limits on the time and size of a request's head."""

    server_state: _State

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._deadline: asyncio.TimerHandle | None = None
        self._in_head = True
        self._head_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
        super().connection_made(transport)
        self._await_head()
        if len(self.connections) > MOST_CONNECTIONS:
            next(iter(self.server_state.waiting)).cut()

    def connection_lost(self, exc: Exception | None) -> None:
        self.server_state.waiting.pop(self, None)
        self._disarm()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        was_in_head = self._in_head
        super().data_received(data)
        if self.transport.is_closing() or not (was_in_head and self._in_head):
            return
        # Line ends before a request begin nothing, and still took uvicorn's own timer away.
        self._head_bytes += len(data)
        if self._head_bytes > MAX_HEAD:
            at_hand: RequestResponseCycle | None = self.cycle
            if at_hand is None or at_hand.response_complete:
                self.transport.write(_TOO_LARGE)
            self.transport.close()
        elif self._deadline is None:
            self._arm()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope[ABORT] = self.cut  # type: ignore[typeddict-unknown-key] # keys of our own
        self._in_head = True
        self._head_bytes = 0
        if self._deadline is None:
            self._arm()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._disarm()
        self.server_state.waiting.pop(self, None)
        self.scope[TARGET] = self.url  # type: ignore[typeddict-unknown-key] # keys of our own
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        was_pipelined = bool(self.pipeline)
        super().on_response_complete()
        if not was_pipelined and not self.transport.is_closing():
            # Between requests uvicorn's own timer runs, until something comes.
            self.server_state.waiting[self] = None

    def cut(self) -> None:
        """End the connection at once and drop what is still to be written; the kernel would keep that for a reader who
        takes nothing (socket(7), SO_LINGER)."""
        wire = self.transport.get_extra_info("socket")
        if wire is not None and not self.transport.is_closing():
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
        self.transport.abort()

    def _await_head(self) -> None:
        self.server_state.waiting[self] = None
        self._arm()

    def _arm(self) -> None:
        self._deadline = self.loop.call_later(HEAD_SECONDS, self.cut)

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class Server(uvicorn.Server):
    """Serves an edge until SIGTERM or SIGINT: requests at hand are finished, streams end. A second signal cuts it."""

    def __init__(self, edge: Edge) -> None:
        super().__init__(
            uvicorn.Config(
                edge,
                http=_Connection,
                loop="uvloop",
                ws="none",
                lifespan="off",
                interface="asgi3",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_keep_alive=IDLE_SECONDS,
                timeout_graceful_shutdown=STOP_SECONDS,
                backlog=BACKLOG,
            )
        )
        self.server_state = _State()
        self._edge = edge

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve on sockets that are bound."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._told)
        try:
            await super().serve(sockets)
        finally:
            self._edge.close()

    def _told(self) -> None:
        self.force_exit = self.should_exit
        self.should_exit = True
        self._edge.stop()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Leave the signals to `serve`; uvicorn would end the process by them afterwards."""
        yield


def listen(host: str, port: int) -> socket.socket:
    """Bind an address; port 0 takes a free one.

    Raises:
        OSError: it cannot be had.
    """
    name = host.strip("[]")
    family = socket.getaddrinfo(name or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
    return socket.create_server((name, port), family=family, backlog=BACKLOG)
