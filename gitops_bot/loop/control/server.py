"""One thread serves the control bridge: any number of clients, bounded memory for each, one reply line a request line.

It reads lines, knows who showed which token, and sends session lines to whoever tails. What a command does is
`loop/control/steering`; this thread never waits for a client, and a client that is slow, silent or flooding costs one
descriptor and two bounded buffers until it is closed.
"""

import contextlib
import os
import selectors
import socket
import threading
import time
from dataclasses import dataclass, field
from typing import Final

from gitops_bot.bridge.grammar import (
    MAX_LINE,
    Auth,
    Change,
    Level,
    Status,
    Tail,
    accepted,
    encode,
    parse_command,
    rejected,
)
from gitops_bot.core.errors import Malformed, Unavailable
from gitops_bot.loop.control.steering import Steering
from gitops_bot.loop.control.tokens import Tokens
from gitops_bot.loop.session import SessionLog

MAX_CLIENTS: Final = 256
OUT_LIMIT: Final = 512 * 1024
CHUNK: Final = 128 * 1024
MAX_PIECES: Final = 64
IDLE_SECONDS: Final = 60.0
HELD_SECONDS: Final = 600.0

_Piece = tuple[int, list[bytes], int]


@dataclass(slots=True)
class _Tailing:
    offset: int
    seq: int
    from_seq: int
    until: int
    as_broker: bool
    announced: bool = False


@dataclass(slots=True, eq=False)
class _Client:
    socket: socket.socket
    level: Level
    authenticated: bool
    seen: float
    incoming: bytearray = field(default_factory=bytearray)
    outgoing: bytearray = field(default_factory=bytearray)
    fresh: bool = True
    closing: bool = False
    tail: _Tailing | None = None


class ControlServer:
    """The bridge of one loop. Without tokens it serves everybody, as `--insecure-bridge` asks.

    Raises:
        Unavailable: the port cannot be bound.
    """

    def __init__(
        self, host: str, port: int, *, steering: Steering, log: SessionLog, tokens: Tokens | None, trusting: bool
    ) -> None:
        self._steering, self._log, self._tokens, self._trusting = steering, log, tokens, trusting
        self._clients: dict[int, _Client] = {}
        self._closing: float | None = None
        self._pieces: dict[tuple[int, int], _Piece] = {}
        self._broker_reads = False
        self._broker_seq = 0
        self._selector = selectors.DefaultSelector()
        self._wake, self._woken = socket.socketpair()
        self._wake.setblocking(False)
        self._woken.setblocking(False)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._listener.bind((host, port))
            self._listener.listen(64)
        except OSError as error:
            self._release()
            raise Unavailable(f"control port {port}: {error.strerror}") from error
        self._listener.setblocking(False)
        self._reader = os.open(log.path, os.O_RDONLY | os.O_CLOEXEC)
        self._thread = threading.Thread(target=self._serve, name="control-bridge", daemon=True)

    @property
    def address(self) -> str:
        """Where it listens, as `host:port`."""
        host, port = self._listener.getsockname()[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def start(self) -> None:
        """Serve from now on."""
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._log.listen(self.nudge)
        self._thread.start()

    def nudge(self) -> None:
        """Say that the session log has grown; never blocks."""
        with contextlib.suppress(OSError):  # a full pipe wakes it as well
            self._wake.send(b"\x00")

    def stop(self, linger: float) -> None:
        """End the thread after what is written was sent, or after `linger` seconds. A broker that reads this
        loop is given that time to read the last line, so that it learns how the run ended."""
        self._closing = time.monotonic() + linger
        if self._thread.is_alive():
            self.nudge()
            self._thread.join(linger + 5.0)

    def _release(self) -> None:
        for thing in (self._listener, self._wake, self._woken, self._selector):
            thing.close()

    # ---- the thread

    def _serve(self) -> None:
        swept = time.monotonic()
        try:
            while not self._done():
                behind = any(self._behind(client) for client in self._clients.values())
                for key, events in self._selector.select(0 if behind else (0.05 if self._closing else 1.0)):
                    self._ready(key.fileobj, events)
                for client in list(self._clients.values()):
                    self._pump(client)
                if (now := time.monotonic()) - swept >= 1.0:
                    swept = now
                    self._sweep(now)
        finally:
            for client in list(self._clients.values()):
                self._drop(client)
            os.close(self._reader)
            self._release()

    def _done(self) -> bool:
        if self._closing is None:
            return False
        if time.monotonic() >= self._closing:
            return True
        pending = any(client.outgoing or self._behind(client) for client in self._clients.values())
        return not pending and (not self._broker_reads or self._broker_seq >= self._log.seq)

    def _ready(self, ready: object, events: int) -> None:
        if ready is self._listener:
            self._accept()
        elif ready is self._woken:
            with contextlib.suppress(BlockingIOError):
                self._woken.recv(4096)
        elif isinstance(ready, socket.socket) and (client := self._clients.get(ready.fileno())):
            if events & selectors.EVENT_READ:
                self._receive(client)
            if events & selectors.EVENT_WRITE and client.socket.fileno() >= 0:
                self._send(client)
                self._answer(client)

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            self._make_room()  # out of descriptors; the listener stays readable and is tried again
            return
        if len(self._clients) >= MAX_CLIENTS and not self._make_room():
            connection.close()
            return
        connection.setblocking(False)
        level = Level.BROKER if self._trusting else Level.NOBODY
        client = _Client(connection, level, authenticated=False, seen=time.monotonic())
        self._clients[connection.fileno()] = client
        self._selector.register(connection, selectors.EVENT_READ)

    def _make_room(self) -> bool:
        """Close the client without a token that was silent longest: such clients must not keep the broker out."""
        strangers = [client for client in self._clients.values() if not client.authenticated]
        if strangers:
            self._drop(min(strangers, key=lambda client: client.seen))
        return bool(strangers)

    def _receive(self, client: _Client) -> None:
        try:
            received = client.socket.recv(MAX_LINE)
        except BlockingIOError:
            return
        except OSError:
            received = b""
        if not received:
            client.closing = True
            self._send(client)
            return
        client.incoming += received
        self._answer(client)

    def _answer(self, client: _Client) -> None:
        """Answer the whole lines that have come; none between a tail's request and its reply."""
        while (
            not client.closing and len(client.outgoing) < OUT_LIMIT and not (client.tail and not client.tail.announced)
        ):
            end = client.incoming.find(b"\n", 0, MAX_LINE + 1)
            if end < 0:
                if len(client.incoming) > MAX_LINE:
                    self._refuse(client, "line too long")
                break
            line = bytes(client.incoming[:end])
            del client.incoming[: end + 1]
            client.seen = time.monotonic()
            self._take(client, line)
        self._send(client)

    def _take(self, client: _Client, line: bytes) -> None:
        first, client.fresh = client.fresh, False
        try:
            command = parse_command(line)
        except Malformed as error:
            self._reply(client, rejected(error.message, cmd=error.where or None))
            return
        match command:
            case Auth():
                self._authenticate(client, command.token, first=first)
            case Status():
                self._reply(client, accepted("status", status=self._steering.status()))
            case Tail():
                self._tail(client, command)
            case Change():
                known = client.authenticated
                self._reply(client, self._steering.handle(command, client.level, authenticated=known))

    def _authenticate(self, client: _Client, token: str, *, first: bool) -> None:
        level = self._tokens.level(token) if self._tokens is not None else Level.NOBODY
        if not first:
            self._refuse(client, "auth must be the first line")
        elif level is not Level.NOBODY:
            client.level, client.authenticated = level, True
            self._reply(client, {"ok": True})
        elif self._trusting:
            self._reply(client, {"ok": True})
        else:
            self._refuse(client, "wrong token")

    def _tail(self, client: _Client, wanted: Tail) -> None:
        if wanted.as_broker and client.level < Level.BROKER:
            self._reply(client, rejected("not permitted", cmd="tail"))
            return
        if client.tail is not None:
            self._reply(client, rejected("this connection tails already", cmd="tail"))
            return
        if wanted.as_broker:
            self._steering.attach_broker()
            self._broker_reads = True
        seq, offset = self._log.place(wanted.from_seq)
        client.tail = _Tailing(offset, seq, wanted.from_seq, self._log.size, wanted.as_broker)

    def _behind(self, client: _Client) -> bool:
        tail = client.tail
        if tail is None or client.closing or len(client.outgoing) >= OUT_LIMIT:
            return False
        return tail.offset < self._log.size or not tail.announced

    def _pump(self, client: _Client) -> None:
        """Move a bounded piece of the session log towards a client: the replay, then the reply, then what follows."""
        tail = client.tail
        if tail is None or not self._behind(client):
            return
        limit = self._log.size if tail.announced else tail.until
        size = min(CHUNK, limit - tail.offset)
        if size:
            length, lines, seq = self._stamped(tail.offset, size, tail.seq)
            if not length:
                self._refuse(client, "the session log holds a line that is too long")  # never one of ours
            skipped = max(tail.from_seq - tail.seq, 0)
            client.outgoing += b"".join(lines[skipped:]) if skipped else b"".join(lines)
            tail.offset, tail.seq = tail.offset + length, seq
        if not tail.announced and tail.offset >= tail.until:
            tail.announced = True
            client.outgoing += encode(accepted("tail", from_seq=tail.from_seq))
            self._answer(client)  # what was asked meanwhile; it sends as well
            return
        self._send(client)

    def _stamped(self, offset: int, size: int, seq: int) -> _Piece:
        """Read whole lines at an offset and number them: bytes read, the lines as they are sent, the last number. Many
        clients that replay at once share the work."""
        if (known := self._pieces.get((offset, size))) is not None:
            return known
        raw = os.pread(self._reader, size, offset)
        whole = raw[: raw.rfind(b"\n") + 1].split(b"\n")[:-1]
        # A line that is no object keeps its number and is not sent.
        lines = [
            b'{"seq":%d,' % number + line[1:] + b"\n" if line.startswith(b'{"') else b""
            for number, line in enumerate(whole, seq + 1)
        ]
        piece = (sum(map(len, whole)) + len(whole), lines, seq + len(lines))
        if size == CHUNK:
            if len(self._pieces) >= MAX_PIECES:
                self._pieces.pop(next(iter(self._pieces)))
            self._pieces[(offset, size)] = piece
        return piece

    def _reply(self, client: _Client, message: dict[str, object]) -> None:
        client.outgoing += encode(message)

    def _refuse(self, client: _Client, error: str) -> None:
        self._reply(client, rejected(error))
        client.closing = True
        client.incoming.clear()

    def _send(self, client: _Client) -> None:
        if client.socket.fileno() < 0:
            return
        try:
            while client.outgoing:
                sent = client.socket.send(client.outgoing[:CHUNK])
                del client.outgoing[:sent]
                client.seen = time.monotonic()
        except BlockingIOError:
            pass
        except OSError:
            self._drop(client)
            return
        if client.tail is not None and client.tail.as_broker and not client.outgoing and client.tail.announced:
            self._broker_seq = max(self._broker_seq, client.tail.seq)
        if client.closing and not client.outgoing:
            self._drop(client)
            return
        wanted = selectors.EVENT_WRITE if client.outgoing else 0
        if not client.closing and len(client.outgoing) < OUT_LIMIT and len(client.incoming) <= MAX_LINE:
            wanted |= selectors.EVENT_READ
        self._selector.modify(client.socket, wanted or selectors.EVENT_WRITE)

    def _drop(self, client: _Client) -> None:
        if self._clients.pop(client.socket.fileno(), None) is not None:
            self._selector.unregister(client.socket)
            client.socket.close()

    def _sweep(self, now: float) -> None:
        for client in list(self._clients.values()):
            follows = client.tail is not None and not client.outgoing
            limit = HELD_SECONDS if client.authenticated and not client.outgoing else IDLE_SECONDS
            if not follows and now - client.seen > limit:
                self._drop(client)
