"""The program in docs/executors.md does what the page says of it."""

import hashlib
import os
import re
import sqlite3
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gitops_bot.core.canonical import action_bytes, action_hash
from gitops_bot.core.executions import Done, ExecutionKey, Failed, execution_body
from gitops_bot.policy.model import ProcessExecutor
from gitops_bot.verbs.conformance import check_executor
from gitops_bot.verbs.process import ProgramExecutor

PAGE = Path(__file__).parents[3] / "docs" / "executors.md"
KEY = ExecutionKey("01jd0000000000000000000000")


def body(amount: int) -> bytes:
    params = {"amount_minor": amount, "currency": "EUR", "to": "DE89370400440532013000"}
    action = action_bytes("github.com/acme/ops", "production", "payments.transfer", params)
    made = execution_body(action, action_hash(action), KEY)
    assert isinstance(made, bytes)
    return made


@pytest.fixture
def booking(tmp_path: Path) -> ProgramExecutor:
    found = re.search(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    first, _, rest = found[1].partition("\n")
    assert first == "#!/usr/bin/python3 -I"
    # The same program under the interpreter that runs this test; the page names the usual one.
    program = tmp_path / "book"
    program.write_text(f"#!{os.path.realpath(sys.executable)} -I\n{rest}", encoding="utf-8")
    sha256 = hashlib.sha256(program.read_bytes()).hexdigest()
    pinned = ProcessExecutor((str(program), str(tmp_path / "books.sqlite")), sha256, True)
    return ProgramExecutor(pinned, tmp_path)


def transfers(tmp_path: Path) -> list[tuple[object, ...]]:
    books = sqlite3.connect(tmp_path / "books.sqlite")
    try:
        return books.execute("SELECT * FROM transfers").fetchall()
    finally:
        books.close()


def test_the_page_shows_a_body_as_it_is() -> None:
    shown = body(125_000)
    at = shown.index(b"sha256:")
    assert shown[:at].decode() + 'sha256:…"' + shown[at + 71 + 1 :].decode() in PAGE.read_text(encoding="utf-8")


def test_the_program_of_the_page_passes_the_check_and_books_nothing(booking: ProgramExecutor, tmp_path: Path) -> None:
    assert check_executor(booking, ExecutionKey("check-1")).holds
    assert transfers(tmp_path) == []


def test_the_program_of_the_page_books_once_a_key(booking: ProgramExecutor, tmp_path: Path) -> None:
    assert booking.execute(KEY, body(125_000)) == Done("booked")
    assert booking.execute(KEY, body(125_000)) == Done("dup", dup=True)
    other = booking.execute(KEY, body(125_001))
    assert isinstance(other, Failed)
    assert other.reason.endswith("this key was used with another body")
    assert transfers(tmp_path) == [("DE89370400440532013000", 125_000, "EUR")]


def test_the_program_of_the_page_books_once_for_calls_at_the_same_time(
    booking: ProgramExecutor, tmp_path: Path
) -> None:
    """A broker that was killed leaves its call running, and the next one calls again."""
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: booking.execute(KEY, body(1)), range(4)))
    assert sorted(result.dup for result in results if isinstance(result, Done)) == [False, True, True, True]
    assert len(transfers(tmp_path)) == 1
