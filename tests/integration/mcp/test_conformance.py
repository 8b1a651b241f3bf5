"""The protocol's own conformance suite, for what the server offers. It sends no token and calls tools of its own names:
on its way a token is added, and its tool becomes one of ours that does the like.

Each scenario of the installed suite is either run or left out for something that is not offered; a new one is neither,
and fails here. That it is not offered is asserted too.
"""

import http.client
import http.server
import json
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from gitops_bot.config import load
from tests.mcp_stage import REGIME, REVISIONS, begin, call, frame, post
from tests.served_stage import Served

pytestmark = pytest.mark.xdist_group("mcp")
MODULES = Path(__file__).parents[2] / "node" / "node_modules"
SUITE = MODULES / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
NODE = next(iter(MODULES.glob("node-linux-*/bin/node")), None)
RUN: Final = (
    *("server-initialize", "ping", "tools-list", "tools-call-simple-text", "tools-call-error"),
    "dns-rebinding-protection",
)
STAND_INS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "test_simple_text": ("request_trace", REGIME),
    "test_error_handling": ("request_verb", {"verb": "no.such", "params": {}}),
}
_ALIKE: Final = {
    "resources": ("list", "read-text", "read-binary", "templates-read", "subscribe", "unsubscribe"),
    "prompts": ("list", "get-simple", "get-with-args", "get-embedded-resource", "get-with-image"),
}
LEFT_OUT: Final = {
    **{f"{kind}-{one}": f"there are no {kind}" for kind, some in _ALIKE.items() for one in some},
    "logging-set-level": "nothing is logged to a client",
    "completion-complete": "there is nothing to complete",
    **{f"tools-call-{kind}": "tools give text" for kind in ("image", "audio", "embedded-resource", "mixed-content")},
    **{f"tools-call-{sent}": "nothing is sent while a call goes on" for sent in ("with-logging", "with-progress")},
    **{f"tools-call-{asked}": "a client is asked for nothing" for asked in ("sampling", "elicitation")},
    **{f"elicitation-{one}": "a client is asked for nothing" for one in ("sep1034-defaults", "sep1330-enums")},
    "json-schema-2020-12": "it looks for one tool's schema of its own making",
    "server-sse-polling": "there is no stream, and no session to take one up",
    "server-sse-multiple-streams": "there is no stream, and no session to open several in",
}


@pytest.fixture
def url(served: Served) -> Iterator[str]:
    """An address in front of the workspace that adds a token, and writes its own name as the workspace's."""
    token = begin(served).token
    site = load(served.folder / "gitops-bot.toml").origin

    class Between(http.server.BaseHTTPRequestHandler):
        def log_message(self, *args: Any) -> None: ...

        def forward(self) -> None:
            mine = f"localhost:{self.server.server_address[1]}"
            headers = {
                name: text
                for name, text in self.headers.items()
                if name.lower() not in ("connection", "content-length")
            }
            for name, text in headers.items():
                own = f"localhost:{served.port}" if name.lower() == "host" else site
                headers[name] = own if text in (mine, f"http://{mine}") else text
            body = ours(self.rfile.read(int(self.headers.get("Content-Length", "0"))))
            wire = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)
            wire.request(self.command, self.path, body, {**headers, "Authorization": f"Bearer {token}"})
            answer = wire.getresponse()
            told = answer.read()
            self.send_response(answer.status)
            for name, text in answer.getheaders():
                if name.lower() not in ("content-length", "connection", "transfer-encoding", "date", "server"):
                    self.send_header(name, text)
            self.send_header("Content-Length", str(len(told)))
            self.end_headers()
            self.wfile.write(told)
            wire.close()

        do_GET = do_POST = do_DELETE = forward

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Between)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield f"http://localhost:{server.server_address[1]}/mcp"
    server.shutdown()
    server.server_close()


def ours(body: bytes) -> bytes:
    """Put a tool of ours into a call of the suite's."""
    sent = json.loads(body) if body else {}
    if not isinstance(sent, dict) or sent.get("method") != "tools/call":
        return body
    standing = STAND_INS.get(sent["params"]["name"])
    if standing is None:
        return body
    return json.dumps({**sent, "params": {**sent["params"], "name": standing[0], "arguments": standing[1]}}).encode()


def suite(*arguments: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    assert NODE is not None, "npm's node is not installed"
    return subprocess.run(
        [str(NODE), str(SUITE), *arguments], capture_output=True, text=True, timeout=120, cwd=folder, check=False
    )


@pytest.mark.parametrize("scenario", RUN)
def test_the_suite_finds_nothing(url: str, scenario: str, tmp_path: Path) -> None:
    """Each check of a scenario passes, none with a warning."""
    done = suite("server", "--url", url, "--scenario", scenario, "--output-dir", str(tmp_path), folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 failed, 0 warnings" in done.stdout


def test_the_suite_finds_what_is_not_there(url: str, tmp_path: Path) -> None:
    """The refusing twin: a scenario whose tool nothing stands in for fails."""
    left = ("server", "--url", url, "--scenario", "tools-call-image", "--output-dir", str(tmp_path))
    assert suite(*left, folder=tmp_path).returncode == 1


def test_every_scenario_is_run_or_left_out(tmp_path: Path) -> None:
    """Of the suite that is installed, both ways: nothing new goes by unseen, nothing is listed that is not there."""
    listed = suite("list", folder=tmp_path).stdout.partition("Client scenarios")[0]
    there = [line.split()[1] for line in listed.splitlines() if line.startswith("  - ")]
    assert sorted(there) == sorted([*RUN, *LEFT_OUT])


@pytest.mark.parametrize("revision", REVISIONS[:2])
def test_what_is_left_out_is_not_offered(served: Served, revision: str) -> None:
    """A server that declares tools alone, gives text alone, and keeps no session owes none of those scenarios."""
    token = begin(served).token
    offered = {"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    answer = post(served, token, frame("initialize", offered, revision), None)
    assert list(answer.json()["result"]["capabilities"]) == ["tools"]
    assert "mcp-session-id" not in answer.headers
    handle = call(served, token, "request_trace", REGIME, revision)["structuredContent"]["handle"]
    opened = call(served, token, "request_verb", {"verb": "release.cut", "params": {"version": "0"}}, revision)
    for tool, arguments in (
        ("request_trace", REGIME),
        ("check_capture", {"handle": handle}),
        ("request_verb", {"verb": "release.cut", "params": {"version": "0"}}),
        ("check_ask", {"ask": opened["structuredContent"]["id"]}),
    ):
        wanted = {"name": tool, "arguments": arguments, "_meta": {"progressToken": 1}}
        told = post(served, token, frame("tools/call", wanted, revision), revision)
        assert told.headers["content-type"].startswith("application/json")
        assert {part["type"] for part in told.json()["result"]["content"]} == {"text"}
    prompt = {"ref": {"type": "ref/prompt", "name": "any"}, "argument": {"name": "a", "value": "b"}}
    for method, params in (
        ("resources/list", {}),
        ("resources/subscribe", {"uri": "test://any"}),
        ("prompts/list", {}),
        ("logging/setLevel", {"level": "info"}),
        ("completion/complete", prompt),
    ):
        assert post(served, token, frame(method, params, revision), revision).json()["error"]["code"] == -32601


@pytest.mark.parametrize("revision", ["2025-03-26", "2027-01-01", "x", ""])
def test_a_revision_that_is_not_served_is_a_bad_request(served: Served, revision: str) -> None:
    """The header MCP-Protocol-Version, of which the suite has no scenario; older ones are told what is served."""
    token = begin(served).token
    answer = post(served, token, frame("tools/list", {}, ""), revision or None)
    assert (answer.status_code, "error" in answer.json()) == (400, True)
    if revision in ("2025-03-26", ""):
        assert answer.json()["error"]["data"]["supported"] == list(REVISIONS)
    assert post(served, token, frame("tools/list", {}, ""), REVISIONS[1]).status_code == 200
