"""The one way to run a program: limits that stand already are not exceeded, and an open file can be what runs."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from gitops_bot import process
from gitops_bot.core.errors import Unavailable

LOWERED = """
import resource, sys
from pathlib import Path
from gitops_bot import process
resource.setrlimit(resource.RLIMIT_FSIZE, (512 * 100, 512 * 100))
limits = process.Limits(file_bytes=512 * int(sys.argv[1]))
told = process.run(("/bin/sh", "-c", "ulimit -H -f"), cwd=Path("/"), timeout=60, limits=limits)
sys.exit(int(told.stdout))
"""


@pytest.mark.parametrize(("wanted", "held"), [(50, 50), (200, 100)])
def test_a_limit_is_never_above_what_stands_already(wanted: int, held: int) -> None:
    """Asking for more fails for everybody but root, and the program would not start."""
    assert subprocess.run([sys.executable, "-c", LOWERED, str(wanted)]).returncode == held
    assert process._within(7, resource.RLIM_INFINITY) == 7


def test_an_open_file_is_executed_under_the_name_that_was_given() -> None:
    program = os.open("/bin/sh", os.O_RDONLY | os.O_CLOEXEC)
    try:
        child = process.start(("pay", "-c", "echo $0"), cwd=Path("/"), stdout=process.PIPE, program=program)
    finally:
        os.close(program)
    output, _ = child.communicate(timeout=60)
    process.end_group(child, grace=0)
    assert output == b"pay\n"


def test_a_program_at_a_terminal_finds_it_as_its_own() -> None:
    """`/dev/tty` is ours to type at, and nothing of the parent's environment is there."""
    script = "read line < /dev/tty; echo got $line; echo ${SECRET:-none}"
    child, terminal = process.start_at_terminal(("/bin/sh", "-c", script), cwd=Path("/"), env={"TERM": "dumb"})
    try:
        os.write(terminal, b"typed\n")
        assert child.wait(60) == 0
        shown = os.read(terminal, 4096)
    finally:
        process.end_group(child, grace=0)
        os.close(terminal)
    assert b"got typed" in shown
    assert b"none" in shown


def test_a_program_that_cannot_be_started_at_a_terminal_is_unavailable() -> None:
    with pytest.raises(Unavailable):
        process.start_at_terminal(("/nonexistent/program",), cwd=Path("/"))
