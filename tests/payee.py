"""A payee on loopback: a real server in threads of its own, scripted byte for byte, over plain TCP or TLS."""

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

Script = Callable[[socket.socket, bytes], None]
"""Answers one request on its connection; what it leaves open is closed after it."""


def said(status: str, body: bytes = b"{}", *headers: str) -> bytes:
    """Give the bytes of an answer."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def answering(answer: bytes) -> Script:
    """Always answer with the same bytes."""
    return lambda connection, request: connection.sendall(answer)


@dataclass
class Payee:
    """A listening payee; `requests` are those it read whole, in order."""

    port: int
    script: Script
    requests: list[bytes] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    def serve(self, connection: socket.socket) -> None:
        """Read one request and play the script; a client that goes away early is no fault."""
        with contextlib.suppress(OSError), connection:
            connection.settimeout(120)
            request = read_request(connection)
            if request:
                self.requests.append(request)
                self.script(connection, request)


def read_request(connection: socket.socket) -> bytes:
    """Read one request with its body; nothing when it breaks off."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65_536)
        if not piece:
            return b""
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(
        int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")
    )
    while len(body) < length:
        piece = connection.recv(65_536)
        if not piece:
            return b""
        body += piece
    return head + b"\r\n\r\n" + body


@contextmanager
def listening(script: Script, *, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> Iterator[Payee]:
    """Serve until the end of the block."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as server:
        server.bind((host, 0))
        server.listen(16)
        payee = Payee(server.getsockname()[1], script)
        threads: list[threading.Thread] = []

        def one(connection: socket.socket) -> None:
            try:
                secured = connection if tls is None else tls.wrap_socket(connection, server_side=True)
            except OSError:
                connection.close()
                return
            payee.serve(secured)

        def accept() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                if payee.over.is_set():
                    connection.close()
                    return
                connection.settimeout(120)
                thread = threading.Thread(target=one, args=(connection,))
                thread.start()
                threads.append(thread)

        accepting = threading.Thread(target=accept)
        accepting.start()
        try:
            yield payee
        finally:
            payee.over.set()
            # Closing a listening socket wakes nobody who accepts on it; a last connection does.
            with contextlib.suppress(OSError), socket.create_connection((host, payee.port), 10):
                pass
            accepting.join(60)
            for thread in threads:
                thread.join(60)
