"""The one guarded way to run a program: argv without a shell, an environment built from scratch, its own process group,
a time-out, capped output. Nothing of the parent's environment is inherited except what the caller names.
"""

import contextlib
import ctypes
import fcntl
import os
import resource
import select
import shutil
import signal
import subprocess
import tempfile
import termios
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from gitops_bot.core.errors import Unavailable

SYSTEM_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
OUTPUT_CAP: Final = 8 * 1024 * 1024
PIPE: Final = subprocess.PIPE
_ELF: Final = b"\x7fELF"
_SET_PARENT_DEATH_SIGNAL: Final = 1
"""PR_SET_PDEATHSIG of prctl(2); kept by execve(2)."""
_ULIMITS: Final = {resource.RLIMIT_CPU: ("t", 1), resource.RLIMIT_AS: ("v", 1024), resource.RLIMIT_FSIZE: ("f", 512)}
"""By limit: the letter of the shell's `ulimit`, and the bytes or seconds of its unit."""
Child = subprocess.Popen[bytes]
"""A started program."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a program may use: seconds of CPU, bytes of address space, bytes of one written file; None = no limit."""

    cpu_seconds: int | None = None
    memory_bytes: int | None = None
    file_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Completed:
    """A program that ended by itself: its exit status (negative = signal) and output, each cut at the cap."""

    returncode: int
    stdout: bytes
    stderr: bytes


def clean_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Build an environment from scratch: a system path, the C.UTF-8 locale, and what the caller adds."""
    return {"PATH": SYSTEM_PATH, "LC_ALL": "C.UTF-8", "LANG": "C.UTF-8", **(extra or {})}


def _within(value: int, hard: int) -> int:
    return value if hard == resource.RLIM_INFINITY else min(value, hard)


def _bounds(limits: Limits) -> list[tuple[int, int]]:
    pairs = (
        (resource.RLIMIT_CPU, limits.cpu_seconds),
        (resource.RLIMIT_AS, limits.memory_bytes),
        (resource.RLIMIT_FSIZE, limits.file_bytes),
    )
    # Who is not root cannot go above the hard limits that stand already.
    return [(kind, _within(value, resource.getrlimit(kind)[1])) for kind, value in pairs if value is not None]


def _preparation(bounds: Sequence[tuple[int, int]]) -> Callable[[], None]:
    def prepare() -> None:
        for kind, value in bounds:
            resource.setrlimit(kind, (value, value))

    return prepare


def _launcher(bounds: Sequence[tuple[int, int]]) -> list[str]:
    """Give the words before a program that bound it and are then replaced by it; a shell that reads nothing but this
    line of ours. The limits are rounded down to the shell's units."""
    steps = [f"ulimit -{_ULIMITS[kind][0]} {value // _ULIMITS[kind][1]}" for kind, value in bounds]
    return ["/bin/sh", "-c", " && ".join([*steps, "unset PWD", 'exec "$@"']), "sh"]


def _is_binary(name: str, path: str, cwd: Path) -> bool:
    """Tell whether a program is one that starts or fails as a whole, where a shell would start it no otherwise."""
    found = shutil.which(name, path=path) if "/" not in name else str(cwd / name)
    if found is None or not os.access(found, os.X_OK):
        return False
    try:
        with Path(found).open("rb") as file:
            return file.read(4) == _ELF
    except OSError:
        return False


def start(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    stdin: int | IO[bytes] | None = subprocess.DEVNULL,
    stdout: int | IO[bytes] | None = subprocess.DEVNULL,
    stderr: int | IO[bytes] | None = subprocess.DEVNULL,
    limits: Limits = Limits(),  # frozen value
    program: int | None = None,
) -> Child:
    """Start a program in a group of its own; the caller waits for it and ends it with `end_group`. With `program`, an
    open file, that very file is executed and `argv[0]` is only its name (Linux).

    Raises:
        Unavailable: the program cannot be started.
    """
    environment, bounds = clean_environment(env), _bounds(limits)
    # With a function to be called in the child, all of this process would be copied for it: 20 ms instead of 2 in a
    # broker of 200 MB. A script, or a file that is open, is started that way all the same.
    launched = bool(bounds) and program is None and _is_binary(argv[0], environment["PATH"], cwd)
    try:
        return subprocess.Popen(
            [*_launcher(bounds), *argv] if launched else list(argv),
            cwd=cwd,
            env=environment,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
            close_fds=True,
            # A script's interpreter opens the path again, so the descriptor stays open in the program.
            executable=None if program is None else f"/proc/self/fd/{program}",
            pass_fds=() if program is None else (program,),
            # Only setrlimit, which is async-signal-safe.
            preexec_fn=_preparation(bounds) if bounds and not launched else None,  # noqa: PLW1509 # see above
        )
    except OSError as error:
        raise Unavailable(f"cannot start {argv[0]}: {error.strerror}") from error


def run(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    timeout: float,
    limits: Limits = Limits(),  # frozen value
) -> Completed:
    """Run a program to its end, its output through files so that a flood costs disk up to a cap and no memory.

    Raises:
        Unavailable: it cannot be started or outlasts `timeout` seconds (its whole group is killed).
    """
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write(stdin)
        given.seek(0)
        child = start(argv, cwd=cwd, env=env, stdin=given, stdout=out, stderr=err, limits=limits)
        try:
            returncode = _wait(child, timeout)
        except subprocess.TimeoutExpired:
            raise Unavailable(f"{argv[0]} took longer than {timeout:g} s") from None
        finally:
            end_group(child, grace=0)
        out.seek(0)
        err.seek(0)
        return Completed(returncode, out.read(OUTPUT_CAP), err.read(OUTPUT_CAP))


def run_attended(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    timeout: float,
) -> Completed:
    """Run a program that may ask the person at the terminal (a PIN, a passphrase): it stays in our own session and
    group, so that an interrupt reaches both and only the program itself, not what it started, can be ended.

    Raises:
        Unavailable: it cannot be started or outlasts `timeout` seconds (it is killed).
    """
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write(stdin)
        given.seek(0)
        try:
            child = subprocess.Popen(
                list(argv), cwd=cwd, env=clean_environment(env), stdin=given, stdout=out, stderr=err, close_fds=True
            )
        except OSError as error:
            raise Unavailable(f"cannot start {argv[0]}: {error.strerror}") from error
        try:
            returncode = _wait(child, timeout)
        except subprocess.TimeoutExpired:
            raise Unavailable(f"{argv[0]} took longer than {timeout:g} s") from None
        finally:
            if child.poll() is None:
                child.kill()
            child.wait()
        out.seek(0)
        err.seek(0)
        return Completed(returncode, out.read(OUTPUT_CAP), err.read(OUTPUT_CAP))


def start_at_terminal(argv: Sequence[str], *, cwd: Path, env: Mapping[str, str] | None = None) -> tuple[Child, int]:
    """Start a program at a terminal of its own, which it finds as `/dev/tty`; gives it with our side of the terminal.
    The caller reads and writes there, closes it, and ends the program with `end_group`.

    Raises:
        Unavailable: the program cannot be started, or there is no terminal left.
    """
    try:
        ours, theirs = os.openpty()
    except OSError as error:
        raise Unavailable(f"no terminal for {argv[0]}: {error.strerror}") from error
    try:
        child = subprocess.Popen(
            list(argv),
            cwd=cwd,
            env=clean_environment(env),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            close_fds=True,
            preexec_fn=_take_terminal,  # noqa: PLW1509 # one system call between fork and exec, in a process of one thread
        )
    except OSError as error:
        os.close(ours)
        raise Unavailable(f"cannot start {argv[0]}: {error.strerror}") from error
    finally:
        os.close(theirs)
    return child, ours


def _take_terminal() -> None:
    """Make standard input the terminal of this new session."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def start_bound(argv: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> Child:
    """Start a service of ours in a group of its own, its output in one pipe for the caller to read. Where the system
    can (Linux), it is told SIGTERM when this process ends in whatever way, or the thread that calls this.

    Raises:
        Unavailable: the program cannot be started.
    """
    libc, parent = ctypes.CDLL(None), os.getpid()

    def follow() -> None:
        if hasattr(libc, "prctl"):
            libc.prctl(_SET_PARENT_DEATH_SIGNAL, int(signal.SIGTERM), 0, 0, 0)
            if os.getppid() != parent:
                # It ended before it could be followed.
                os._exit(1)

    try:
        return subprocess.Popen(
            list(argv),
            cwd=cwd,
            env=clean_environment(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            close_fds=True,
            preexec_fn=follow,  # noqa: PLW1509 # two system calls between fork and exec, in a process of one thread
        )
    except OSError as error:
        raise Unavailable(f"cannot start {argv[0]}: {error.strerror}") from error


def end_group(child: Child, *, grace: float = 3.0) -> None:
    """End a started program and everything in its group: SIGTERM, `grace` seconds, SIGKILL. Reaps it."""
    if grace > 0 and child.poll() is None:
        _signal_group(child.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            _wait(child, grace)
    _signal_group(child.pid, signal.SIGKILL)
    child.wait()


def _wait(child: Child, seconds: float) -> int:
    """Wait for a program's end and give its exit status, at the moment when it ends.

    `Popen.wait` with a time-out looks at intervals that double up to 50 ms, so that a program of 8 ms seems to take 16.

    Raises:
        TimeoutExpired: it did not end in time.
    """
    try:
        descriptor = os.pidfd_open(child.pid)
    except (AttributeError, OSError):
        # Not Linux, an old one, or the program was reaped already.
        return child.wait(seconds)
    try:
        watched = select.poll()
        watched.register(descriptor, select.POLLIN)
        if not watched.poll(seconds * 1_000):
            raise subprocess.TimeoutExpired(child.args, seconds)
    finally:
        os.close(descriptor)
    return child.wait()


def _signal_group(group: int, number: int) -> None:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        # Gone already; macOS answers EPERM for a group of zombies.
        return
