"""A forge's process that dies and comes back with what it had on disk: a proxy in front of a local GitHub.

At a chosen request it drops every connection, before the forge has the request or before the client has the answer,
and refuses new ones for a moment.
"""

import http.client
import http.server
import socket
import threading
import time
from typing import Any
from urllib.parse import urlsplit

AWAY_SECONDS = 0.1
_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "server", "date"}


class CutWire(http.server.ThreadingHTTPServer):
    """Forwards to `upstream`; dies once at request `number` (0: never), `before` or `after` it took effect."""

    daemon_threads = True

    def __init__(self, upstream: str, moment: str = "before", number: int = 0) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.upstream = urlsplit(upstream)
        self.moment, self.number = moment, number
        self.requests = 0
        self.away_until = 0.0
        self.guard = threading.Lock()
        self.thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self.thread.start()

    @property
    def url(self) -> str:
        """The address that clients use."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that died says nothing of interest."""

    def stop(self) -> None:
        """Forward no more."""
        self.shutdown()
        self.server_close()


class _Handler(http.server.BaseHTTPRequestHandler):
    server: CutWire
    protocol_version = "HTTP/1.1"
    timeout = 30
    # Headers and body leave one by one; else the second would wait for the client's late word on the first.
    disable_nagle_algorithm = True

    def log_message(self, *args: Any) -> None: ...

    def _any(self) -> None:
        wire = self.server
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        with wire.guard:
            wire.requests += 1
            dies = wire.requests == wire.number
        if dies or time.monotonic() < wire.away_until:
            if dies and wire.moment == "after":
                self._forward(body)
            if dies:
                wire.away_until = time.monotonic() + AWAY_SECONDS
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        status, headers, answer = self._forward(body)
        self.send_response(status)
        for name, value in headers:
            if name.lower() not in _HOP:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _any

    def _forward(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        upstream = self.server.upstream
        connection = http.client.HTTPConnection(upstream.hostname or "", upstream.port, timeout=30)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in {*_HOP, "host"}}
        try:
            connection.request(self.command, self.path, body or None, headers)
            response = connection.getresponse()
            return response.status, response.getheaders(), response.read()
        finally:
            connection.close()
