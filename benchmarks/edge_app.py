"""The edge of the workspace over a small application, behind the server that is named: `python -m benchmarks.edge_app
SERVER PORT`. The same edge everywhere; where a server has a limit of its own for a purpose, it is set to ours.
"""

import sys
import time
from collections.abc import Collection
from typing import Any, Final

from flask import Flask, jsonify, request
from flask.typing import ResponseReturnValue

from workspace.behind import Behind
from workspace.edge import Edge
from workspace.live import Hub, Told
from workspace.screening import hosts_of
from workspace.server import HEAD_SECONDS, IDLE_SECONDS, MOST_CONNECTIONS, STOP_SECONDS, Server, listen
from workspace.streams import Events

THREADS: Final = 24
TICK_SECONDS: Final = 0.5
SLOW_SECONDS: Final = 1.5
SERVERS: Final = ("ours", "uvicorn", "granian", "hypercorn", "waitress")


def application() -> Flask:
    """Make an application of one quick route, one slow one and one that takes a body."""
    app = Flask(__name__)

    @app.get("/json")
    def document() -> ResponseReturnValue:
        return jsonify({"items": [{"id": number, "state": "OPEN"} for number in range(10)], "next": None})

    @app.get("/slow")
    def slow() -> ResponseReturnValue:
        time.sleep(SLOW_SECONDS)
        return jsonify({"ok": True})

    @app.post("/body")
    def body() -> ResponseReturnValue:
        return jsonify({"bytes": len(request.get_data())})

    return app


class Ticks:
    """A source that seals one entry each tick; its id is the moment, in the clock that all processes share."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._session = 0

    def head(self) -> int:
        """Give how many there are."""
        return int((time.monotonic() - self._begun) / TICK_SECONDS)

    def after(self, seq: int, limit: int) -> list[Told]:
        """Give those after a place."""
        places = range(seq + 1, min(self.head(), seq + limit) + 1)
        return [Told(place, "tick", f"{self._begun + place * TICK_SECONDS:.6f}", None, None) for place in places]

    def still(self, sessions: Collection[str]) -> Collection[str]:
        """Let every session stand."""
        return sessions

    def admit(self, _authorization: str | None, _cookie: str | None) -> str:
        """Let everybody in, each as another session."""
        self._session += 1
        return str(self._session)


def edge(port: int) -> Edge:
    """Put the edge together."""
    source = Ticks()
    hub = Hub(source)
    origin = f"http://localhost:{port}"
    routes = {"/api/v1/events": {"GET": Events(hub, source.admit, origin)}}
    return Edge(hosts_of(origin, "127.0.0.1", port), routes, Behind(application(), THREADS), hub)


def asgi() -> Edge:
    """Give the edge to a server that loads it by name in a process of its own."""
    return edge(int(sys.argv[2]))


def _uvicorn(port: int) -> None:
    import uvicorn

    uvicorn.run(
        edge(port),
        port=port,
        log_level="error",
        lifespan="off",
        ws="none",
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=5,
        limit_concurrency=MOST_CONNECTIONS,
    )


def _granian(port: int) -> None:
    from granian import Granian
    from granian.constants import HTTPModes, Interfaces, Loops
    from granian.http import HTTP1Settings

    Granian(
        "benchmarks.edge_app:asgi",
        factory=True,
        port=port,
        interface=Interfaces.ASGINL,
        loop=Loops.uvloop,
        http=HTTPModes.http1,
        http1_settings=HTTP1Settings(header_read_timeout=int(HEAD_SECONDS * 1000)),
        backlog=1024,
        websockets=False,
        log_enabled=False,
        workers_kill_timeout=STOP_SECONDS,
    ).serve()


def _hypercorn(port: int) -> None:
    import asyncio

    import uvloop
    from hypercorn.asyncio import serve
    from hypercorn.config import Config

    config = Config()
    config.bind = [f"127.0.0.1:{port}"]
    config.loglevel = "critical"
    config.graceful_timeout = 5.0
    config.keep_alive_timeout = IDLE_SECONDS
    config.read_timeout = int(HEAD_SECONDS)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(edge(port), config))  # type: ignore[arg-type] # its own types of ASGI


def _waitress(port: int) -> None:
    from waitress import serve  # type: ignore[import-untyped] # waitress ships no types

    serve(
        application(),
        host="127.0.0.1",
        port=port,
        threads=THREADS,
        max_request_body_size=1_048_576,
        max_request_header_size=16_384,
        channel_timeout=IDLE_SECONDS,
        connection_limit=MOST_CONNECTIONS,
    )


def main(name: str, port: int) -> None:
    """Serve by the server that is named."""
    others: dict[str, Any] = {
        "uvicorn": _uvicorn, "granian": _granian, "hypercorn": _hypercorn, "waitress": _waitress,
    }  # fmt: skip
    if name == "ours":
        Server(edge(port)).run([listen("127.0.0.1", port)])
    else:
        others[name](port)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
