"""A program that may ask the person stays at their terminal, and still cannot hang or flood."""

import os
import sys
from pathlib import Path

import pytest

from gitops_bot.core.errors import Unavailable
from gitops_bot.process import run, run_attended

SESSION = [sys.executable, "-c", "import os; print(os.getsid(0), os.getpgid(0))"]


def test_it_stays_in_our_session_where_others_do_not() -> None:
    """`/dev/tty` of a program is the terminal of its session: without it no PIN can be typed."""
    ours = f"{os.getsid(0)} {os.getpgid(0)}".encode()
    assert run_attended(SESSION, cwd=Path("/"), timeout=30).stdout.strip() == ours
    assert run(SESSION, cwd=Path("/"), timeout=30).stdout.strip() != ours


def test_it_gives_status_and_output_and_takes_input() -> None:
    code = "import sys; sys.stderr.write('e'); print(sys.stdin.read()); sys.exit(3)"
    done = run_attended([sys.executable, "-c", code], cwd=Path("/"), stdin=b"in", timeout=30)
    assert (done.returncode, done.stdout, done.stderr) == (3, b"in\n", b"e")


def test_nothing_of_our_environment_is_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_DIR", "/elsewhere")
    code = "import os; print(os.environ.get('GIT_DIR'), os.environ.get('HOME'))"
    done = run_attended([sys.executable, "-c", code], cwd=Path("/"), env={"HOME": "/h"}, timeout=30)
    assert done.stdout.strip() == b"None /h"


def test_one_that_takes_too_long_or_is_not_there_is_unavailable() -> None:
    with pytest.raises(Unavailable, match="longer than"):
        run_attended([sys.executable, "-c", "import time; time.sleep(60)"], cwd=Path("/"), timeout=0.2)
    with pytest.raises(Unavailable, match="cannot start"):
        run_attended(["/nonexistent/program"], cwd=Path("/"), timeout=1)
