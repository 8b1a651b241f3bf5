"""The tools against who may not call them, and frames that are none; each refusal has an accepting twin beside it."""

import json

import pytest

from gitops_bot.config import load
from gitops_bot.core.asks import AskState
from gitops_bot.store import agents, asks
from gitops_bot.store.states import TokenScope
from tests.mcp_stage import NOBODYS, REGIME, begin, call, frame, hire, post, refusal, settle
from tests.served_stage import Served, raw, status_of

pytestmark = pytest.mark.xdist_group("mcp")
LIST = frame("tools/list", {}, "")


def test_without_a_token_and_with_a_wrong_one_nothing_is_served(served: Served) -> None:
    """RFC 6750, section 3: the challenge names an error only where a token came."""
    nobody = post(served, None, LIST)
    assert (nobody.status_code, nobody.headers["www-authenticate"]) == (401, 'Bearer realm="gitops-bot"')
    for wrong in ("gbt_" + "x" * 43, "x"):
        answer = post(served, wrong, LIST)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == 'Bearer realm="gitops-bot", error="invalid_token"'
    basic = post(served, None, LIST, Authorization="Basic YTpi")
    assert basic.status_code == 401
    assert post(served, begin(served).token, LIST).status_code == 200


def test_tokens_for_something_else_are_not_taken(served: Served) -> None:
    """The tools are for a run: neither an application's token nor a loop's own calls them."""
    for token in (served.token, served.loop_token):
        answer = post(served, token, LIST)
        assert (answer.status_code, answer.json()["reason"]) == (403, "not_authorised")
        assert 'error="insufficient_scope"' in answer.headers["www-authenticate"]
    assert post(served, begin(served, "tuner").token, LIST).status_code == 200


def test_the_token_of_a_settled_run_is_over(served: Served) -> None:
    """At once, and what the run asked for stays as it is."""
    run = begin(served)
    assert post(served, run.token, LIST).status_code == 200
    settle(served, run)
    answer = post(served, run.token, LIST)
    assert (answer.status_code, 'error="invalid_token"' in answer.headers["www-authenticate"]) == (401, True)


def test_a_revoked_token_is_over(served: Served) -> None:
    """Its run goes on."""
    run = begin(served)
    with served.host.write() as tx:
        agents.revoke_run_tokens(tx, run.id)
        fresh = agents.issue_token(tx, run.agent, TokenScope.RUN, run=run.id)
    assert post(served, run.token, LIST).status_code == 401
    assert post(served, fresh, LIST).status_code == 200


@pytest.mark.parametrize("other", ["shell", "tuner"])
def test_another_runs_asks_and_captures_are_not_there(served: Served, other: str) -> None:
    """Another run's token stands for that run alone, of the same agent or of another; the words tell nothing."""
    mine, theirs = begin(served), begin(served, other)
    ask = call(served, mine.token, "request_verb", {"verb": "release.cut", "params": {"version": f"of {other}"}})
    named = {"ask": ask["structuredContent"]["id"]}
    unknown = call(served, theirs.token, "check_ask", {"ask": NOBODYS})
    shown = call(served, theirs.token, "check_ask", named)
    assert refusal(shown) == refusal(unknown) == "not_found"
    assert shown["content"] == unknown["content"]
    handle = call(served, mine.token, "request_trace", {**REGIME, "prefixes": len(other)})["structuredContent"][
        "handle"
    ]
    assert refusal(call(served, theirs.token, "check_capture", {"handle": handle})) == "not_found"
    assert refusal(call(served, theirs.token, "check_capture", {"handle": named["ask"]})) == "not_found"
    assert call(served, mine.token, "check_ask", named)["structuredContent"]["state"] == "OPEN"


def as_whom(served: Served, token: str) -> Served:
    """Give the same workspace, called with another token."""
    changed = Served.__new__(Served)
    changed.__dict__ |= {**served.__dict__, "token": token}
    return changed


def test_a_run_token_answers_nothing(served: Served) -> None:
    """Over the API that people use, with a run's token, its agent's and another agent's: whatever it is said to be, the
    ask stays open. Its requester is refused as such; to another it is not there."""
    run, other = begin(served), begin(served, hire(served, "bystander"))
    with served.host.write() as tx:
        agents_own = agents.issue_token(tx, run.agent, TokenScope.AGENT)
        strangers = agents.issue_token(tx, other.agent, TokenScope.AGENT)
    ask = call(served, run.token, "request_verb", {"verb": "release.cut", "params": {"version": "mine"}})
    ask = ask["structuredContent"]
    refused = {run.token: (403, "self_approval"), agents_own: (403, "self_approval")}
    refused |= dict.fromkeys((other.token, strangers), (404, "not_found"))
    for token, expected in refused.items():
        for option in ("approve", "deny"):
            told = {"option": option, **ask["binding"]}
            answer = as_whom(served, token).call("POST", f"/asks/{ask['id']}/answer", json=told)
            assert (answer.status_code, answer.json()["reason"]) == expected
    with served.host.read() as tx:
        kept = asks.get(tx, ask["id"])
    assert kept is not None
    assert kept.state is AskState.OPEN


def test_the_token_of_a_settled_run_does_nothing_over_the_api_either(served: Served) -> None:
    """Neither look, ask, withdraw nor answer; before it settled it did. What it asked stays open."""
    run = begin(served, hire(served, "settler"))
    mine = as_whom(served, run.token)
    ask = call(served, run.token, "request_verb", {"verb": "release.cut", "params": {"version": "settled"}})
    ask = ask["structuredContent"]
    told = {"option": "approve", **ask["binding"]}
    ways = (
        ("GET", f"/asks/{ask['id']}", None),
        ("POST", f"/asks/{ask['id']}/answer", told),
        ("POST", "/asks", {"question": "Go on?"}),
        ("POST", "/captures", REGIME),
        ("POST", f"/asks/{ask['id']}/cancel", {}),
    )
    assert mine.call(*ways[0][:2]).status_code == 200
    settle(served, run)
    assert [mine.call(method, path, json=body).status_code for method, path, body in ways] == [401] * len(ways)
    with served.host.read() as tx:
        kept = asks.get(tx, ask["id"])
    assert kept is not None
    assert kept.state is AskState.OPEN


def test_another_agents_ask_and_key_are_not_there(served: Served) -> None:
    """By the token of a run over the API: their ask can be neither seen nor taken back, and their idempotency key names
    nothing of theirs; one's own does."""
    owner, other = (as_whom(served, begin(served, hire(served, slug)).token) for slug in ("keeper", "taker"))
    question = {"question": "Ship it?", "options": ["yes", "no"], "idempotency_key": "the-one"}
    first = owner.call("POST", "/asks", json=question)
    assert first.status_code == 201
    mine = first.json()["id"]
    assert owner.call("POST", "/asks", json=question).json()["id"] == mine
    theirs = other.call("POST", "/asks", json={**question, "question": "Mine?"})
    assert theirs.status_code == 201
    assert theirs.json()["id"] != mine
    for method, path in (("GET", f"/asks/{mine}"), ("POST", f"/asks/{mine}/cancel")):
        answer = other.call(method, path, json={} if method == "POST" else None)
        assert (answer.status_code, answer.json()["reason"]) == (404, "not_found")
    assert owner.call("GET", f"/asks/{mine}").json()["state"] == "OPEN"
    assert owner.call("POST", f"/asks/{mine}/cancel", json={}).status_code == 200


def test_a_page_of_another_origin_calls_nothing(served: Served) -> None:
    """DNS rebinding: neither a foreign origin nor a name of somebody else's; whoever sends none is no page."""
    token = begin(served).token
    assert post(served, token, LIST, Origin="https://evil.example").status_code == 403
    assert post(served, token, LIST, Origin="null").status_code == 403
    assert post(served, token, LIST, Host="evil.example").status_code == 421
    assert post(served, token, LIST, **{"Sec-Fetch-Site": "cross-site"}).status_code == 403
    assert post(served, token, LIST).status_code == 200
    own = load(served.folder / "gitops-bot.toml").origin
    assert post(served, token, LIST, Origin=own).status_code == 200


def test_ten_megabytes_are_not_read(served: Served) -> None:
    """Told or untold, with a token or without; the largest arguments that fit are read."""
    token = begin(served).token
    assert post(served, token, b'"' + b"x" * 10_000_000 + b'"').status_code == 413
    assert post(served, None, b'"' + b"x" * 10_000_000 + b'"').status_code == 401
    head = f"POST /mcp HTTP/1.1\r\nHost: localhost:{served.port}\r\nAuthorization: Bearer {token}\r\n"
    head += "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    piece = b"10000\r\n" + b"x" * 65_536 + b"\r\n"
    assert status_of(raw(served.port, head.encode() + piece * 2, close=False)) == 413
    arguments = {"verb": "no.such", "params": {"text": "x" * 60_000}}
    assert refusal(call(served, token, "request_verb", arguments)) == "unknown_verb"


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"", -32700),
        (b"{", -32700),
        (b"\xff\xfe", -32700),
        (b'{"a":1,"a":2}', -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"a":NaN}}', -32700),
        (b"[" * 60_000, -32700),
        (b'{"params":' * 5_000 + b"1" + b"}" * 5_000, -32700),
        (b'{"id":' + b"9" * 5_000 + b"}", -32700),
        (json.dumps([LIST, LIST]).encode(), -32600),
        (b"[]", -32600),
        (b"7", -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"\\ud800"}}', -32700),
    ],
)
def test_a_frame_that_is_none_is_an_error_of_the_protocol(served: Served, sent: bytes, code: int) -> None:
    """Never a fault of ours: no batch, no depth, no key twice, no half character."""
    answer = post(served, begin(served).token, sent)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, code)


@pytest.mark.parametrize(
    "sent",
    [
        {},
        {"jsonrpc": "2.0"},
        {"jsonrpc": "1.0", "id": 1, "method": "tools/list"},
        {"jsonrpc": "2.0", "id": {}, "method": "tools/list"},
        {"jsonrpc": "2.0", "id": None, "method": "tools/list"},
        {"jsonrpc": "2.0", "id": 1, "method": 7},
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": []},
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "check_ask", "arguments": []}},
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": ["x"]}},
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}},
        {"jsonrpc": "2.0", "id": 1, "method": "initialize"},
        {"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": "file:///etc/passwd"}},
        {"jsonrpc": "2.0", "id": 1, "method": "no/such\x00"},
        {"jsonrpc": "2.0", "id": 1, "result": {}},
    ],
)
@pytest.mark.parametrize("revision", ["2025-06-18", "2026-07-28"])
def test_a_strange_message_is_answered_and_breaks_nothing(served: Served, sent: object, revision: str) -> None:
    """Whatever a client of either kind makes up; the next one is served."""
    token = begin(served).token
    headers = {"Mcp-Method": "tools/list"} if revision == "2026-07-28" else {}
    answer = post(served, token, json.dumps(sent).encode(), revision, **headers)
    assert answer.status_code < 500
    if answer.status_code == 200:
        assert "error" in answer.json()
    assert post(served, token, LIST).status_code == 200


def test_what_is_no_json_by_its_type_is_not_read(served: Served) -> None:
    """A form that a page of anybody may send is none."""
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        answer = post(served, begin(served).token, LIST, **{"Content-Type": kind})
        assert answer.status_code == 415
    charset = post(served, begin(served).token, LIST, **{"Content-Type": "application/json; charset=utf-8"})
    assert charset.status_code == 200


def test_no_token_is_written_anywhere(served: Served) -> None:
    """Neither in an answer nor in the log, whatever went wrong."""
    run = begin(served)
    texts = [post(served, run.token, LIST).text, post(served, run.token, b"{").text, served.log]
    settle(served, run)
    texts.append(post(served, run.token, LIST).text)
    assert not [text for text in texts if run.token in text]
    assert "Traceback" not in served.log
