"""`comment explain` says what intake would do, in one JSON document, and needs nothing heavy for it."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from gitops_bot.cli.comment import comment

CASES = tomllib.loads((Path(__file__).parents[2] / "vectors" / "forge-comments.toml").read_text(encoding="utf-8"))
T = CASES["T"]


def explain(body: bytes, *more: str, trace_id: str = T) -> tuple[int, str, str]:
    done = CliRunner().invoke(comment, ["explain", "--trace-id", trace_id, *more], input=body)
    return done.exit_code, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("body", "outcome", "reason", "replies"),
    [
        (f"/approve-capture {T}\n", "approve", "approve", False),
        (f"/deny-capture {T} no\n", "deny", "deny", False),
        ("/capture-status", "status", "status", False),
        ("/capture-help", "help", "help", True),
        ("/approve-capture", "near_miss", "near_miss", True),
        (f"/approve-capture {T.replace('48', '64')}", "near_miss", "not_found", True),
        ("Looks good.", "silent", "no_command", False),
        ("`/capture-help`", "silent", "code_or_quote", False),
    ],
)
def test_each_outcome_is_one_document(body: str, outcome: str, reason: str, replies: bool) -> None:
    code, out, _ = explain(body.encode())
    document = json.loads(out)
    assert code == 0
    assert set(document) == {"outcome", "reason", "reply"}
    assert (document["outcome"], document["reason"]) == (outcome, reason)
    assert (document["reply"] is not None) is replies
    assert out.isascii(), "nothing of a hostile body reaches the terminal raw"


def test_the_body_may_come_from_a_file(tmp_path: Path) -> None:
    body = tmp_path / "body"
    body.write_bytes(f"/approve-capture {T}\r\n".encode())
    assert json.loads(explain(b"", "--file", str(body))[1])["outcome"] == "approve"
    code, out, err = explain(b"", "--file", str(tmp_path / "absent"))
    assert (code, out, err.count("\n")) == (64, "", 1)


@pytest.mark.parametrize("body", [b"\xff", f"/approve-capture {T}\n".encode() + b"\xc3"])
def test_a_body_that_is_no_utf_8_is_told_in_one_line(body: bytes) -> None:
    code, out, err = explain(body)
    assert (code, out, err) == (64, "", "gitops-bot: comment: not UTF-8\n")


@pytest.mark.parametrize("trace_id", ["", "x", T + ";", T.replace("48", "048")])
def test_a_trace_id_that_is_none_is_told_in_one_line(trace_id: str) -> None:
    code, out, err = explain(b"", trace_id=trace_id)
    assert (code, out, err.count("\n")) == (64, "", 1)
    assert "trace_id" in err


def test_a_body_without_an_end_is_read_to_the_cap_only(tmp_path: Path) -> None:
    code, out, _ = explain(b"/" * 10_000_000)
    assert (code, json.loads(out)["reason"]) == (0, "over_cap")


def test_it_imports_nothing_heavy() -> None:
    """What `gitops-bot comment explain` loads decides whether it starts in under 300 ms."""
    program = "import sys, gitops_bot.cli.comment; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in done.stdout.split()}
    assert not loaded & {"github", "requests", "sqlalchemy", "flask", "asyncio", "urllib3"}
