"""`ask` and `capture` act over HTTP under a token that is never an argument; their exits say how it went."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from gitops_bot.cli import run

ID = "01j9zs4v7k8m2q3r5t6w7x8y9z"
TRACE = "model=a/b;c=1;p=2;mt=3;lt=4;lf=0.2500"
ASK = {
    "id": ID, "state": "OPEN", "kind": "question", "text": "\x1b[2J?", "opened_at": 0, "votes": [], "verdict": None,
    "quorum": {"missing": 1, "may_still": ["alice"], "undeclared": False},
}  # fmt: skip


class Stub:
    """A workspace that answers what the test says and keeps what it was sent."""

    def __init__(self) -> None:
        self.status, self.document = 200, dict(ASK)
        self.seen: list[tuple[str, str, Any, str | None]] = []
        stub = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                sent = json.loads(body) if body else None
                stub.seen.append((self.command, self.path, sent, self.headers.get("Authorization")))
                raw = json.dumps(stub.document).encode()
                self.send_response(stub.status)
                self.send_header("Content-Length", str(len(raw)))
                self.send_header("Location", "/elsewhere")
                self.end_headers()
                self.wfile.write(raw)

            do_GET = do_POST = answer  # the library's names

            def log_message(self, *_given: object) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def refuse(self, status: int, reason: str | None, detail: str = "") -> None:
        self.status, self.document = status, {"status": status, "reason": reason, "detail": detail, "facts": {}}


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stub]:
    made = Stub()
    thread = threading.Thread(target=made.server.serve_forever, args=(0.01,))
    thread.start()
    monkeypatch.setenv("GITOPS_BOT_URL", made.url)
    monkeypatch.setenv("GITOPS_BOT_TOKEN", "gbt_secret")
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


def test_open_sends_what_was_given_and_prints_the_id(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ask", "open", "?", "--option", "a", "--option", "b", "--key", "k", "--expires-in", "2h"]) == 0
    method, path, sent, header = stub.seen[0]
    assert (method, path, header) == ("POST", "/api/v1/asks", "Bearer gbt_secret")
    assert sent == {
        "question": "?", "options": ["a", "b"], "why": "", "candidates": [], "expires_in": "2h", "idempotency_key": "k",
    }  # fmt: skip
    assert capsys.readouterr().out == f"{ID}\n"


def test_still_open_is_exit_3_and_an_answer_is_0(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ask", "show", ID, "--wait", "1"]) == 3
    assert stub.seen[0][1] == f"/api/v1/asks/{ID}?wait=1"
    assert run(["ask", "show", ID]) == 0
    stub.document |= {"state": "ANSWERED", "verdict": {"state": "ANSWERED", "text": "yes", "by": ["alice"], "at": 0}}
    assert run(["ask", "show", ID, "--wait", "1"]) == 0
    out = capsys.readouterr().out
    assert "yes" in out
    assert "\x1b" not in out, "an agent's text does not act on the terminal"


def test_capture_request_prints_the_handle(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    stub.document = {"status": "pending_approval", "handle": ID, "approval": "x", "trace_id": TRACE}
    parts = ("--model", "a/b", "--concurrency", "1", "--prefixes", "2", "--max-tokens", "3", "--long-tokens", "4")
    assert run(["capture", "request", TRACE, "--why", "w"]) == 0
    assert run(["capture", "request", *parts, "--long-frac", "0.2500", "--why", "w"]) == 0
    assert stub.seen[0] == stub.seen[1]
    out, err = capsys.readouterr()
    assert out == f"{ID}\n{ID}\n"
    assert "pending_approval" in err
    stub.document = {"status": "escalate", "handle": None, "reason": "no surface"}
    assert run(["capture", "request", TRACE]) == 1
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "arguments",
    [
        ("capture", "request"),
        ("capture", "request", "model=x"),
        ("capture", "request", TRACE, "--model", "a/b"),
        ("capture", "request", "--model", "a/b"),
        ("capture", "show", "../asks"),
        ("ask", "show", "x"),
        ("ask", "show", ID, "--wait", "31"),
        ("ask", "open"),
        ("ask", "answer", ID),
    ],
)
def test_usage_is_64_and_nothing_is_sent(stub: Stub, arguments: tuple[str, ...]) -> None:
    assert run(list(arguments)) == 64
    assert stub.seen == []


@pytest.mark.parametrize(
    ("status", "reason", "exits", "said"),
    [
        (403, "self_approval", 4, "self_approval: "),
        (410, "expired", 4, "expired: "),
        (429, "too_many_open", 4, "too_many_open: "),
        (401, None, 4, "not_authorised: "),
        (418, "a_new_code", 1, "418"),
        (500, None, 1, "500"),
        (503, "not_found", 1, "503"),
        (302, None, 1, "302"),
    ],
)
def test_how_it_went_is_the_exit_status(
    stub: Stub, capsys: pytest.CaptureFixture[str], status: int, reason: str | None, exits: int, said: str
) -> None:
    stub.refuse(status, reason, "because")
    assert run(["ask", "cancel", ID]) == exits
    out, err = capsys.readouterr()
    assert (out, said in err) == ("", True), err
    assert len(stub.seen) == 1, "no redirect is followed: the token goes nowhere else"
    stub.status, stub.document = 200, {**ASK, "state": "WITHDRAWN"}
    assert run(["ask", "cancel", ID]) == 0


def test_an_answer_that_is_none_is_a_failure(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    stub.document = []  # type: ignore[assignment] # what a proxy in between might say
    assert run(["ask", "show", ID]) == 1
    stub.server.server_close()
    assert "no answer of its API" in capsys.readouterr().err


def test_lists_say_where_they_go_on(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    stub.document = {"items": [ASK], "next": ID}
    assert run(["ask", "list", "--open", "--limit", "1"]) == 0
    assert stub.seen[0][1] == "/api/v1/asks?open=1&limit=1"
    assert f"--after {ID}" in capsys.readouterr().out
    stub.document = {"items": [], "next": None}
    assert run(["capture", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"items": [], "next": None}


def test_a_token_comes_from_a_private_file_or_the_environment(
    stub: Stub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "token"
    file.touch(mode=0o600)
    file.write_text("gbt_file\n")
    assert run(["ask", "show", ID, "--token-file", str(file)]) == 0
    assert stub.seen[-1][3] == "Bearer gbt_file"
    file.chmod(0o644)
    assert run(["ask", "show", ID, "--token-file", str(file)]) == 1
    monkeypatch.delenv("GITOPS_BOT_TOKEN")
    assert run(["ask", "show", ID]) == 64
    assert run(["ask", "show", ID, "--url", "ftp://x"]) == 64
    assert len(stub.seen) == 1
    assert "gbt_file" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "url",
    [
        "http://forge.example",
        "http://1270.0.0.1",
        "http://127.0.0.1.evil.example",
        "http://127.evil.example",
        "ftp://localhost",
        "localhost:1",
        "http://:1",
        "http://localhost:x",
        "http://u:p@localhost",
    ],
)
def test_a_token_is_not_sent_in_the_open_or_nowhere(stub: Stub, capsys: pytest.CaptureFixture[str], url: str) -> None:
    assert run(["ask", "show", ID, "--url", url]) == 1
    assert "fix:" in capsys.readouterr().err
    assert stub.seen == []
