"""A pinned program with real processes: what it gets, what it cannot get, and what is known when it ends."""

import hashlib
import json
import os
import shutil
import signal
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gitops_bot.core.canonical import action_bytes, action_hash
from gitops_bot.core.errors import Reason, Refused, Unavailable
from gitops_bot.core.executions import (
    Done,
    ExecutionKey,
    ExecutionResult,
    Failed,
    NothingDone,
    Unknown,
    execution_body,
)
from gitops_bot.policy.model import ProcessExecutor
from gitops_bot.process import Limits
from gitops_bot.verbs.conformance import check_executor
from gitops_bot.verbs.grammar import MAX_REPLY, MAX_TEXT
from gitops_bot.verbs.process import LIMITS, ProgramExecutor

PYTHON = f"#!{os.path.realpath(sys.executable)} -I\n"
KEY = ExecutionKey("01jd0000000000000000000000")
ACTION = action_bytes("github.com/acme/ops", "production", "payments.transfer", {"amount_minor": 125000})
PATIENT = 120.0


def body() -> bytes:
    made = execution_body(ACTION, action_hash(ACTION), KEY)
    assert isinstance(made, bytes)
    return made


@pytest.fixture
def host(tmp_path: Path) -> "Host":
    return Host(tmp_path)


class Host:
    """A host with one program and a folder for calls."""

    def __init__(self, root: Path) -> None:
        self.program = root / "pay"
        self.scratch = root / "scratch"
        self.scratch.mkdir(mode=0o700)

    def executor(
        self,
        text: str,
        *words: str,
        idempotent: bool = False,
        timeout: float = PATIENT,
        limits: Limits = LIMITS,
    ) -> ProgramExecutor:
        self.program.write_text(text, encoding="utf-8")
        sha256 = hashlib.sha256(self.program.read_bytes()).hexdigest()
        pinned = ProcessExecutor((str(self.program), *words), sha256, idempotent)
        return ProgramExecutor(pinned, self.scratch, timeout=timeout, limits=limits)

    def call(self, text: str, *words: str, idempotent: bool = False, timeout: float = PATIENT) -> ExecutionResult:
        return self.executor(text, *words, idempotent=idempotent, timeout=timeout).execute(KEY, body())


def until(question: Callable[[], object], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not question():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.01)


def text_of(result: ExecutionResult) -> str:
    assert isinstance(result, Done), result
    return result.text


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


SEEN = """
import json, os, pathlib, sys, resource
print(json.dumps({
    "body": sys.stdin.read(), "argv": sys.argv, "env": dict(os.environ), "cwd": os.getcwd(),
    "here": os.listdir("."), "mode": os.stat(".").st_mode, "fds": sorted(os.listdir("/proc/self/fd")),
    "group": os.getpgid(0) == os.getpid(), "session": os.getsid(0) == os.getpid(),
    "cmdline": pathlib.Path("/proc/self/cmdline").read_bytes().decode(),
}))
"""


@pytest.fixture
def seen(host: Host, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    monkeypatch.setenv("BANK_TOKEN", "s3cret")
    monkeypatch.setenv("LD_PRELOAD_NOT", "s3cret")
    monkeypatch.setenv("PYTHONPATH", "/tmp/evil")
    monkeypatch.setenv("HTTPS_PROXY", "http://evil.invalid")
    found = json.loads(text_of(host.call(PYTHON + SEEN, "--once")))
    assert isinstance(found, dict)
    return found


def test_i17_the_program_gets_the_body_on_standard_input(seen: dict[str, object]) -> None:
    assert seen["body"] == body().decode()


def test_no_parameter_is_anywhere_but_in_the_body(seen: dict[str, object]) -> None:
    for place in ("argv", "env", "cwd", "cmdline"):
        assert "125000" not in json.dumps(seen[place])
        assert KEY not in json.dumps(seen[place])
    argv = seen["argv"]
    assert isinstance(argv, list)
    assert argv[1:] == ["--once"]


def test_nothing_of_our_environment_arrives(seen: dict[str, object]) -> None:
    """A secret in the broker's environment, or a variable that changes what a program loads."""
    env = seen["env"]
    assert isinstance(env, dict)
    assert set(env) == {"PATH", "LANG", "LC_ALL", "HOME", "TMPDIR"}
    assert "s3cret" not in json.dumps(seen)
    assert env["HOME"] == env["TMPDIR"] == seen["cwd"]


def test_no_descriptor_of_ours_arrives(host: Host) -> None:
    """But the sealed program's, which a script's interpreter reads. One of the database would be a way in."""
    with (host.scratch.parent / "secret").open("w") as secret:
        os.set_inheritable(secret.fileno(), True)
        links = text_of(host.call('#!/bin/sh\nfor fd in /proc/$$/fd/*; do readlink "$fd"; done; true\n'))
    assert "secret" not in links
    assert sum("memfd:program" in line for line in links.splitlines()) in (1, 2)
    assert "memfd:body" in links


def test_each_call_has_an_empty_folder_of_its_own_that_goes_away(host: Host) -> None:
    executor = host.executor(PYTHON + SEEN + "\nopen('left', 'w').close(); os.mkdir('d'); os.chmod('d', 0)")
    first, second = (json.loads(text_of(executor.execute(KEY, body()))) for _ in range(2))
    assert first["here"] == second["here"] == []
    assert stat.S_IMODE(first["mode"]) == 0o700
    assert first["cwd"] != second["cwd"]
    assert list(host.scratch.iterdir()) == []


def test_a_program_has_a_group_and_session_of_its_own(seen: dict[str, object]) -> None:
    assert seen["group"] is True
    assert seen["session"] is True


def test_a_compiled_program_runs_under_its_own_name(host: Host) -> None:
    shutil.copy("/bin/cat", host.program)
    pinned = ProcessExecutor((str(host.program),), hashlib.sha256(host.program.read_bytes()).hexdigest(), False)
    assert text_of(ProgramExecutor(pinned, host.scratch).execute(KEY, body())) == body().decode()


# Replaced programs: cases/signed, spend, "executor's program replaced".


def test_a_replaced_program_is_not_run(host: Host, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    executor = host.executor("#!/bin/sh\necho honest\n")
    assert executor.check() is None
    assert text_of(executor.execute(KEY, body())) == "honest"
    host.program.write_text(f"#!/bin/sh\ntouch {ran}\n", encoding="utf-8")
    checked, result = executor.check(), executor.execute(KEY, body())
    assert isinstance(checked, Refused)
    assert checked.reason is Reason.BYTES_DIFFER
    assert isinstance(result, Failed)
    assert result.code is Reason.BYTES_DIFFER
    assert not ran.exists()


def test_a_missing_program_is_nothing_done_and_may_come_back(host: Host) -> None:
    executor = host.executor("#!/bin/sh\necho back\n")
    away = host.program.rename(host.program.with_name("away"))
    with pytest.raises(NothingDone):
        executor.check()
    with pytest.raises(NothingDone):
        executor.execute(KEY, body())
    away.rename(host.program)
    assert text_of(executor.execute(KEY, body())) == "back"


@pytest.fixture
def swapping(host: Host) -> Iterator[tuple[ProgramExecutor, Path]]:
    """A link at the program's path that somebody turns to and fro, as fast as they can, between it and their own."""
    honest, ran = host.program.with_name("honest"), host.program.with_name("ran")
    executor = host.executor("#!/bin/sh\necho honest\n")
    host.program.rename(honest)
    evil = host.program.with_name("evil")
    evil.write_text(f"#!/bin/sh\ntouch {ran}\n", encoding="utf-8")
    over = threading.Event()

    def swap() -> None:
        turned = host.program.with_name("turned")
        while not over.is_set():
            for target in (evil, honest):
                turned.symlink_to(target)
                turned.replace(host.program)

    host.program.symlink_to(honest)
    thread = threading.Thread(target=swap)
    thread.start()
    yield executor, ran
    over.set()
    thread.join()


def test_a_link_turned_between_check_and_start_runs_nothing_else(swapping: tuple[ProgramExecutor, Path]) -> None:
    executor, ran = swapping
    results = [executor.execute(KEY, body()) for _ in range(60)]
    assert all(isinstance(result, Done | Failed) for result in results)
    assert all(result.text == "honest" for result in results if isinstance(result, Done))
    assert not ran.exists()


def test_a_file_written_over_while_it_starts_runs_nothing_else(host: Host) -> None:
    """Written in place, so that the descriptor that was hashed leads to the new bytes."""
    ran = host.program.with_name("ran")
    honest = b"#!/bin/sh\necho honest\n"
    evil = f"#!/bin/sh\ntouch {ran}\n".encode()
    executor = host.executor(honest.decode())
    over = threading.Event()

    def write() -> None:
        with host.program.open("r+b", buffering=0) as file:
            while not over.is_set():
                for content in (evil, honest):
                    os.pwrite(file.fileno(), content, 0)
                    os.ftruncate(file.fileno(), len(content))

    thread = threading.Thread(target=write)
    thread.start()
    try:
        results = [executor.execute(KEY, body()) for _ in range(60)]
    finally:
        over.set()
        thread.join()
    assert all(result.text == "honest" for result in results if isinstance(result, Done))
    assert not ran.exists()


# How it ends.


@pytest.mark.parametrize(
    ("ending", "once", "deduped"),
    [
        ("exit 0", Done, Done),
        ("exit 1", Failed, Failed),
        ("exit 64", Failed, Failed),
        ("exit 75", Failed, Unavailable),
        ("exit 76", Unknown, Unavailable),
        ("exit 137", Unknown, Unavailable),
        ("kill -9 $$", Unknown, Unavailable),
        ("kill -15 $$", Unknown, Unavailable),
    ],
)
def test_i12_each_ending_has_its_result(host: Host, ending: str, once: type, deduped: type) -> None:
    text = f"#!/bin/sh\n{ending}\n"
    assert type(host.call(text)) is once
    if deduped is Unavailable:
        with pytest.raises(Unavailable) as caught:
            host.call(text, idempotent=True)
        assert not isinstance(caught.value, NothingDone)
    else:
        assert type(host.call(text, idempotent=True)) is deduped


def test_a_failure_says_why_in_one_escaped_line(host: Host) -> None:
    result = host.call("#!/bin/sh\necho begun; printf 'first\\nno funds \\033[2J\\n' >&2; exit 3\n")
    assert isinstance(result, Failed)
    assert result.reason.endswith("pay: exit 3: no funds \\x1b[2J")


@pytest.mark.parametrize("idempotent", [True, False])
def test_i12_a_program_killed_from_outside_is_unclear(host: Host, tmp_path: Path, idempotent: bool) -> None:
    pid_file = tmp_path / "pid"
    text = f"#!/bin/sh\necho $$ > {pid_file}.new; mv {pid_file}.new {pid_file}\nexec sleep 600\n"
    executor = host.executor(text, idempotent=idempotent)
    came: list[ExecutionResult | Unavailable] = []

    def call() -> None:
        try:
            came.append(executor.execute(KEY, body()))
        except Unavailable as error:
            came.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    until(pid_file.exists)
    os.kill(int(pid_file.read_text(encoding="ascii")), signal.SIGKILL)
    thread.join(60)
    assert len(came) == 1
    assert type(came[0]) is (Unavailable if idempotent else Unknown)


def test_i12_a_program_that_outlasts_its_time_is_ended_with_all_it_started_and_unclear(
    host: Host, tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    text = f"#!/bin/sh\ntrap '' TERM\nsleep 600 & echo $! $$ > {pids}\nwait; wait; sleep 600\n"
    result = host.call(text, timeout=4)
    assert isinstance(result, Unknown)
    assert "longer than 4 s" in result.reason
    for pid in pids.read_text(encoding="ascii").split():
        until(lambda pid=pid: not alive(int(pid)))  # type: ignore[misc] # bound now, called at once
    with pytest.raises(Unavailable):
        host.call(text, timeout=0.2, idempotent=True)


def test_a_quick_program_beside_a_child_that_holds_its_output_is_done_at_its_end(host: Host, tmp_path: Path) -> None:
    """Its exit is the end; what it left behind is ended, and not waited for."""
    pid = tmp_path / "pid"
    begun = time.monotonic()
    result = host.call(f"#!/bin/sh\nsleep 600 &\necho $! > {pid}\necho paid\n")
    assert text_of(result) == "paid"
    assert time.monotonic() - begun < PATIENT
    until(lambda: not alive(int(pid.read_text(encoding="ascii"))))


def test_a_program_that_closes_its_output_is_waited_for(host: Host, tmp_path: Path) -> None:
    late = tmp_path / "late"
    assert text_of(host.call(f"#!/bin/sh\necho paid; exec >&- 2>&-\nsleep 0.3; touch {late}\n")) == "paid"
    assert late.exists()


def test_a_flood_costs_neither_memory_nor_disk_nor_the_result(host: Host) -> None:
    text = PYTHON + "import os\nfor fd in (1, 2):\n    for _ in range(400): os.write(fd, b'a' * 65536)\n"
    result = text_of(host.call(text))
    assert result == "a" * MAX_TEXT + " (cut)"
    failed = host.call(text + "print('\\nno funds', file=__import__('sys').stderr); raise SystemExit(3)\n")
    assert isinstance(failed, Failed)
    assert failed.reason.endswith("no funds")


def test_output_at_the_end_of_the_pipe_is_not_lost(host: Host) -> None:
    """As much as a pipe holds may still be there when the program has ended."""
    text = PYTHON + f"import os\nos.write(1, b'dup\\n' + b'a' * {MAX_REPLY - 4})\n"
    result = host.call(text)
    assert isinstance(result, Done)
    assert result.dup


def test_a_program_that_reads_nothing_is_no_fault(host: Host) -> None:
    assert text_of(host.call("#!/bin/sh\nexec <&-\necho paid\n")) == "paid"


def test_limits_hold(host: Host) -> None:
    """A file beyond its limit, and processor time beyond it; the twin stays within both."""
    small = Limits(cpu_seconds=1, file_bytes=1000)
    spin = host.executor("#!/bin/sh\nwhile :; do :; done\n", limits=small)
    assert isinstance(spin.execute(KEY, body()), Unknown)
    written = host.executor("#!/bin/sh\nhead -c 2000 /dev/zero > f\nexit $?\n", limits=small)
    assert not isinstance(written.execute(KEY, body()), Done)
    within = host.executor("#!/bin/sh\nhead -c 900 /dev/zero > f\nexit $?\n", limits=small)
    assert isinstance(within.execute(KEY, body()), Done)


def test_a_folder_that_cannot_be_made_is_nothing_done(host: Host) -> None:
    executor = host.executor("#!/bin/sh\necho paid\n")
    host.scratch.rmdir()
    with pytest.raises(NothingDone):
        executor.execute(KEY, body())
    host.scratch.mkdir()
    assert text_of(executor.execute(KEY, body())) == "paid"


def test_no_call_leaves_a_descriptor(host: Host, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    slow = Host(tmp_path / "other").executor("#!/bin/sh\nsleep 600\n", timeout=0.1)
    assert isinstance(slow.execute(KEY, body()), Unknown)

    def open_files() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    executor = host.executor("#!/bin/sh\necho paid\n")
    executor.execute(KEY, body())
    before = open_files()
    for _ in range(5):
        executor.execute(KEY, body())
        slow.execute(KEY, body())
    assert open_files() == before


# The check that an executor declared idempotent dedupes.

DEDUPING = """
import json, os, sys
request = json.loads(sys.stdin.read())
assert request["protocol"] in ("gitops-bot/execution/v1", "gitops-bot/execution-check/v1")
try:
    os.close(os.open(sys.argv[1] + "/" + request["key"], os.O_CREAT | os.O_EXCL | os.O_WRONLY))
except FileExistsError:
    print("dup")
    raise SystemExit
if request["protocol"] == "gitops-bot/execution/v1":
    open(sys.argv[1] + "/paid", "a").write(json.dumps(request["action"]) + "\\n")
print("paid")
"""


def test_a_program_that_dedupes_passes_the_check_without_doing_anything(host: Host, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    seen.mkdir()
    executor = host.executor(PYTHON + DEDUPING, str(seen), idempotent=True)
    assert check_executor(executor, ExecutionKey("check-1")).holds
    assert not (seen / "paid").exists()
    assert executor.execute(KEY, body()) == Done("paid")
    assert executor.execute(KEY, body()) == Done("dup", dup=True)
    assert (seen / "paid").read_text(encoding="utf-8").splitlines() == [json.dumps(json.loads(ACTION))]


@pytest.mark.parametrize("text", ["#!/bin/sh\necho paid\n", "#!/bin/sh\necho dup\n", "#!/bin/sh\nexit 1\n"])
def test_a_program_that_only_says_so_does_not(host: Host, text: str) -> None:
    assert not check_executor(host.executor(text, idempotent=True), ExecutionKey("check-1")).holds
