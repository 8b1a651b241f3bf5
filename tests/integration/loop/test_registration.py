"""A loop registers with its broker over HTTP; its agent gets the run's own token and no other secret."""

import http.server
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gitops_bot.bootstrap.joining import Registration, register_over_http
from gitops_bot.core.errors import Unavailable

Asked = list[tuple[str, str | None, dict[str, Any]]]
Build = Callable[[int, bytes], tuple[str, Asked]]


@pytest.fixture
def broker() -> Iterator[Build]:
    """An HTTP server that answers every request alike and remembers what it was asked."""
    servers: list[http.server.HTTPServer] = []

    def build(status: int, answer: bytes) -> tuple[str, Asked]:
        asked: Asked = []

        class Broker(http.server.BaseHTTPRequestHandler):
            def log_message(self, *args: Any) -> None: ...

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                asked.append((self.path, self.headers["Authorization"], body))
                self.send_response(status)
                self.end_headers()
                self.wfile.write(answer)

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Broker)
        servers.append(server)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return f"http://127.0.0.1:{server.server_address[1]}", asked

    yield build
    for server in servers:
        server.shutdown()
        server.server_close()


ANSWER = json.dumps({"run": "01run", "run_version": 1, "agent_token": "agent-secret"}).encode()


def token_file(home: Path, mode: int = 0o600) -> str:
    path = home / "loop.token"
    path.write_text("loop-secret\n")
    path.chmod(mode)
    return str(path)


def test_the_broker_gets_address_and_token_and_the_agent_only_its_own(loop: Any, broker: Build, tmp_path: Path) -> None:
    url, asked = broker(201, ANSWER)
    loop.plan(i1={"environment": str(tmp_path / "seen.json")})
    loop.start("--broker-url", url, "--loop-token-file", token_file(tmp_path), "--id", "tuner", iterations=1)
    loop.end()
    ((path, bearer, body),) = asked
    assert (path, bearer) == ("/api/v1/loops", "Bearer loop-secret")
    assert body == {
        "id": "tuner",
        "address": (loop.state / "control-address").read_text().strip(),
        "broker_token": loop.token("broker"),
        "resume": False,
        "shares_user": True,
    }
    seen = json.loads((tmp_path / "seen.json").read_text())
    assert (seen["GITOPS_BOT_URL"], seen["GITOPS_BOT_TOKEN"]) == (url, "agent-secret")
    secrets = ["loop-secret", *(loop.token(name) for name in ("viewer", "operator", "broker"))]
    everything = json.dumps(seen) + (loop.state / "session.jsonl").read_text()
    assert not [secret for secret in secrets if secret in everything]
    assert "agent-secret" not in (loop.state / "session.jsonl").read_text()


def test_a_resume_says_so_and_keeps_its_bridge_token(loop: Any, broker: Build, tmp_path: Path) -> None:
    url, asked = broker(200, ANSWER)
    options = ["--broker-url", url, "--loop-token-file", token_file(tmp_path)]
    loop.plan()
    loop.start(*options, iterations=1)
    loop.end()
    loop.start(*options, "--resume", iterations=1)
    loop.end()
    assert [body["resume"] for _, _, body in asked] == [False, True]
    assert asked[0][2]["broker_token"] == asked[1][2]["broker_token"]


@pytest.mark.parametrize("options", [["--broker-url", "http://127.0.0.1:1"], ["--insecure-bridge"]])
def test_a_broker_without_what_it_needs_is_a_usage_error(loop: Any, tmp_path: Path, options: list[str]) -> None:
    given = options if options[0] == "--broker-url" else [*options, "--control-host", "0.0.0.0"]
    loop.plan()
    loop.start(*given)
    assert loop.end() == 64


def test_a_token_file_that_others_can_read_is_a_usage_error(loop: Any, tmp_path: Path) -> None:
    loop.plan()
    loop.start("--broker-url", "http://127.0.0.1:1", "--loop-token-file", token_file(tmp_path, 0o644))
    assert loop.end() == 64


def test_the_registration_is_read(broker: Build) -> None:
    url, _ = broker(201, ANSWER)
    assert register_over_http(url, "t", {"id": "x"}) == Registration("01run", 1, "agent-secret")


@pytest.mark.parametrize(
    ("status", "answer"),
    [(403, ANSWER), (302, ANSWER), (201, b"nonsense"), (201, b"[]"), (201, b'{"run":"r"}'), (201, b"")],
)
def test_any_other_answer_is_unavailable(broker: Build, status: int, answer: bytes) -> None:
    url, _ = broker(status, answer)
    with pytest.raises(Unavailable):
        register_over_http(url, "t", {"id": "x"})


def test_no_answer_is_unavailable() -> None:
    with pytest.raises(Unavailable):
        register_over_http("http://127.0.0.1:1", "t", {"id": "x"})
