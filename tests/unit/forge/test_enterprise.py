"""A forge of one's own: REST under `/api/v3`, GraphQL at `/api/graphql`, for a token and for an App."""

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from gitops_bot.forge.app import App
from gitops_bot.forge.client import GitHubForge
from gitops_bot.forge.transport import Transport
from gitops_bot.forge.wires import AppWires
from tests.app_keys import APP, keys

REPOSITORY = {"id": 5, "full_name": "acme/rig", "default_branch": "main", "owner": {"id": 1}}
ANSWERS = {
    "GET /api/v3/user": {"id": 900},
    "GET /api/v3/app": {"slug": "gitops-bot"},
    "GET /api/v3/users/gitops-bot%5Bbot%5D": {"id": 901},
    "GET /api/v3/repos/acme/rig": REPOSITORY,
    "GET /api/v3/repos/acme/rig/installation": {"id": 7, "account": {"login": "acme"}, "suspended_at": None},
    "POST /api/v3/app/installations/7/access_tokens": {"token": "ghs_x", "expires_at": "2999-01-01T00:00:00Z"},
    "POST /api/graphql": {"data": {"viewer": {"login": "gitops-bot"}}},
}


@dataclass
class Enterprise:
    """What was asked, with the scheme of its credential."""

    url: str = ""
    asked: list[tuple[str, str]] = field(default_factory=list)


@pytest.fixture
def enterprise() -> Iterator[Enterprise]:
    made = Enterprise()

    class Answering(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = f"{self.command} {self.path}"
            made.asked.append((name, self.headers["Authorization"].partition(" ")[0]))
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            body = json.dumps(ANSWERS.get(name, {"message": "Not Found"})).encode()
            self.send_response(200 if name in ANSWERS else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        made.url = f"http://127.0.0.1:{server.server_port}/api/v3"
        yield made
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("ending", ["", "/"])
def test_a_token_asks_below_the_configured_path(enterprise: Enterprise, ending: str) -> None:
    wire = Transport(enterprise.url + ending, "t")
    assert wire.send("GET", "/user").data == {"id": 900}
    assert wire.graphql("{ viewer { login } }", {}) == {"viewer": {"login": "gitops-bot"}}
    assert enterprise.asked == [("GET /api/v3/user", "token"), ("POST /api/graphql", "token")]
    wire.close()


def test_an_app_asks_below_the_configured_path(enterprise: Enterprise) -> None:
    app = App(enterprise.url, APP, keys("ours")[0], lambda: 1_767_225_600, lambda: 0.0)
    forge = GitHubForge(enterprise.url, AppWires(app, ("acme/rig",)))
    assert (forge.self_id(), forge.repository("acme/rig").id) == (901, 5)
    assert {name for name, _ in enterprise.asked} <= set(ANSWERS)
    assert {scheme for _, scheme in enterprise.asked} == {"Bearer"}
    forge.disconnect()
