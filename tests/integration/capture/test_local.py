"""Local captures with real processes: what survives, what is ended, and what is never taken for a result."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gitops_bot.capture.local import LocalCapturer
from gitops_bot.core.captures import Regime
from gitops_bot.core.errors import Malformed, Unavailable
from gitops_bot.ports import CaptureFailed, CaptureResult
from gitops_bot.process import Limits

NO_LIMITS = Limits()
REGIME = Regime("Qwen/Qwen3-0.6B", 2, 1, 4, 0, "0.0000")
GOOD = """
import json, pathlib, sys
regime = json.load(sys.stdin)
pathlib.Path("trace.jsonl").write_text(json.dumps(regime))
pathlib.Path("knobs.json").write_text(json.dumps({"v": 1, "knobs": {"MOCK_TTFT_MS": "1.5"}}))
"""
SLOW = "import pathlib, time; pathlib.Path('up').touch(); time.sleep(60)"


def awaiting(go: Path) -> str:
    """The beginning of a program that goes on once a file is there."""
    return f"import os, time\nwhile not os.path.exists({str(go)!r}): time.sleep(0.01)\n"


def until(question: Callable[[], object], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not question():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.01)


def result(capturer: LocalCapturer, job: str) -> CaptureResult:
    until(lambda: capturer.poll(job) is not None)
    found = capturer.poll(job)
    assert found is not None
    return found


def failure(capturer: LocalCapturer, job: str) -> str:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            assert capturer.poll(job) is None, "a result"
        except CaptureFailed as failed:
            return failed.reason
        time.sleep(0.01)
    raise AssertionError("still running")


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def keeper_of(root: Path, job: str) -> int:
    path = root / job / "began.json"
    until(path.exists)
    return int(json.loads(path.read_text())["pid"])


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., LocalCapturer]]:
    made: list[LocalCapturer] = []

    def build(program: str, *, timeout: float = 120.0, limits: Limits = NO_LIMITS) -> LocalCapturer:
        made.append(LocalCapturer(tmp_path / "jobs", [sys.executable, "-c", program], limits, timeout))
        return made[-1]

    yield build
    jobs = tmp_path / "jobs"
    for capturer in made:
        for folder in jobs.iterdir() if jobs.exists() else ():
            if (folder / "job.json").exists() and '"token": "' in (folder / "job.json").read_text():
                capturer.cancel(folder.name)


def test_result_has_the_digest_of_the_trace_and_the_knobs(make: Callable[..., LocalCapturer]) -> None:
    """The program gets the regime on standard input; the digest is of the artefact's bytes."""
    capturer = make(GOOD)
    capturer.submit("a-1", REGIME)
    found = result(capturer, "a-1")
    content = found.artefact.read_bytes()
    assert json.loads(content) == REGIME.params()
    assert found.digest == "sha256:" + hashlib.sha256(content).hexdigest() == capturer.rehash(found.artefact)
    assert dict(found.knobs) == {"MOCK_TTFT_MS": "1.5"}


def test_rehash_sees_a_changed_or_missing_artefact(make: Callable[..., LocalCapturer], tmp_path: Path) -> None:
    """A forged, replaced or linked file never hashes to what was measured."""
    capturer = make(GOOD)
    capturer.submit("a-1", REGIME)
    found = result(capturer, "a-1")
    copy = tmp_path / "copy"
    copy.write_bytes(found.artefact.read_bytes())
    found.artefact.write_text("forged")
    assert capturer.rehash(found.artefact) != found.digest
    found.artefact.unlink()
    assert capturer.rehash(found.artefact) is None
    found.artefact.symlink_to(copy)
    assert capturer.rehash(found.artefact) is None
    assert capturer.rehash(copy) == found.digest


def test_submitting_twice_runs_once(make: Callable[..., LocalCapturer], tmp_path: Path) -> None:
    """While it runs, after it ended, and from another broker's object."""
    count = tmp_path / "count"
    program = f"open({str(count)!r}, 'a').write('x'); import time; time.sleep(0.3)\n" + GOOD
    capturer = make(program)
    capturer.submit("a-1", REGIME)
    capturer.submit("a-1", REGIME)
    make(program).submit("a-1", REGIME)
    result(capturer, "a-1")
    capturer.submit("a-1", REGIME)
    make(program).submit("a-1", REGIME)
    assert result(capturer, "a-1")
    assert count.read_text() == "x"


def test_submitting_at_one_instant_runs_once(make: Callable[..., LocalCapturer], tmp_path: Path) -> None:
    """Eight submitters, none sharing memory with another: one program."""
    count = tmp_path / "count"
    capturers = [make(f"open({str(count)!r}, 'a').write('x')\n" + GOOD) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        for ended in [pool.submit(capturer.submit, "a-1", REGIME) for capturer in capturers]:
            ended.result()
    assert result(capturers[0], "a-1")
    assert count.read_text() == "x"


@pytest.mark.parametrize("name", ["../x", "a/b", "/tmp/x", "", ".", "A", "a\n", "a" * 81, "é", "a b"])
def test_a_job_name_that_is_no_name_is_refused(make: Callable[..., LocalCapturer], tmp_path: Path, name: str) -> None:
    """No name leaves the root; nothing is created."""
    capturer = make(GOOD)
    for call in (lambda: capturer.submit(name, REGIME), lambda: capturer.poll(name), lambda: capturer.cancel(name)):
        with pytest.raises(Malformed, match="job"):
            call()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["x", "a-b", "0", "a" * 80])
def test_a_job_name_is_accepted(make: Callable[..., LocalCapturer], name: str) -> None:
    """The twin of the refused names."""
    capturer = make(GOOD)
    capturer.submit(name, REGIME)
    assert result(capturer, name)


def test_the_reason_is_the_last_error_line_escaped(make: Callable[..., LocalCapturer]) -> None:
    """A failing program's words reach a person bounded and without control characters."""
    capturer = make(
        "import sys; sys.stderr.write('first\\n' + '\\x1b[31m\\u202e' + 'n' * 5000 + '\\n\\n'); sys.exit(3)"
    )
    capturer.submit("a-1", REGIME)
    reason = failure(capturer, "a-1")
    assert reason.startswith("\\x1b[31m\\u202ennn")
    assert len(reason) < 400
    assert reason.isprintable()


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("pass", "without trace.jsonl and knobs.json"),
        ("open('trace.jsonl', 'w').write('{}')", "without trace.jsonl and knobs.json"),
        ("open('trace.jsonl.partial', 'w'); open('knobs.json', 'w').write('{\"v\":1}')", "without trace.jsonl"),
        ("import os; os.mkfifo('trace.jsonl'); os.mkfifo('knobs.json')", "without trace.jsonl"),
        (GOOD + "open('knobs.json', 'w').write('{\"v\":1,\"knobs\":{\"MOCK')", "knobs.json: not JSON"),
        (GOOD + "open('knobs.json', 'w').write('{\"v\":1,\"knobs\":{\"MOCK_A\":1.5}}')", "decimal string"),
        (GOOD + "sys.exit(1)", "ended with status 1"),
        (GOOD + "import os; os.kill(os.getpid(), 9)", "ended by signal 9"),
    ],
)
def test_half_a_result_is_none(make: Callable[..., LocalCapturer], program: str, reason: str) -> None:
    """Exit 0, a whole trace and whole knobs, or it failed. The accepting twin is the first test."""
    capturer = make(program)
    capturer.submit("a-1", REGIME)
    assert reason in failure(capturer, "a-1")


def test_an_unknown_job_failed_and_its_cancelling_is_no_error(make: Callable[..., LocalCapturer]) -> None:
    """A broker that lost its disk must not wait for ever."""
    capturer = make(GOOD)
    capturer.cancel("never")
    with pytest.raises(CaptureFailed, match="nobody here knows"):
        capturer.poll("never")


def test_a_killed_broker_loses_nothing(make: Callable[..., LocalCapturer], tmp_path: Path) -> None:
    """kill -9 of the broker: the job goes on and a new broker picks its result up."""
    program = awaiting(tmp_path / "go") + GOOD
    broker = (
        "import sys, time, pathlib\n"
        "from gitops_bot.capture.local import LocalCapturer\n"
        "from gitops_bot.core.captures import Regime\n"
        "from gitops_bot.process import Limits\n"
        f"capturer = LocalCapturer(pathlib.Path({str(tmp_path / 'jobs')!r}), [sys.executable, '-c', {program!r}], "
        "Limits(), 120)\n"
        f"capturer.submit('a-1', Regime(*{(REGIME.model, 2, 1, 4, 0, REGIME.long_frac)!r}))\n"
        "print('submitted', flush=True); time.sleep(60)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", broker], stdout=subprocess.PIPE)
    assert child.stdout is not None
    with child.stdout:
        assert child.stdout.readline() == b"submitted\n"
        child.kill()
        child.wait()
    capturer = make(program)
    assert capturer.poll("a-1") is None
    (tmp_path / "go").touch()
    capturer.submit("a-1", REGIME)
    assert result(capturer, "a-1").knobs


@pytest.mark.parametrize("with_program", [False, True])
def test_a_killed_keeper_is_a_failure_without_survivors(
    make: Callable[..., LocalCapturer], tmp_path: Path, with_program: bool
) -> None:
    """kill -9 of the job's keeper: the capture failed, and what it ran is ended."""
    capturer = make(f"import os; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\n" + SLOW)
    capturer.submit("a-1", REGIME)
    until((tmp_path / "jobs/a-1/out/up").exists)
    program = int((tmp_path / "pid").read_text())
    os.kill(keeper_of(tmp_path / "jobs", "a-1"), signal.SIGKILL)
    if with_program:
        os.kill(program, signal.SIGKILL)
    assert "killed before it ended" in failure(capturer, "a-1")
    until(lambda: not alive(program))


def test_cancel_ends_grandchildren_and_for_good(make: Callable[..., LocalCapturer], tmp_path: Path) -> None:
    """Children in the group, in a session of their own, and without the environment; no later submit starts it."""
    pids = tmp_path / "pids"
    program = (
        "import os, pathlib, subprocess, sys, time\n"
        "sleep = [sys.executable, '-c', 'import time; time.sleep(60)']\n"
        "made = [subprocess.Popen(sleep), subprocess.Popen(sleep, start_new_session=True), "
        "subprocess.Popen(sleep, env={})]\n"
        f"pathlib.Path({str(pids)!r}).write_text(' '.join(str(child.pid) for child in made))\n"
        "pathlib.Path('up').touch(); time.sleep(60)\n"
    )
    capturer = make(program)
    capturer.submit("a-1", REGIME)
    until((tmp_path / "jobs/a-1/out/up").exists)
    made = [int(pid) for pid in pids.read_text().split()]
    assert all(alive(pid) for pid in made)
    capturer.cancel("a-1")
    assert not any(alive(pid) for pid in (*made, keeper_of(tmp_path / "jobs", "a-1")))
    (tmp_path / "jobs/a-1/out/up").unlink()
    capturer.submit("a-1", REGIME)
    make(program).submit("a-1", REGIME)
    assert failure(capturer, "a-1") == "cancelled"
    assert not (tmp_path / "jobs/a-1/out/up").exists()
    capturer.cancel("a-1")


def test_cancel_of_another_job_leaves_this_one(make: Callable[..., LocalCapturer], tmp_path: Path) -> None:
    """The accepting twin of cancelling: a neighbour goes on to its result."""
    capturer = make(awaiting(tmp_path / "go") + GOOD)
    capturer.submit("a-1", REGIME)
    capturer.submit("a-2", REGIME)
    keeper_of(tmp_path / "jobs", "a-1")
    capturer.cancel("a-1")
    (tmp_path / "go").touch()
    assert result(capturer, "a-2")
    assert failure(capturer, "a-1") == "cancelled"


def test_a_reused_pid_is_never_hit(make: Callable[..., LocalCapturer], tmp_path: Path) -> None:
    """After the keeper died its pid may be anybody's; neither polling nor cancelling touches that process."""
    capturer = make(SLOW)
    capturer.submit("a-1", REGIME)
    until((tmp_path / "jobs/a-1/out/up").exists)
    os.kill(keeper_of(tmp_path / "jobs", "a-1"), signal.SIGKILL)
    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
    try:
        (tmp_path / "jobs/a-1/began.json").write_text(json.dumps({"v": 1, "pid": stranger.pid}))
        assert "killed" in failure(capturer, "a-1")
        capturer.cancel("a-1")
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_a_job_that_takes_too_long_is_ended(make: Callable[..., LocalCapturer]) -> None:
    """The keeper bounds the time, broker or not."""
    capturer = make(SLOW, timeout=0.5)
    capturer.submit("a-1", REGIME)
    assert "longer than 0.5 s" in failure(capturer, "a-1")


def test_what_a_program_leaves_behind_is_ended(make: Callable[..., LocalCapturer], tmp_path: Path) -> None:
    """A capture that ended well has no process left, not even one in a session of its own."""
    pid = tmp_path / "pid"
    program = (
        "import subprocess as s\n"
        f"open({str(pid)!r}, 'w').write(str(s.Popen(['sleep', '60'], start_new_session=True).pid))\n"
    )
    capturer = make(program + GOOD)
    capturer.submit("a-1", REGIME)
    assert result(capturer, "a-1")
    assert not alive(int(pid.read_text()))


def test_limits_hold_for_the_program(make: Callable[..., LocalCapturer]) -> None:
    """A flood of output ends the program, not the host; the twin below stays within the limit."""
    flood = make("import sys\nwhile True: sys.stdout.write('x' * 65536)", limits=Limits(file_bytes=1_000_000))
    flood.submit("flood", REGIME)
    assert failure(flood, "flood")
    assert (flood._root / "flood/stdout").stat().st_size <= 1_000_000
    small = make("print('x')\n" + GOOD, limits=Limits(file_bytes=1_000_000))
    small.submit("small", REGIME)
    assert result(small, "small")


def test_the_environment_is_built_from_scratch(
    make: Callable[..., LocalCapturer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No secret of the broker's environment reaches a capture program."""
    monkeypatch.setenv("GITOPS_BOT_TOKEN", "secret")
    capturer = make(GOOD + f"import os; open({str(tmp_path / 'env')!r}, 'w').write(' '.join(sorted(os.environ)))")
    capturer.submit("a-1", REGIME)
    assert result(capturer, "a-1")
    assert (tmp_path / "env").read_text().split() == ["GITOPS_BOT_CAPTURE_JOB", "LANG", "LC_ALL", "PATH"]


def test_a_program_that_cannot_start_is_a_failure(tmp_path: Path) -> None:
    """A wrong command in the configuration fails the capture with its name; it does not stop the broker."""
    capturer = LocalCapturer(tmp_path, ["/nonexistent/program"], Limits(), 5)
    capturer.submit("a-1", REGIME)
    assert "/nonexistent/program" in failure(capturer, "a-1")


def test_a_start_that_a_crash_interrupted_is_started_by_the_next_submit(
    make: Callable[..., LocalCapturer], tmp_path: Path
) -> None:
    """Between writing the job and starting it there may be a crash; the job then did not start, and still can."""
    capturer = make(GOOD)
    folder = tmp_path / "jobs/a-1"
    folder.mkdir(parents=True)
    (folder / "lock").touch()
    (folder / "job.json").write_text(json.dumps({"v": 1, "token": "0" * 32, "program": ["x"], "timeout": 1}))
    with pytest.raises(CaptureFailed, match="did not start"):
        capturer.poll("a-1")
    capturer.submit("a-1", REGIME)
    assert result(capturer, "a-1")


def test_damaged_records_cost_one_failure(make: Callable[..., LocalCapturer], tmp_path: Path) -> None:
    """Whatever the files hold, polling says failed and cancelling says unavailable (I20)."""
    capturer = make(GOOD)
    capturer.submit("a-1", REGIME)
    assert result(capturer, "a-1")
    (tmp_path / "jobs/a-1/end.json").write_text("[" * 4000)
    with pytest.raises(CaptureFailed, match="nested deeper"):
        capturer.poll("a-1")
    (tmp_path / "jobs/a-1/job.json").write_text("{}")
    with pytest.raises(Unavailable, match="damaged"):
        capturer.cancel("a-1")
