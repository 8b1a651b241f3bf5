"""`verb hash` prints what every other implementation computes, and refuses what has no one hash."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gitops_bot.cli import run

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "action.json").read_text(encoding="utf-8"))


def hash_of(file: Path, action: dict[str, Any], *more: str) -> int:
    domain = action["domain"]
    place = ("--repository", domain["repository"], "--environment", domain["environment"])
    try:
        return run(["verb", "hash", action["verb"], "--params", str(file), *place, *more])
    except SystemExit as ending:
        return int(ending.code or 0)


@pytest.mark.parametrize("case", VECTORS["hash"], ids=lambda case: case["name"])
def test_each_vector_has_its_hash(case: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "params.json"
    file.write_text(json.dumps(case["action"]["params"]), encoding="utf-8")
    assert hash_of(file, case["action"]) == 0
    assert capsys.readouterr().out == case["hash"] + "\n"
    assert hash_of(file, case["action"], "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["hash"] == case["hash"]
    assert document["canonical"].encode().hex() == case["canonical_utf8_hex"]


@pytest.mark.parametrize("case", VECTORS["refused"], ids=lambda case: case["name"])
def test_what_has_no_hash_is_refused_in_one_line(
    case: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "params.json"
    file.write_text(case["params_json"], encoding="utf-8")
    assert hash_of(file, VECTORS["hash"][0]["action"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("gitops-bot: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize("raw", [b"", b"[]", b"\xff", b"[" * 70_000, b'{"a":"\\u202e"', b"{" + b" " * 70_000 + b"}"])
def test_bytes_that_are_no_object_are_refused_without_a_trace(
    raw: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "params.json"
    file.write_bytes(raw)
    assert hash_of(file, VECTORS["hash"][0]["action"]) == 1
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.strip().isprintable()


def test_a_file_that_is_not_there_is_a_usage_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert hash_of(tmp_path / "absent", VECTORS["hash"][0]["action"]) == 64
    assert "cannot read" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["verb", "ask", "capture", "agent", "ledger", "trust", "doctor", "workspace"])
def test_it_imports_nothing_heavy(name: str) -> None:
    """What a command's file loads decides whether its help starts in under 300 ms."""
    program = f"import sys, gitops_bot.cli.{name}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = {module.split(".")[0] for module in done.stdout.split()}
    assert not loaded & {"github", "requests", "sqlalchemy", "flask", "waitress", "asyncio", "http", "ssl"}
