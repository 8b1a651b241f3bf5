"""The demo's payee as a command: it takes one transfer a key over HTTP, and writes down every call that it got.

`POST /transfers` with the bearer of its token file. A key that it knows does nothing and is answered with `dup`; with
another body it is refused. The books are one line of JSON a call, on disk before the answer. It is the other side of
docs/executors.md, and knows nothing of the broker but that page.
"""

import argparse
import hashlib
import hmac
import json
import os
import sys
import threading
from collections.abc import Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, cast

from gitops_bot.core.errors import Malformed
from gitops_bot.demo.grammar import MAX_ORDER, Order, read_order

PATH: Final = "/transfers"
SECONDS: Final = 30.0


class Books:
    """What was paid, by key, and the file that tells of each call."""

    def __init__(self, file: Path) -> None:
        """Begin new books."""
        self._file = file
        self._keys: dict[str, str] = {}
        self._lock = threading.Lock()

    def take(self, order: Order, body: bytes) -> tuple[HTTPStatus, dict[str, Any]]:
        """Pay an order unless its key was paid before; gives what is answered, once it is on disk."""
        digest = hashlib.sha256(body).hexdigest()
        with self._lock:
            known = self._keys.get(order.key)
            if known not in (None, digest):
                return HTTPStatus.UNPROCESSABLE_ENTITY, {"error": "this key was used with another body"}
            self._keys[order.key] = digest
            paid = known is None and order.action is not None
            self._write(
                {"key": order.key, "paid": paid, "action_hash": order.action_hash, "body": body.decode("utf-8")}
            )
            return HTTPStatus.OK, {"booked": order.key} | ({"dup": True} if known is not None else {})

    def _write(self, line: dict[str, Any]) -> None:
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, sort_keys=True) + "\n")
            file.flush()
            os.fsync(file.fileno())


class Server(ThreadingHTTPServer):
    """Listens on loopback, on a port that is free."""

    daemon_threads = True

    def __init__(self, books: Books, token: str) -> None:
        """Take the books, and the bearer that is let in."""
        super().__init__(("127.0.0.1", 0), _Handler)
        self.books, self.token = books, token

    @property
    def url(self) -> str:
        """Where transfers are sent."""
        return f"http://127.0.0.1:{self.server_address[1]}{PATH}"


class _Handler(BaseHTTPRequestHandler):
    timeout = SECONDS

    def do_POST(self) -> None:  # the library's name
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit() and len(length) < 9 and int(length) <= MAX_ORDER):
            return self._answer(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, {"error": f"state a length up to {MAX_ORDER}"})
        body = self.rfile.read(int(length))
        server = cast("Server", self.server)
        if self.path != PATH:
            return self._answer(HTTPStatus.NOT_FOUND, {"error": "there is nothing here"})
        given = self.headers.get("Authorization", "").encode("utf-8", "replace")
        if not hmac.compare_digest(given, f"Bearer {server.token}".encode()):
            return self._answer(HTTPStatus.UNAUTHORIZED, {"error": "who are you?"})
        try:
            order = read_order(body)
        except Malformed as error:
            return self._answer(HTTPStatus.BAD_REQUEST, {"error": str(error)})
        if self.headers.get("Idempotency-Key") != order.key:
            return self._answer(HTTPStatus.BAD_REQUEST, {"error": "header and body name two keys"})
        return self._answer(*server.books.take(order, body))

    def _answer(self, status: HTTPStatus, document: dict[str, Any]) -> None:
        body = json.dumps(document, sort_keys=True).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until ended. Gives the exit status."""
    parser = argparse.ArgumentParser(prog="python -m gitops_bot.demo.payee", description=__doc__)
    parser.add_argument("--books", type=Path, required=True, help="the file that calls are written to")
    parser.add_argument("--token-file", type=Path, required=True, help="the file with the bearer that is let in")
    flags = parser.parse_args(arguments)
    with Server(Books(flags.books), flags.token_file.read_text("ascii").strip()) as server:
        sys.stdout.write(json.dumps({"url": server.url}) + "\n")
        sys.stdout.flush()
        try:
            server.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
