"""`verb request` sends what was given, says what was opened and who answers it, and its exit says how it went."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gitops_bot.cli import run
from tests.unit.cli.test_remote_commands import ID, Stub, stub

__all__ = ["stub"]
PARAMS = {"amount_minor": 125_000, "currency": "EUR"}
OPENED: dict[str, Any] = {
    "id": ID,
    "state": "OPEN",
    "kind": "gated",
    "summary": "Transfer 1,250.00 EUR \x1b[2J",
    "quorum": {"missing": 2, "may_still": ["alice", "bob"]},
    "signed": {"repository": "https://forge.example/a.git", "branch": "gated/x/approvals/PERSON", "command": "c"},
}


@pytest.fixture
def params(tmp_path: Path) -> Callable[[str], str]:
    def write(text: str) -> str:
        file = tmp_path / "params.json"
        file.write_text(text)
        return str(file)

    return write


def test_it_prints_the_id_and_says_that_only_signed_commits_answer(
    stub: Stub, params: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    stub.document = OPENED
    file = params(json.dumps(PARAMS))
    more = ("--why", "w", "--key", "k", "--expires-in", "2h")
    assert run(["verb", "request", "payments.transfer", "--params", file, *more]) == 0
    method, path, sent, header = stub.seen[0]
    assert (method, path, header) == ("POST", "/api/v1/verbs/payments.transfer/requests", "Bearer gbt_secret")
    assert sent == {"params": PARAMS, "why": "w", "idempotency_key": "k", "expires_in": "2h"}
    out, err = capsys.readouterr()
    assert out == f"{ID}\n"
    for part in ("1,250.00 EUR", "only signed commits answer it, 2 more of alice, bob", "gated/x/approvals/PERSON"):
        assert part in err
    assert "\x1b" not in err


def test_json_is_the_document_alone(
    stub: Stub, params: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    stub.document = OPENED
    assert run(["verb", "request", "v", "--params", params("{}"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == OPENED


@pytest.mark.parametrize(
    ("state", "status", "said"),
    [("OPEN", 3, ""), ("APPROVED", 0, ""), ("DENIED", 4, "denied"), ("EXPIRED", 4, "expired")],
)
def test_with_wait_the_exit_says_what_became_of_it(
    stub: Stub, params: Callable[[str], str], capsys: pytest.CaptureFixture[str], state: str, status: int, said: str
) -> None:
    stub.document = {**OPENED, "state": state}
    assert run(["verb", "request", "v", "--params", params("{}"), "--wait", "31"]) == status
    polls = [path for _, path, _, _ in stub.seen[1:]]
    waits = [f"/api/v1/asks/{ID}?wait={seconds}" for seconds in (30, 1)]
    assert polls == (waits if state == "OPEN" else [])
    assert f"gitops-bot: {said}" in capsys.readouterr().err or not said


def test_a_refusal_is_exit_4_with_its_code(
    stub: Stub, params: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    stub.refuse(422, "limit_exceeded", "A limit of the policy would be exceeded. amount_minor")
    assert run(["verb", "request", "v", "--params", params("{}")]) == 4
    assert "limit_exceeded" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("verb", "text", "status"),
    [("a/b", "{}", 64), ("v?x=1", "{}", 64), ("v", "[]", 1), ("v", '{"a": 1.5}', 1), ("v", '{"a": 1, "a": 2}', 1)],
)
def test_what_is_no_request_is_not_sent(
    stub: Stub, params: Callable[[str], str], verb: str, text: str, status: int
) -> None:
    with_exit: list[int] = []
    try:
        with_exit.append(run(["verb", "request", verb, "--params", params(text)]))
    except SystemExit as ending:
        with_exit.append(int(str(ending.code)))
    assert with_exit == [status]
    assert stub.seen == []


def test_ask_show_says_of_a_gated_ask_who_answers_it_and_where(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    """Its twin, a plain question, names who may answer and nothing of signing."""
    plain = dict(stub.document)
    stub.document = {**plain, **OPENED}
    assert run(["ask", "show", ID]) == 0
    said = capsys.readouterr().out
    for part in ("Transfer 1,250.00 EUR", "only signed commits answer it, 2 more of alice, bob", "pushed to gated/x/"):
        assert part in said
    stub.document = plain
    assert run(["ask", "show", ID]) == 0
    assert "signed commits" not in capsys.readouterr().out
