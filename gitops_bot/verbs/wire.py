"""One connection, one request, one answer, all bounded in time and size: nothing else of this package knows sockets.

Plain `http.client`, whose bytes on the way out are ours alone: no redirection is followed, no proxy or `.netrc` asked,
nothing is decompressed, nothing is sent twice. `connect` ends before a byte of a request is sent, so that a failure of
it is known to have done nothing; what comes after may have been read on the other side.
"""

import http.client
import io
import ipaddress
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, cast

from gitops_bot.core.executions import NothingDone
from gitops_bot.verbs.grammar import MAX_REPLY

CONNECT_SECONDS: Final = 5.0
"""Seconds to reach one of the host's addresses, and as many for the handshake of TLS."""
PIECE_SECONDS: Final = 30.0
"""Seconds between two pieces of an answer."""
MAX_WIRE: Final = MAX_REPLY + 96 * 1024
"""Bytes of one answer that are ever received: status, headers, framing and body together."""
_PIECE: Final = 8 * 1024
_MOST_INTERIM: Final = 8


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer: status, headers by lower-case name, and as much of its body as is kept, still encoded; `cut` when that
    is not the whole. The status stands whatever became of the body."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    cut: bool


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """What came was no answer, or nothing came in time."""

    why: str


def connect(
    host: str, port: int, *, tls: ssl.SSLContext | None, until: float, name: str, loopback: bool
) -> socket.socket:
    """Connect to the first address of a host that takes a connection; over TLS when there is a context. With `loopback`
    only to such an address, whatever the name resolves to. `until` is a monotonic time.

    Raises:
        NothingDone: no address, no connection, or a certificate that does not stand for the host.
    """
    why = "it has no address here"
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise NothingDone(f"{name}: no address ({error})") from error
    for family, kind, protocol, _, address in found:
        if loopback and not ipaddress.ip_address(str(address[0]).split("%")[0]).is_loopback:
            why = "it is not this machine, and plain HTTP goes nowhere else"
            continue
        wire = socket.socket(family, kind, protocol)
        try:
            wire.settimeout(_left(until, CONNECT_SECONDS))
            wire.connect(address)
            if wire.getsockname() == wire.getpeername():
                # Where nobody listens on a port of the ephemeral range a connection can meet itself.
                raise ConnectionRefusedError("nobody listens")  # one ending for all ways to fail
            return wire if tls is None else _secured(wire, tls, host, until)
        except OSError as error:
            wire.close()
            why = _said(error)
            if isinstance(error, ssl.SSLError):
                break
    raise NothingDone(f"{name}: {why}")


def exchange(wire: socket.socket, request: bytes, until: float) -> Answer | NoAnswer:
    """Send a request and read its answer. Whoever answers before it has read everything is heard as well."""
    sending = ""
    rest = memoryview(request)
    try:
        while rest:
            wire.settimeout(_left(until, PIECE_SECONDS))
            rest = rest[wire.send(rest) :]
    except OSError as error:
        sending = _said(error)

    def receive(into: memoryview) -> int:
        wire.settimeout(_left(until, PIECE_SECONDS))
        return wire.recv_into(into)

    answer = read_answer(receive)
    return NoAnswer(sending) if isinstance(answer, NoAnswer) and sending else answer


def read_answer(receive: Callable[[memoryview], int]) -> Answer | NoAnswer:
    """Read one answer from what fills a buffer (0 at the end; may raise OSError). Its cost is bounded by `MAX_WIRE`."""
    incoming = _Incoming(receive)
    try:
        for _ in range(_MOST_INTERIM):
            response = http.client.HTTPResponse(incoming.as_socket(), method="POST")
            response.begin()
            if response.status == 101 or not 100 <= response.status < 200:
                break
        else:
            return NoAnswer("too many interim answers")
    except (OSError, http.client.HTTPException, ValueError) as error:
        return NoAnswer(_said(error))
    headers = {name.lower(): value for name, value in response.getheaders()}
    body, cut = _body(response)
    return Answer(response.status, headers, body, cut)


def _body(response: http.client.HTTPResponse) -> tuple[bytes, bool]:
    kept = bytearray()
    try:
        while len(kept) <= MAX_REPLY and (piece := response.read1(_PIECE)):
            kept += piece
    except (OSError, http.client.HTTPException, ValueError):
        return bytes(kept[:MAX_REPLY]), True
    # A body shorter than announced ends without an error here.
    cut = len(kept) > MAX_REPLY or bool(response.length)
    return bytes(kept[:MAX_REPLY]), cut


class _Stream(io.BufferedReader):
    """A stream that outlives the answers read from it, as one after an interim answer must, and whose lines are whole:
    `http.client` takes the end of a connection for the end of the headers."""

    def readline(self, size: int | None = -1, /) -> bytes:
        """Read a line.

        Raises:
            OSError: the connection ended within it.
        """
        line = super().readline(size)
        if not line.endswith(b"\n") and len(line) != size:
            raise OSError("the answer broke off")
        return line

    def close(self) -> None:
        """Leave it open; the connection is closed by whoever opened it."""


class _Incoming(io.RawIOBase):
    """What comes in, up to a count of bytes."""

    def __init__(self, receive: Callable[[memoryview], int]) -> None:
        self._receive = receive
        self._left = MAX_WIRE
        self._stream = _Stream(self, _PIECE)

    def readable(self) -> bool:
        """It can be read."""
        return True

    def readinto(self, buffer: object) -> int:
        """Fill a buffer.

        Raises:
            OSError: more than may be received, or the connection's own.
        """
        view = memoryview(cast("bytearray", buffer))[: self._left]
        if not view:
            raise OSError("an answer too long")
        count = self._receive(view)
        self._left -= count
        return count

    def makefile(self, mode: str) -> "_Stream":
        """Give the one stream, as a socket would."""
        assert mode == "rb"
        return self._stream

    def as_socket(self) -> socket.socket:
        """Pass for a socket: `http.client` asks an answer's socket for its stream and nothing else."""
        return cast("socket.socket", self)


def _secured(wire: socket.socket, tls: ssl.SSLContext, host: str, until: float) -> ssl.SSLSocket:
    wire.settimeout(_left(until, CONNECT_SECONDS))
    return tls.wrap_socket(wire, server_hostname=host)


def _left(until: float, most: float) -> float:
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError("no time left")
    return min(left, most)


def _said(error: Exception) -> str:
    """Name a failure by its kind: an error's own text may hold what the other side sent."""
    match error:
        case ssl.SSLCertVerificationError():
            return f"its certificate does not stand for it ({error.verify_message})"
        case TimeoutError():
            return "no answer in time"
        case OSError():
            return error.strerror or str(error) or type(error).__name__
        case _:
            return f"no HTTP answer ({type(error).__name__})"
