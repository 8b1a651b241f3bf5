"""The one way to run a program: limits that stand already are not exceeded, and an open file can be what runs."""

import os
import resource
import subprocess
import sys
import time
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


LIMITED = process.Limits(cpu_seconds=7, memory_bytes=1 << 30, file_bytes=512 * 50)


def limited(argv: list[str], cwd: Path) -> process.Completed:
    return process.run(argv, cwd=cwd, env={"A": "1"}, stdin=b"in", timeout=60, limits=LIMITED)


def test_a_binary_and_a_script_run_under_the_same_limits_in_the_same_environment(tmp_path: Path) -> None:
    """They are started in different ways; neither may show in the program."""
    say = "ulimit -H -t; ulimit -H -v; ulimit -H -f; cat; echo; env | sort; echo $0 $1"
    script = tmp_path / "script"
    script.write_text(f"#!/bin/sh\n{say}\n")
    script.chmod(0o755)
    binary = limited(["sh", "-c", say, "named", "a b;$(c)"], tmp_path)
    told = limited([str(script), "a b;$(c)"], tmp_path)
    lines = binary.stdout.decode().splitlines()
    assert lines[:4] == ["7", str((1 << 30) // 1024), "50", "in"]
    assert lines[-1] == "named a b;$(c)"
    assert {"A=1", "PATH=" + process.SYSTEM_PATH} <= set(lines)
    assert [line for line in lines[4:-1] if not line.startswith(("A=", "PATH=", "LC_ALL=", "LANG=", "PWD="))] == []
    assert told.stdout.decode().splitlines()[:-1] == lines[:-1]
    assert (binary.returncode, binary.stderr) == (0, b"")


def test_a_program_that_was_limited_is_the_started_process_itself(tmp_path: Path) -> None:
    """Whoever ends the child ends the program."""
    child = process.start(["sleep", "60"], cwd=tmp_path, limits=LIMITED)
    try:
        for _ in range(1_000):
            if Path(f"/proc/{child.pid}/cmdline").read_bytes() == b"sleep\x0060\0":
                break
            time.sleep(0.01)
        assert Path(f"/proc/{child.pid}/cmdline").read_bytes() == b"sleep\x0060\0"
        assert os.getpgid(child.pid) == child.pid
        assert b"PWD=" not in Path(f"/proc/{child.pid}/environ").read_bytes()
    finally:
        process.end_group(child, grace=0)


@pytest.mark.parametrize("content", [None, b"", b"no program", b"#!/nonexistent\n"])
def test_what_cannot_be_started_under_limits_is_unavailable(content: bytes | None, tmp_path: Path) -> None:
    """A shell would run a file of any text; its exit status is no answer of the program's."""
    program = tmp_path / "program"
    if content is not None:
        program.write_bytes(content)
        program.chmod(0o755)
    with pytest.raises(Unavailable):
        limited([str(program)], tmp_path)
    with pytest.raises(Unavailable):
        limited(["program-that-is-nowhere"], tmp_path)


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
