"""The async face of the workspace: every request comes in here, is screened, and goes to a native route or to Flask.

What reaches either has one spelling of its path, a Host of ours and a bounded head. Native routes are for what must not
hold a thread; they are named in one table. Everything else is Flask's, in its bounded threads (`workspace.behind`).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from workspace.asgi import Application, Receive, Scope, Send, Turned, turn_away
from workspace.behind import Behind
from workspace.live import Hub
from workspace.screening import Hosts, screen

Routes = Mapping[str, Mapping[str, Application]]
"""Native routes: by path, then by method."""


@dataclass(frozen=True, slots=True)
class Edge:
    """The application that the server calls (ASGI 3)."""

    hosts: Hosts
    routes: Routes
    behind: Behind
    hub: Hub

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            # No WebSocket is served; the server speaks no other protocol.
            return
        # A copy: fields that follow a chunked body are appended to the server's own list, after they were judged.
        scope = {**scope, "headers": list(scope["headers"])}
        turned = screen(scope, self.hosts)
        if turned is not None:
            await turn_away(send, turned)
        else:
            await self._route(scope)(scope, receive, send)

    def _route(self, scope: Scope) -> Application:
        native = self.routes.get(scope["path"])
        return self.behind if native is None else native.get(scope["method"], _Other(", ".join(sorted(native))))

    def stop(self) -> None:
        """Let streams end and long polls answer now; what was begun is finished."""
        self.hub.close()
        self.behind.stop()

    def close(self) -> None:
        """Start nothing more."""
        self.behind.close()


@dataclass(frozen=True, slots=True)
class _Other:
    """Answers a method that a native route does not take."""

    allowed: str

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        await turn_away(send, Turned(405, "This address does not take that method.", None, {"allow": self.allowed}))
