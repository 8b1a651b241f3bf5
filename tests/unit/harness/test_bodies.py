"""A command as a body: heard while it speaks, ended whole, and every way of ending told apart."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from gitops_bot.core.errors import Unavailable
from gitops_bot.harness import attended
from gitops_bot.harness.bodies import CommandBodies, Start, line
from gitops_bot.harness.fleet_isolation import Kind, isolate
from gitops_bot.ports import BodyEnd, BodyOrder, BodyStop, Harness

BROKER = """
import sys
from pathlib import Path
from gitops_bot.harness.bodies import CommandBodies
from gitops_bot.harness.fleet_isolation import Kind, isolate
from gitops_bot.ports import BodyOrder
order = BodyOrder("linter", "01RUN", 1, ("sh", "-c", sys.argv[1]), Path.cwd(), None, b"", {}, 60.0)
CommandBodies(isolate(Kind.NONE).start).run(order, lambda _: None, lambda: False)
"""


def order(
    folder: Path, *argv: str, prompt: bytes = b"", limit: float = 60.0, env: Mapping[str, str] | None = None
) -> BodyOrder:
    return BodyOrder("linter", "01RUN", 1, argv, folder, None, prompt, env or {}, limit)


def turn(
    given: BodyOrder, stopping: Callable[[], bool] = lambda: False, cap: int = attended.TEXT_CAP
) -> tuple[BodyEnd, bytes]:
    pieces: list[bytes] = []
    end = CommandBodies(isolate(Kind.NONE).start, cap).run(given, pieces.append, stopping)
    return end, b"".join(pieces)


def until(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def number(path: Path) -> int:
    until(lambda: path.exists() and path.read_text().strip())
    return int(path.read_text())


def test_the_capsule_goes_in_and_the_text_comes_out_whole(tmp_path: Path) -> None:
    capsule = os.urandom(300_000)
    bodies: Harness = CommandBodies(isolate(Kind.NONE).start)
    assert not bodies.keeps_sessions
    given = order(tmp_path, "cat", prompt=capsule)
    assert turn(given) == (BodyEnd(BodyStop.ENDED, 0), capsule)
    bodies.release(given)


def test_text_is_heard_while_the_body_still_runs(tmp_path: Path) -> None:
    """A REPORT is posted as soon as its line is complete: the body here ends only after its first line was heard."""
    gate = tmp_path / "gate"
    script = f"echo first; while [ ! -e {gate} ]; do sleep 0.02; done; echo second"
    pieces: list[bytes] = []

    def heard(piece: bytes) -> None:
        pieces.append(piece)
        gate.touch()

    end = CommandBodies(isolate(Kind.NONE).start).run(order(tmp_path, "sh", "-c", script), heard, lambda: False)
    assert (end.stop, b"".join(pieces)) == (BodyStop.ENDED, b"first\nsecond\n")


@pytest.mark.parametrize(
    ("script", "code", "detail"),
    [
        ("exit 1", 1, "exit status 1"),
        ("echo no lane >&2; exit 75", 75, "exit status 75: no lane"),
        ("exit 126", 126, "exit status 126"),
        ("exit 255", 255, "exit status 255"),
        ("kill -TERM $$", -15, "exit status -15 (SIGTERM)"),
        ("kill -KILL $$", -9, "exit status -9 (SIGKILL)"),
        ("sh -c 'kill -SEGV $$'; exit $?", 139, "exit status 139 (SIGSEGV)"),
    ],
)
def test_what_is_not_zero_has_failed_and_says_how(script: str, code: int, detail: str, tmp_path: Path) -> None:
    end, text = turn(order(tmp_path, "sh", "-c", f"echo so far; {script}"))
    assert (end.stop, end.exit_code, text) == (BodyStop.FAILED, code, b"so far\n")
    assert end.detail.startswith(detail)


def test_zero_has_ended_whatever_was_said_on_the_other_stream(tmp_path: Path) -> None:
    end, text = turn(order(tmp_path, "sh", "-c", "echo failed >&2; echo OUTCOME: NO_WORK"))
    assert (end, text) == (BodyEnd(BodyStop.ENDED, 0, "failed"), b"OUTCOME: NO_WORK\n")


@pytest.mark.parametrize("argv", [("no-such-program-here",), ("./absent",), ("cat", "a\0b")])
def test_what_cannot_start_is_told_from_what_failed(argv: tuple[str, ...], tmp_path: Path) -> None:
    end, text = turn(order(tmp_path, *argv))
    assert (end.stop, end.exit_code, text) == (BodyStop.NOT_STARTED, None, b"")
    assert end.detail
    assert turn(order(tmp_path / "no-folder", "true"))[0].stop is BodyStop.NOT_STARTED


def test_a_program_of_its_own_folder_starts(tmp_path: Path) -> None:
    """The accepting twin: names are looked for where they will be looked for."""
    program = tmp_path / "mine"
    program.write_text("#!/bin/sh\necho mine\n")
    program.chmod(0o755)
    assert turn(order(tmp_path, "./mine"))[1] == b"mine\n"
    assert turn(order(tmp_path, "mine", env={"PATH": f"{tmp_path}:/usr/bin:/bin"}))[1] == b"mine\n"


def test_the_environment_is_built_from_scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_PASSWORD", "secret-of-the-broker")
    _, text = turn(order(tmp_path, "env", env={"GITOPS_BOT_RUN_TOKEN": "mine"}))
    names = {line.partition("=")[0] for line in text.decode().splitlines()}
    assert names == {"PATH", "LC_ALL", "LANG", "HOME", "GITOPS_BOT_RUN_TOKEN"}


def test_a_time_limit_ends_the_whole_group(tmp_path: Path) -> None:
    script = "sleep 60 & echo $! > child; echo working; wait"
    end, text = turn(order(tmp_path, "sh", "-c", script, limit=0.5))
    assert (end.stop, end.detail, text) == (BodyStop.TIMED_OUT, "took longer than 0.5 s", b"working\n")
    child = number(tmp_path / "child")
    until(lambda: not lives(child))


def test_a_stop_is_felt_by_a_silent_body_and_by_a_flooding_one(tmp_path: Path) -> None:
    for script in ("sleep 60", "yes"):
        asked: list[int] = []

        def stopping(asked: list[int] = asked) -> bool:
            asked.append(1)
            return len(asked) >= 3

        end, _ = turn(order(tmp_path, "sh", "-c", script), stopping)
        assert (end.stop, end.exit_code, end.detail) == (BodyStop.STOPPED, -15, "was stopped")


def test_a_body_that_ignores_the_stop_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attended, "GRACE_SECONDS", 0.2)
    script = "trap '' TERM; echo ready; while :; do sleep 0.1; done"
    end, _ = turn(order(tmp_path, "sh", "-c", script, limit=0.5))
    assert (end.stop, end.exit_code) == (BodyStop.TIMED_OUT, -9)


def test_a_last_word_after_the_stop_is_still_heard(tmp_path: Path) -> None:
    script = "trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.05; done"
    pieces: list[bytes] = []
    end = CommandBodies(isolate(Kind.NONE).start).run(
        order(tmp_path, "sh", "-c", script), pieces.append, lambda: bool(pieces)
    )
    assert (end.stop, b"".join(pieces)) == (BodyStop.STOPPED, b"ready\nbye\n")


def test_what_a_body_leaves_running_ends_with_it(tmp_path: Path) -> None:
    """It holds the pipe too: the turn ends all the same."""
    end, text = turn(order(tmp_path, "sh", "-c", "sleep 60 & echo $! > child; echo done"))
    assert (end.stop, text) == (BodyStop.ENDED, b"done\n")
    child = number(tmp_path / "child")
    until(lambda: not lives(child))


def test_what_escapes_the_group_does_not_hold_the_turn(tmp_path: Path) -> None:
    script = "setsid sh -c 'echo $$ > child; exec yes' & while [ ! -s child ]; do sleep 0.02; done"
    try:
        end, text = turn(order(tmp_path, "sh", "-c", script))
        assert end.stop is BodyStop.ENDED
        assert set(text) <= set(b"y\n")
    finally:
        os.kill(number(tmp_path / "child"), signal.SIGKILL)


def test_a_flood_is_cut_and_said(tmp_path: Path) -> None:
    """Its outcome would be its last line, which was not read: that is no whole text."""
    fits = turn(order(tmp_path, "sh", "-c", "head -c 100000 /dev/zero"), cap=100_000)
    assert (fits[0].stop, len(fits[1])) == (BodyStop.ENDED, 100_000)
    end, text = turn(order(tmp_path, "sh", "-c", "head -c 300000 /dev/zero; echo OUTCOME: WORK_DONE"), cap=100_000)
    assert (end.stop, end.exit_code, len(text)) == (BodyStop.FAILED, 0, 100_000)
    assert "the rest was not read" in end.detail


def test_a_detail_is_one_short_line_without_the_body_s_secrets(tmp_path: Path) -> None:
    script = 'head -c 100000 /dev/zero >&2; printf "\\033[31mtoken %s\\nrefused\\377" "$RUN_TOKEN" >&2; exit 3'
    end, _ = turn(order(tmp_path, "sh", "-c", script, env={"RUN_TOKEN": "gbr_0123456789abcdef"}))
    assert end.detail.endswith("[31mtoken [hidden] refused\ufffd")
    assert "\n" not in end.detail and "\0" not in end.detail and "\033" not in end.detail
    assert len(line("x" * 1_000)) == 300


def test_what_the_hearer_raises_ends_the_body_and_goes_on(tmp_path: Path) -> None:
    """The database may be away while a marker lands."""

    def heard(_: bytes) -> None:
        raise RuntimeError("away")

    with pytest.raises(RuntimeError, match="away"):
        CommandBodies(isolate(Kind.NONE).start).run(
            order(tmp_path, "sh", "-c", "echo $$ > self; yes"), heard, lambda: False
        )
    assert not lives(number(tmp_path / "self"))


def test_a_refused_isolation_starts_nothing(tmp_path: Path) -> None:
    def isolate(_: BodyOrder) -> Start:
        raise Unavailable("no such user")

    end = CommandBodies(isolate).run(order(tmp_path, "touch", "x"), lambda _: None, lambda: False)
    assert end == BodyEnd(BodyStop.NOT_STARTED, detail="no such user")
    assert not (tmp_path / "x").exists()


def test_a_body_and_what_it_started_end_with_a_broker_that_is_killed(tmp_path: Path) -> None:
    """Two bodies of one agent would work in one folder after a crash; a wrapper's child too is a body."""
    script = "sleep 60 & echo $! > child; echo $$ > self; wait"
    broker = subprocess.Popen([sys.executable, "-c", BROKER, script], cwd=tmp_path)
    pids = [number(tmp_path / "child"), number(tmp_path / "self")]
    assert all(map(lives, pids))
    broker.kill()
    broker.wait()
    until(lambda: not any(map(lives, pids)))


def test_no_descriptor_and_no_process_is_left(tmp_path: Path) -> None:
    def held() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    def children() -> str:
        return Path(f"/proc/self/task/{os.getpid()}/children").read_text()

    turn(order(tmp_path, "true"))
    before, started = held(), children()
    for argv in (("true",), ("false",), ("absent-program",)):
        turn(order(tmp_path, *argv))
    assert (held(), children()) == (before, started)
