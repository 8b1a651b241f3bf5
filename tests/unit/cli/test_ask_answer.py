"""`ask answer`, `ask list --needs-you` and `backlog` act as the person who logged in with this shell."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from gitops_bot.bootstrap.shell_logins import Login, keep
from gitops_bot.cli import run

ID = "01j9zs4v7k8m2q3r5t6w7x8y9z"
BINDING = {"action_hash": "sha256:" + "0" * 64, "policy": "sha256:" + "1" * 64, "run_version": 1}
ASK: dict[str, Any] = {
    "id": ID, "state": "OPEN", "kind": "question", "text": "\x1b[2J?", "opened_at": 0, "votes": [], "verdict": None,
    "binding": BINDING, "options": [{"id": "o1", "label": "a"}],
    "quorum": {"missing": 1, "may_still": ["alice"], "undeclared": False},
}  # fmt: skip
CREDENTIAL = "gbs_" + "c" * 43


class Stub:
    """A workspace that answers each call as the test says; what it is not told is 404."""

    def __init__(self) -> None:
        self.answers: dict[tuple[str, str], tuple[int, Any]] = {}
        self.seen: list[tuple[str, str, Any, str | None]] = []
        stub = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                sent = json.loads(body) if body else None
                stub.seen.append((self.command, self.path, sent, self.headers.get("Authorization")))
                path = self.path.removeprefix("/api/v1")
                status, document = stub.answers.get((self.command, path), (404, problem(404, "not_found")))
                raw = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

            do_GET = do_POST = answer  # the library's names

            def log_message(self, *_given: object) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"


def problem(status: int, reason: str, detail: str = "") -> dict[str, Any]:
    return {"status": status, "reason": reason, "detail": detail, "facts": {}}


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Stub]:
    made = Stub()
    thread = threading.Thread(target=made.server.serve_forever, args=(0.01,))
    thread.start()
    for name in ("GITOPS_BOT_URL", "GITOPS_BOT_TOKEN", "GITOPS_BOT_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    made.answers["GET", f"/asks/{ID}"] = 200, ASK
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


@pytest.fixture
def logged_in(stub: Stub) -> Stub:
    keep(Login(stub.url, "alice", 2**50, CREDENTIAL))
    return stub


Captured = pytest.CaptureFixture[str]


def test_a_question_is_answered_at_once_with_what_was_shown(logged_in: Stub, capsys: Captured) -> None:
    ended = {**ASK, "state": "ANSWERED", "verdict": {"state": "ANSWERED", "option": "o1", "by": ["alice"], "at": 1}}
    logged_in.answers["POST", f"/asks/{ID}/answer"] = 200, ended
    assert run(["ask", "answer", ID, "--option", "o1", "--text", "cheaper", "--key", "k"]) == 0
    method, path, sent, header = logged_in.seen[-1]
    assert (method, path, header) == ("POST", f"/api/v1/asks/{ID}/answer", f"Bearer {CREDENTIAL}")
    assert sent == {"option": "o1", "text": "cheaper", "idempotency_key": "k", **BINDING}
    out = capsys.readouterr().out
    assert "ANSWERED" in out
    assert "\x1b" not in out
    assert run(["ask", "answer", ID, "--text", "neither", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["state"] == "ANSWERED"


def test_lifecycle_45_without_a_persons_credential_nothing_is_even_sent(
    stub: Stub, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """lifecycle 45: refused, with an agent's token in the environment too; logged in, the same command answers."""
    arguments = ["ask", "answer", ID, "--option", "o1", "--url", stub.url]
    assert run(arguments) == 4
    monkeypatch.setenv("GITOPS_BOT_TOKEN", "gbt_" + "x" * 43)
    monkeypatch.setenv("GITOPS_BOT_URL", stub.url)
    assert run(arguments) == 4
    assert stub.seen == []
    err = capsys.readouterr().err
    assert "not_authorised" in err
    assert "gitops-bot login" in err
    keep(Login(stub.url, "alice", 2**50, CREDENTIAL))
    stub.answers["POST", f"/asks/{ID}/answer"] = 200, {**ASK, "state": "ANSWERED"}
    assert run(arguments) == 0
    assert {header for _, _, _, header in stub.seen} == {f"Bearer {CREDENTIAL}"}


def test_a_credential_file_that_holds_an_agents_token_is_none(stub: Stub, capsys: Captured) -> None:
    file = keep(Login(stub.url, "alice", 2**50, CREDENTIAL))
    file.write_text(file.read_text().replace(CREDENTIAL, "gbt_" + "x" * 43))
    assert run(["ask", "answer", ID, "--option", "o1"]) == 1
    assert stub.seen == []
    assert "gbt_" not in capsys.readouterr().err


def test_i3_a_gated_ask_is_refused_in_words_that_say_where_authority_lives(logged_in: Stub, capsys: Captured) -> None:
    """attacks, Workspace: a gated answer through the command line. The workspace refuses it and keeps that."""
    signed = {"answered_by": "signed commits alone", "branch": "gated/x/approvals/PERSON", "repository": "r",
              "command": f"gitops-bot approval sign {ID}"}  # fmt: skip
    logged_in.answers["GET", f"/asks/{ID}"] = 200, {**ASK, "kind": "gated", "signed": signed}
    logged_in.answers["POST", f"/asks/{ID}/answer"] = 403, problem(403, "gated", "No grant was minted.")
    assert run(["ask", "answer", ID, "--option", "approve"]) == 4
    err = capsys.readouterr().err
    assert "gitops-bot: gated: " in err
    assert "no grant was minted" in err.lower()
    assert f"gitops-bot approval sign {ID}" in err
    assert logged_in.seen[-1][0] == "POST"


BOUND = {**ASK, "kind": "approval", "options": [{"id": "approve", "label": "Approve"}, {"id": "deny", "label": "Deny"}]}


def test_a_bound_ask_leads_to_its_page_and_is_never_posted(
    logged_in: Stub, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda page: opened.append(page) or True)
    logged_in.answers["GET", f"/asks/{ID}"] = 200, BOUND
    assert run(["ask", "answer", ID, "--option", "approve"]) == 3
    assert f"{logged_in.url}/asks/{ID}" in capsys.readouterr().err
    assert opened == []
    logged_in.answers["GET", f"/asks/{ID}?wait=5"] = 200, {**BOUND, "state": "APPROVED"}
    assert run(["ask", "answer", ID, "--option", "approve", "--open", "--wait", "5"]) == 0
    assert opened == [f"{logged_in.url}/asks/{ID}"]
    assert {method for method, *_ in logged_in.seen} == {"GET"}


@pytest.mark.parametrize(
    ("shown", "option", "reason"),
    [
        ({**BOUND, "state": "EXPIRED"}, "approve", "expired"),
        ({**BOUND, "state": "WITHDRAWN"}, "approve", "withdrawn"),
        ({**BOUND, "state": "DENIED", "ended_by": "bob"}, "approve", "already_settled"),
        (BOUND, "o1", "unknown_option"),
    ],
)
def test_what_takes_no_answer_is_refused(
    logged_in: Stub, capsys: Captured, shown: dict[str, Any], option: str, reason: str
) -> None:
    logged_in.answers["GET", f"/asks/{ID}"] = 200, shown
    assert run(["ask", "answer", ID, "--option", option]) == 4
    assert f"gitops-bot: {reason}: " in capsys.readouterr().err


def test_usage_is_told_before_anything_is_sent(logged_in: Stub) -> None:
    assert run(["ask", "answer", ID]) == 64
    assert run(["ask", "answer", "../answers", "--option", "o1"]) == 64
    assert logged_in.seen == []


def test_needs_you_is_listed_for_a_person(logged_in: Stub, capsys: Captured) -> None:
    row = {**ASK, "agent": "tuner", "blocks": "the agent waits", "risk": "low", "answerable": True, "expires_at": None}
    logged_in.answers["GET", "/needs-you?limit=50"] = 200, {"items": [row], "next": ID, "count": 1}
    assert run(["ask", "list", "--needs-you"]) == 0
    out = capsys.readouterr().out
    assert "the agent waits" in out
    assert f"more: --after {ID}" in out
    assert "\x1b" not in out
    logged_in.answers["GET", f"/needs-you?before={ID}&limit=1"] = 200, {"items": [], "next": None, "count": 0}
    assert run(["ask", "list", "--needs-you", "--after", ID, "--limit", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["count"] == 0


def test_lists_and_shows_are_a_persons_where_no_token_is(
    logged_in: Stub, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    logged_in.answers["GET", "/asks?limit=50"] = 200, {"items": [ASK], "next": None}
    assert run(["ask", "list"]) == 0
    assert run(["ask", "show", ID]) == 0
    assert {header for *_, header in logged_in.seen} == {f"Bearer {CREDENTIAL}"}
    monkeypatch.setenv("GITOPS_BOT_TOKEN", "gbt_secret")
    monkeypatch.setenv("GITOPS_BOT_URL", logged_in.url)
    assert run(["ask", "list"]) == 0
    assert logged_in.seen[-1][3] == "Bearer gbt_secret"
    capsys.readouterr()


def test_the_backlog_is_listed_and_reopened(logged_in: Stub, capsys: Captured) -> None:
    item = {"ask": ID, "agent": "tuner", "kind": "question", "cause": "expired", "entered_at": 0, "text": "\x1b[2J?"}
    logged_in.answers["GET", "/backlog?limit=50"] = 200, {"items": [item], "next": None}
    assert run(["backlog", "list"]) == 0
    out = capsys.readouterr().out
    assert (ID in out, "\x1b" in out) == (True, False)
    fresh = ID[:-1] + "a"
    logged_in.answers["POST", f"/backlog/{ID}/reopen"] = 201, {**ASK, "id": fresh}
    assert run(["backlog", "reopen", ID]) == 0
    assert capsys.readouterr().out == f"{fresh}\n"
    assert run(["backlog", "reopen", fresh]) == 4


def test_the_backlog_is_not_an_agents(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITOPS_BOT_TOKEN", "gbt_secret")
    monkeypatch.setenv("GITOPS_BOT_URL", stub.url)
    assert run(["backlog", "list"]) == 64
    assert stub.seen == []
