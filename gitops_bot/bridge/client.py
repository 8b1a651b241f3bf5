"""A loop's control bridge, as its broker uses it: one connection a call, the token first, every read bounded.

Each failure of the socket or of the other side's grammar leaves as `Unavailable`; the caller sends again with the same
key until it has read an answer (protocols/control-bridge.md, "Broker as client").
"""

import socket
import time
from collections.abc import Mapping
from typing import Final

from gitops_bot.bridge.grammar import MAX_LINE, LogLine, Reply, encode, parse_incoming
from gitops_bot.core.errors import Malformed, Unavailable
from gitops_bot.ports import BridgeReply

MAX_LOG_LINE: Final = 1024 * 1024
"""A session line of another engine may hold a diff; a reply never does."""
MAX_PAGE: Final = 8 * 1024 * 1024
"""Bytes of session log read in one call; the rest is read by the next call, after the last number seen."""


class _Wire:
    """One connection with a deadline in monotonic seconds."""

    def __init__(self, address: str, timeout: float) -> None:
        host, separator, port = address.rpartition(":")
        if not separator or not port.isascii() or not port.isdigit() or int(port) > 65535:
            raise Unavailable(f"no bridge address: {address!r}")
        self._deadline = time.monotonic() + timeout
        self._buffer = bytearray()
        try:
            self._socket = socket.create_connection((host.strip("[]"), int(port)), timeout)
        except OSError as error:
            raise Unavailable(f"bridge {address}: {error.strerror or 'no connection'}") from error

    def close(self) -> None:
        self._socket.close()

    def write(self, message: Mapping[str, object]) -> None:
        line = encode(message)
        if len(line) > MAX_LINE:
            raise Unavailable("bridge: the command is longer than a line may be")
        try:
            self._arm()
            self._socket.sendall(line)
        except OSError as error:
            raise Unavailable(f"bridge: {error.strerror or 'connection lost'}") from error

    def read(self, limit: int = MAX_LINE) -> Reply | LogLine:
        searched = 0
        while (end := self._buffer.find(b"\n", searched)) < 0:
            searched = len(self._buffer)
            if searched > limit:
                raise Unavailable("bridge: a line longer than allowed")
            try:
                self._arm()
                received = self._socket.recv(64 * 1024)
            except OSError as error:
                raise Unavailable(f"bridge: {error.strerror or 'no answer in time'}") from error
            if not received:
                raise Unavailable("bridge: closed before it answered")
            self._buffer += received
        if end > limit:
            raise Unavailable("bridge: a line longer than allowed")
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        try:
            return parse_incoming(line)
        except Malformed as error:
            raise Unavailable(f"bridge: unreadable answer ({error.message})") from error

    def authenticate(self, token: str) -> None:
        self.write({"auth": token})
        reply = self.read()
        if not isinstance(reply, Reply) or not reply.ok:
            raise Unavailable("bridge: the token was not taken")

    def _arm(self) -> None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._socket.settimeout(left)


class BridgeLink:
    """`ports.LoopLink` over TCP. `timeout` is seconds for a whole call."""

    def __init__(self, timeout: float = 5.0) -> None:
        self._timeout = timeout

    def send(self, address: str, token: str, command: Mapping[str, str]) -> BridgeReply:
        """Send one command and read its reply. An empty token sends no `auth` line (a loop with an open bridge).

        Raises:
            Unavailable: no connection, no answer in time, a wrong token, or an answer that is none.
        """
        wire = _Wire(address, self._timeout)
        try:
            if token:
                wire.authenticate(token)
            wire.write(dict(command))
            reply = wire.read()
        finally:
            wire.close()
        if not isinstance(reply, Reply):
            raise Unavailable("bridge: a session line where a reply was due")
        return BridgeReply(acknowledged=reply.ok, dup=reply.dup, error=None if reply.ok else reply.error or "refused")

    def read_log(self, address: str, token: str, after: int) -> tuple[tuple[int, Mapping[str, object]], ...]:
        """Read the session lines after a number, up to now, at most `MAX_PAGE` bytes of them, as an attached broker.

        Raises:
            Unavailable: as `send`; or the loop does not serve the tail.
        """
        wire = _Wire(address, self._timeout)
        lines: list[tuple[int, Mapping[str, object]]] = []
        size = 0
        try:
            if token:
                wire.authenticate(token)
            wire.write({"cmd": "tail", "from_seq": after, "role": "broker"})
            while size < MAX_PAGE:
                incoming = wire.read(MAX_LOG_LINE)
                if isinstance(incoming, Reply):
                    if not incoming.ok:
                        raise Unavailable(f"bridge: tail refused: {incoming.error}")
                    break
                lines.append((incoming.seq, incoming.record))
                size += incoming.size
        finally:
            wire.close()
        return tuple(lines)
