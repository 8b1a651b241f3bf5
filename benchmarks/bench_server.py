"""Servers for the workspace side by side in one run, below the same edge: uvicorn with the limits of `workspace.server`
("ours"), uvicorn as it comes, granian, hypercorn, and waitress, which has no event loop and so no streams.

A server that is not installed is left out (granian and hypercorn are no dependencies). Measured for each: JSON through
Flask over 16 connections, 500 event streams with their slowest message and memory, what becomes of a body of 10 MB, of
clients that trickle or say nothing, of SIGTERM with a request at hand and a stream open, and of SIGKILL. Bounds, for
ours: streams within 1 s, every slow client cut off, SIGTERM clean, nothing left after SIGKILL, and at least half of
waitress's requests. docs/adr/0019 tells what was chosen.
"""

import asyncio
import contextlib
import importlib.util
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.edge_app import SERVERS
from benchmarks.viewers import Viewers
from tests.ports import free_port

SECONDS: Final = 4.0
CONNECTIONS: Final = 16
VIEWERS: Final = 500
WATCHED_SECONDS: Final = 5.0
SLOW_LIMIT: Final = 26.0
BOUND_SECONDS: Final = 1.0
SHARE: Final = 0.5
ROOT: Final = Path(__file__).parent.parent


@dataclass
class Found:
    """What one server did; None where it cannot do it. Seconds, MB, requests a second."""

    rate: float = 0.0
    slowest: float | None = None
    before: float = 0.0
    after: float = 0.0
    body: str = ""
    cut: Mapping[str, float | None] | None = None
    stop: str = ""
    stopped_well: bool = False
    processes: int = 1
    left: int = 0


def tree(pid: int) -> list[int]:
    """List a process and all below it."""
    found = [pid]
    with contextlib.suppress(FileNotFoundError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text(encoding="ascii").split():
                found += tree(int(child))
    return found


def resident(pid: int) -> float:
    """Add up the memory of a process and all below it."""
    total = 0
    for one in tree(pid):
        status = Path(f"/proc/{one}/status").read_text(encoding="ascii")
        match = re.search(r"^VmRSS:\s+(\d+)", status, re.MULTILINE)
        total += 0 if match is None else int(match[1])
    return total / 1024


@contextmanager
def running(name: str) -> Iterator[tuple[int, "subprocess.Popen[bytes]"]]:
    """Run a server until it is left."""
    port = free_port()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])}
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.edge_app", name, str(port)],
        cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    try:
        end = time.monotonic() + 30
        while time.monotonic() < end:
            with contextlib.suppress(OSError):
                if ask(port, "/json").startswith(b"HTTP/1.1 200"):
                    break
            time.sleep(0.1)
        else:
            raise RuntimeError(f"{name} did not start")
        yield port, process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def request(port: int, path: str, more: str = "Connection: close\r\n", method: str = "GET") -> bytes:
    """Write a request's head."""
    return f"{method} {path} HTTP/1.1\r\nHost: localhost:{port}\r\n{more}\r\n".encode("ascii")


def ask(port: int, path: str) -> bytes:
    """Ask once and read to the end."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(request(port, path))
        return rest(connection)


def rest(connection: socket.socket) -> bytes:
    """Read until the other side ends it."""
    found = b""
    with contextlib.suppress(ConnectionError):
        while part := connection.recv(65_536):
            found += part
    return found


class _Asker(asyncio.Protocol):
    """One connection that asks again as soon as it is answered."""

    def __init__(self, sent: bytes, counted: list[int]) -> None:
        self._sent, self._counted = sent, counted
        self._got, self._wanted = b"", 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(self._sent)

    def data_received(self, data: bytes) -> None:
        self._got += data
        if not self._wanted and (end := self._got.find(b"\r\n\r\n")) >= 0:
            length = re.search(rb"content-length: (\d+)", self._got[:end], re.IGNORECASE)
            assert length is not None and self._got.startswith(b"HTTP/1.1 200"), self._got[:200]
            self._wanted = end + 4 + int(length[1])
        if self._wanted and len(self._got) >= self._wanted:
            self._counted[0] += 1
            self._got, self._wanted = b"", 0
            self._transport.write(self._sent)


def rate(port: int) -> float:
    """Count answers a second."""
    counted = [0]

    async def load() -> float:
        loop = asyncio.get_running_loop()
        sent = request(port, "/json", "")
        made = [
            await loop.create_connection(lambda: _Asker(sent, counted), "127.0.0.1", port) for _ in range(CONNECTIONS)
        ]
        await asyncio.sleep(0.5)
        counted[0], started = 0, time.perf_counter()
        await asyncio.sleep(SECONDS)
        found = counted[0] / (time.perf_counter() - started)
        for transport, _ in made:
            transport.abort()
        return found

    return asyncio.run(load())


def streams(port: int, pid: int, found: Found) -> None:
    """Let many watch for a while."""
    late: list[float] = []

    def moment(message: Mapping[str, object]) -> str | None:
        due = message.get("ask")
        if isinstance(due, str):
            late.append(time.monotonic() - float(due))
        return None

    found.before = resident(pid)
    viewers = Viewers(port, "/api/v1/events", [{}], moment)
    viewers.open(VIEWERS)
    late.clear()
    time.sleep(WATCHED_SECONDS)
    found.slowest = max(late) if len(late) >= VIEWERS else float("inf")
    found.after = resident(pid)
    viewers.close()


def large(port: int) -> str:
    """Send a body of 10 MB that was promised; say what came of it."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(request(port, "/body", "Content-Length: 10000000\r\nConnection: close\r\n", "POST"))
        sent = 0
        with contextlib.suppress(ConnectionError):
            while sent < 10_000_000:
                sent += connection.send(b"x" * 65_536)
        answer = rest(connection)
    return f"{answer[9:12].decode('ascii') or 'reset'} after {sent / 1e6:.1f} MB"


def slow(port: int) -> dict[str, float | None]:
    """Trickle a head, trickle a body, say nothing; give after how many seconds each was cut off, None: never here."""
    head = request(port, "/json", "")[:-2]
    body = request(port, "/body", "Content-Length: 1000\r\n", "POST")
    found: dict[str, float | None] = {}

    def attack(name: str, begun: bytes, trickle: bytes) -> None:
        with socket.create_connection(("127.0.0.1", port), timeout=0.5) as connection:
            connection.sendall(begun)
            started = time.monotonic()
            found[name] = None
            while time.monotonic() - started < SLOW_LIMIT:
                try:
                    if trickle:
                        connection.sendall(trickle)
                    part = connection.recv(65_536)
                except TimeoutError:
                    continue
                except ConnectionError:
                    part = b""
                if part == b"":
                    found[name] = time.monotonic() - started
                    return

    attacks = [("head", head, b"X-A: 1\r\n"), ("body", body, b"x"), ("silence", b"", b"")]
    threads = [threading.Thread(target=attack, args=one) for one in attacks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def stop(name: str, found: Found) -> None:
    """Send SIGTERM while a request is at hand and a stream is open."""
    with running(name) as (port, process), contextlib.ExitStack() as stack:
        stream = None
        if name != "waitress":
            stream = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30))
            stream.sendall(request(port, "/api/v1/events", ""))
            stream.recv(65_536)
        at_hand = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30))
        at_hand.sendall(request(port, "/slow"))
        time.sleep(0.5)
        started = time.monotonic()
        process.terminate()
        finished = rest(at_hand).startswith(b"HTTP/1.1 200")
        ended = (
            "no streams" if stream is None else "stream ended" if rest(stream).endswith(b"0\r\n\r\n") else "stream cut"
        )
        try:
            status = process.wait(40)
        except subprocess.TimeoutExpired:
            status = None
        took = time.monotonic() - started
    found.stopped_well = finished and status == 0 and ended != "stream cut"
    found.stop = f"request {'finished' if finished else 'lost'}, {ended}, status {status} after {took:.1f} s"


def kill(name: str, found: Found) -> None:
    """Send SIGKILL to the process that was started; count what is left of it."""
    with running(name) as (_, process):
        below = tree(process.pid)[1:]
        found.processes = len(below) + 1
        process.kill()
        process.wait()
        time.sleep(1.0)
        found.left = sum(Path(f"/proc/{pid}").exists() for pid in below)


def measure(name: str) -> Found:
    """Do everything with one server."""
    found = Found()
    with running(name) as (port, process):
        found.rate = rate(port)
        if name != "waitress":
            streams(port, process.pid, found)
        else:
            found.before = found.after = resident(process.pid)
        found.body = large(port)
        found.cut = slow(port)
    stop(name, found)
    kill(name, found)
    return found


def told(name: str, found: Found) -> str:
    """Say what one server did."""
    cut = {what: "never" if after is None else f"{after:.0f} s" for what, after in (found.cut or {}).items()}
    watched = "no streams" if found.slowest is None else f"{VIEWERS} streams within {found.slowest * 1000:.0f} ms"
    return (
        f"  {name}: {found.rate:,.0f} requests/s; {watched}, {found.before:.0f} to {found.after:.0f} MB; "
        f"10 MB body: {found.body}; cut off: {cut}; SIGTERM: {found.stop}; "
        f"{found.processes} processes, {found.left} left after SIGKILL"
    )


def main() -> bool:
    """Measure every server that is here, print what each did, and tell whether ours holds its bounds."""
    results: dict[str, Found] = {}
    for name in SERVERS:
        if name != "ours" and importlib.util.find_spec(name) is None:
            print(f"  {name}: not measured (not installed)")
            continue
        results[name] = measure(name)
        print(told(name, results[name]), flush=True)
    ours, waitress = results["ours"], results["waitress"]
    print(f"  ours beside waitress: {ours.rate / waitress.rate:.2f} times the requests")
    return (
        ours.slowest is not None
        and ours.slowest <= BOUND_SECONDS
        and None not in (ours.cut or {"": None}).values()
        and ours.stopped_well
        and ours.left == 0
        and ours.rate >= SHARE * waitress.rate
    )
