"""The broker's tools over the wire by bare HTTP: what each gives and refuses, at every revision."""

import pytest
import requests

from tests.mcp_stage import NOBODYS, REGIME, REVISIONS, begin, call, frame, post, refusal
from tests.served_stage import Served

pytestmark = pytest.mark.xdist_group("mcp")
NAMES = ["check_ask", "check_capture", "request_trace", "request_verb"]


@pytest.mark.parametrize("revision", REVISIONS)
def test_every_revision_that_is_served_calls_tools_without_a_session(served: Served, revision: str) -> None:
    """Each request stands for itself: no session id is given, and the answer is one JSON document."""
    token = begin(served).token
    listed = post(served, token, frame("tools/list", {}, revision), revision)
    assert listed.status_code == 200, listed.text
    assert listed.headers["content-type"].startswith("application/json")
    assert "mcp-session-id" not in listed.headers
    assert listed.headers["cache-control"] == "no-store"
    assert sorted(tool["name"] for tool in listed.json()["result"]["tools"]) == NAMES
    first = call(served, token, "request_trace", REGIME, revision)
    again = call(served, token, "request_trace", REGIME, revision)
    assert first["structuredContent"]["handle"] == again["structuredContent"]["handle"]


@pytest.mark.parametrize("offered", ["2024-11-05", "2025-03-26", "1999-01-01", *REVISIONS[:2]])
def test_a_handshake_ends_at_a_revision_that_is_served(served: Served, offered: str) -> None:
    """Who offers another is offered the oldest one; who goes on at an older one all the same is not served."""
    token = begin(served).token
    params = {"protocolVersion": offered, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    answer = post(served, token, frame("initialize", params, ""), None)
    assert answer.status_code == 200, answer.text
    agreed = answer.json()["result"]["protocolVersion"]
    assert agreed == (offered if offered in REVISIONS else REVISIONS[0])
    done = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert post(served, token, done, agreed).status_code == 202
    going_on = post(served, token, frame("tools/list", {}, ""), offered)
    assert going_on.status_code == (200 if offered in REVISIONS else 400)


def test_no_other_method_is_served(served: Served) -> None:
    """There is no stream to open and no session to end."""
    for method in ("GET", "DELETE", "PUT"):
        answer = requests.request(method, f"{served.url}/mcp", timeout=60)
        assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


def test_the_same_action_asked_for_again_is_the_same_ask(served: Served) -> None:
    """There is no key to give, and none is needed."""
    run = begin(served)
    wanted = {"verb": "release.cut", "params": {"version": "same"}}
    first = call(served, run.token, "request_verb", wanted)["structuredContent"]
    assert call(served, run.token, "request_verb", wanted)["structuredContent"]["id"] == first["id"]
    other = {"verb": "release.cut", "params": {"version": "other"}}
    assert call(served, run.token, "request_verb", other)["structuredContent"]["id"] != first["id"]


def test_there_is_no_tool_that_answers_or_takes_back(served: Served) -> None:
    """What is not listed cannot be called; a capture's verb has its own tool."""
    run = begin(served)
    for tool in ("answer_ask", "approve", "cancel_ask", ""):
        answer = post(served, run.token, frame("tools/call", {"name": tool, "arguments": {}}, ""))
        assert answer.json()["error"]["code"] == -32602
    capture = {"verb": "capture.approve", "params": {}}
    assert refusal(call(served, run.token, "request_verb", capture)) == "wrong_channel"


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("request_trace", {}),
        ("request_trace", {**REGIME, "mode": "block"}),
        ("request_trace", {**REGIME, "idempotency_key": "k"}),
        ("request_trace", {**REGIME, "concurrency": "48"}),
        ("request_trace", {**REGIME, "model": "a;b\x00"}),
        ("check_capture", {"handle": "../x"}),
        ("check_capture", {"handle": NOBODYS, "more": 1}),
        ("request_verb", {"verb": "capture.approve"}),
        ("request_verb", {"verb": "pay", "params": []}),
        ("request_verb", {"verb": "pay\x00", "params": {}}),
        ("request_verb", {"verb": "pay", "params": {"amount": 1.5}}),
        ("check_ask", {"ask": 7}),
    ],
)
def test_arguments_that_a_tool_does_not_take_are_told_as_such(served: Served, tool: str, arguments: object) -> None:
    """Every member by its type, and no other; the answer names what is wrong."""
    assert refusal(call(served, begin(served).token, tool, arguments)) == "bad_params"
