"""Many readers of an event stream in one thread: each notes when a message that names something arrived."""

import asyncio
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

CONNECT_SECONDS: Final = 60.0
AT_ONCE: Final = 50


@dataclass
class Arrivals:
    """How many readers were told something, and when the last of them was (monotonic seconds)."""

    count: int = 0
    last: float = 0.0


class _Reader(asyncio.Protocol):
    """One reader: sends its request, then takes every message apart."""

    def __init__(self, viewers: "Viewers", request: bytes) -> None:
        self._viewers = viewers
        self._request = request
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._viewers.transports.append(transport)
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        now = time.monotonic()
        *blocks, self._rest = (self._rest + data).split(b"\n\n")
        for block in blocks:
            if b"event: ready" in block:
                self._viewers.ready += 1
            elif (at := block.find(b"data: ")) >= 0:
                self._viewers.note(block[at + 6 :], now)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 # asyncio's signature
        self._viewers.lost += 1


@dataclass
class Viewers:
    """Readers of `path` at a port of loopback; `headers` are given out in turn, `name` takes from a message what it is
    about."""

    port: int
    path: str
    headers: Sequence[Mapping[str, str]]
    name: Callable[[Mapping[str, object]], str | None]
    arrivals: dict[str, Arrivals] = field(default_factory=dict)
    transports: list[asyncio.Transport] = field(default_factory=list)
    ready: int = 0
    lost: int = 0
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)

    def open(self, count: int) -> None:
        """Let so many begin to read, and wait until all were greeted."""
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        asyncio.run_coroutine_threadsafe(self._connect(count), self._loop).result(CONNECT_SECONDS)
        end = time.monotonic() + CONNECT_SECONDS
        while self.ready < count:
            if time.monotonic() > end or self.lost:
                raise RuntimeError(f"{self.ready} of {count} viewers were let in, {self.lost} were turned away")
            time.sleep(0.05)

    async def _connect(self, count: int) -> None:
        for number in range(count):
            named = {"Host": f"localhost:{self.port}", **self.headers[number % len(self.headers)]}
            fields = "".join(f"{key}: {value}\r\n" for key, value in named.items())
            request = f"GET {self.path} HTTP/1.1\r\n{fields}\r\n".encode("latin-1")
            await self._loop.create_connection(lambda request=request: _Reader(self, request), "127.0.0.1", self.port)  # type: ignore[misc] # bound now
            if number % AT_ONCE == AT_ONCE - 1:
                await asyncio.sleep(0.02)

    def note(self, data: bytes, now: float) -> None:
        """Take in one message."""
        named = self.name(json.loads(data))
        if named is not None:
            found = self.arrivals.setdefault(named, Arrivals())
            found.count += 1
            found.last = now

    def told(self, named: str, count: int, seconds: float) -> float:
        """Wait until so many were told of something; give when the last was, infinity when that took too long."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = self.arrivals.get(named)
            if found is not None and found.count >= count:
                return found.last
            time.sleep(0.005)
        return float("inf")

    def close(self) -> None:
        """Let all go away."""
        for transport in self.transports:
            self._loop.call_soon_threadsafe(transport.abort)
        self._loop.call_soon_threadsafe(self._loop.stop)
