"""The demo's agent over real HTTP: it improves, asks when nothing improves any more, and goes on."""

import http.server
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gitops_bot.demo.agent import LATER, WANTED
from gitops_bot.demo.broker_tool import REVISION
from gitops_bot.demo.grammar import Weights
from gitops_bot.demo.picker import DEFAULT_KNOBS, DEFAULT_REGIME, ROUND_ROBIN, p99

Asked = list[tuple[Any, dict[str, Any]]]
Broker = Callable[[int, dict[str, Any]], tuple[str, Asked]]


def given(**members: Any) -> dict[str, Any]:
    """What the tool gives where it gives something."""
    return {"result": {"content": [{"type": "text", "text": "said"}], "structuredContent": members}}


def refused(text: str) -> dict[str, Any]:
    """What the tool gives where the answer is no."""
    return {"result": {"content": [{"type": "text", "text": text}], "isError": True}}


@pytest.fixture
def broker() -> Iterator[Broker]:
    """Give an address where calls of a tool are answered so, and what came there: headers and message of each POST."""
    servers: list[http.server.HTTPServer] = []

    def build(status: int, answer: dict[str, Any], revision: str = REVISION) -> tuple[str, Asked]:
        asked: Asked = []

        class Answers(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args: Any) -> None: ...

            def do_POST(self) -> None:
                message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                asked.append(({**self.headers, "path": self.path}, message))
                told, code = answer, status
                if message["method"] == "initialize":
                    told, code = {"result": {"protocolVersion": revision, "capabilities": {}}}, 200
                body = json.dumps({"jsonrpc": "2.0", "id": message.get("id"), **told}).encode()
                if message["method"] == "notifications/initialized":
                    body, code = b"", 202
                self.send_response(code)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
        servers.append(server)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return f"http://localhost:{server.server_address[1]}", asked

    yield build
    for server in servers:
        server.shutdown()
        server.server_close()


def calls(asked: Asked) -> list[dict[str, Any]]:
    """Give the arguments of every call of `request_trace`."""
    found = [message["params"] for _, message in asked if message["method"] == "tools/call"]
    assert [params["name"] for params in found] == ["request_trace"] * len(found)
    return [params["arguments"] for params in found]


def turn(workspace: Path, prompt: str, url: str = "", regime: str = "") -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "gitops_bot.demo.agent"],
        cwd=workspace,
        input=prompt,
        env={"GITOPS_BOT_URL": url, "GITOPS_BOT_TOKEN": "agent-token", "LOOP_REGIME": regime},
        capture_output=True,
        text=True,
        timeout=120,
    )


def score(workspace: Path) -> float:
    found = json.loads((workspace / "picker.json").read_text())
    return p99(Weights(found["load"], found["prefix"]), DEFAULT_KNOBS, DEFAULT_REGIME)


def told(regime: str, *scores: float, waiting: bool = False) -> str:
    """What the loop tells its agent: regime, scores of the segment with the baseline first, who is waited for."""
    rows = "".join(f"- iteration {number}: keep, score {one:g}\n" for number, one in enumerate(scores[1:], 1))
    wait = "\n# Waiting for a person\n\nsomething\n" if waiting else ""
    baseline = f"baseline: {scores[0]:g}\n" if scores else ""
    return f"Lower the p99.\n# Segment\n\nregime: {regime}\n\n# Scores\n\n{baseline}{rows}{wait}"


def test_it_improves_then_asks_in_block_when_nothing_improves(tmp_path: Path, broker: Broker) -> None:
    """While scores fall it climbs; saturated, it asks for c=48 with a marker and leaves the weights alone."""
    url, asked = broker(200, given(status="pending_approval", trace_id=WANTED.trace_id, handle="01h"))
    for scores in ((), (900,), (900, 500), (900, 500, 300)):
        assert turn(tmp_path, told("default", *scores), url).returncode == 0
    assert score(tmp_path) < p99(ROUND_ROBIN, DEFAULT_KNOBS, DEFAULT_REGIME)
    assert (tmp_path / "CANDIDATE.md").read_text().startswith("Weights ")
    assert asked == []
    first = (tmp_path / "picker.json").read_text()

    done = turn(tmp_path, told("default", 900, 300, 299) + f"Example: {WANTED.trace_id}\n", url)
    assert done.returncode == 0, done.stderr
    assert [message["method"] for _, message in asked] == ["initialize", "notifications/initialized", "tools/call"]
    for headers, message in asked:
        assert (headers["path"], headers["Authorization"]) == ("/mcp", "Bearer agent-token")
        assert (headers["MCP-Protocol-Version"], headers["Content-Type"]) == (REVISION, "application/json")
        assert headers["Accept"] == "application/json, text/event-stream"
        assert message["jsonrpc"] == "2.0"
    assert calls(asked) == [{**WANTED.params(), "long_frac": 0.0}]
    marker = tmp_path / "PROVISIONING_PENDING.json"
    assert json.loads(marker.read_text()) == {
        "trace_id": WANTED.trace_id,
        "regime": {**WANTED.params(), "long_frac": 0.0},
        "handle": "01h",
        "mode": "block",
    }
    assert (tmp_path / "picker.json").read_text() == first


def test_under_the_captured_regime_it_asks_once_more_in_continue_and_climbs_on(tmp_path: Path, broker: Broker) -> None:
    """In the turn after the first one that did not improve, once; not while somebody is asked, nor after the answer."""
    url, asked = broker(200, given(status="pending_approval", trace_id=LATER.trace_id, handle="02h"))
    for prompt in (told(WANTED.trace_id, 90, 50), told(WANTED.trace_id, 90, 50, 50, waiting=True)):
        assert turn(tmp_path, prompt, url).returncode == 0
    assert asked == []
    (tmp_path / "picker.json").unlink()
    assert turn(tmp_path, told(WANTED.trace_id, 90, 50, 50), url).returncode == 0
    assert [arguments["concurrency"] for arguments in calls(asked)] == [96]
    assert json.loads((tmp_path / "PROVISIONING_PENDING.json").read_text())["mode"] == "continue"
    assert (tmp_path / "picker.json").exists()
    assert turn(tmp_path, told(WANTED.trace_id, 90, 50, 50, 49), url).returncode == 0
    assert turn(tmp_path, told(LATER.trace_id, 90, 50, 50), url).returncode == 0
    assert len(calls(asked)) == 1


def test_a_no_to_the_second_ask_is_not_a_failed_turn(tmp_path: Path, broker: Broker) -> None:
    """It can go on without: the weights are improved all the same, and there is no marker."""
    url, asked = broker(200, refused("repeat_too_soon: This was denied.\x1b[2J"))
    done = turn(tmp_path, told(WANTED.trace_id, 90, 50, 50), url)
    assert (done.returncode, len(calls(asked))) == (0, 1)
    assert "not asked for more: the broker's answer is no: repeat_too_soon: This was denied. [2J;" in done.stdout
    assert (tmp_path / "picker.json").exists()
    assert not (tmp_path / "PROVISIONING_PENDING.json").exists()


@pytest.mark.parametrize("place", ["prompt", "environment"])
def test_it_does_not_ask_for_what_it_has(tmp_path: Path, place: str) -> None:
    """The regime is read from the environment or from the prompt; no broker is needed then."""
    prompt = told("", 9, 9, 9) + (f"Regime: `{WANTED.trace_id}`\n" if place == "prompt" else "")
    done = turn(tmp_path, prompt, regime=WANTED.trace_id if place == "environment" else "")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "picker.json").exists()


@pytest.mark.parametrize("status", ["escalate", "deferred", "error"])
def test_no_marker_without_an_open_ask(tmp_path: Path, broker: Broker, status: str) -> None:
    """A marker says that somebody was asked; when nobody was, the loop must not park."""
    url, asked = broker(200, given(status=status, reason="no surface"))
    done = turn(tmp_path, told("default", 9, 9, 9), url)
    assert done.returncode == 0
    assert len(calls(asked)) == 1
    assert not (tmp_path / "PROVISIONING_PENDING.json").exists()


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        (500, {}),
        (401, {}),
        (200, {}),
        (200, given(status=1)),
        (200, refused("not_authorised: This token stands for nobody.")),
        (200, {"error": {"code": -32602, "message": "There is no tool of that name."}}),
    ],
)
def test_a_broker_that_fails_is_a_failed_turn(
    tmp_path: Path, broker: Broker, status: int, answer: dict[str, Any]
) -> None:
    """The reason is said, the token is not."""
    url, _asked = broker(status, answer)
    done = turn(tmp_path, told("default", 9, 9, 9), url)
    assert done.returncode == 1
    assert done.stderr.startswith("agent: ")
    assert "agent-token" not in done.stderr + done.stdout


def test_a_broker_of_another_revision_is_not_called(
    tmp_path: Path, broker: Callable[[int, dict[str, Any], str], tuple[str, Asked]]
) -> None:
    """It reads results that are structured; an older revision has none."""
    url, asked = broker(200, given(status="pending_approval", handle="01h"), "2025-03-26")
    done = turn(tmp_path, told("default", 9, 9, 9), url)
    assert (done.returncode, calls(asked)) == (1, [])
    assert "serves revision 2025-03-26" in done.stderr
