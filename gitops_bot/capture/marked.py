"""Every process that carries a job's token in its environment is ended, and everything in those processes' sessions.

A token is random and made for one job, so that no reused pid can be hit: a process is opened (pidfd) before its
environment is read, and the signal goes to what was opened. Linux only (`/proc`, pidfd). Not reached: a process with
another environment *and* a session of its own.
"""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Final

VARIABLE: Final = "GITOPS_BOT_CAPTURE_JOB"
_MAX_ENVIRONMENT: Final = 1024 * 1024
_PROC: Final = Path("/proc")


def supported() -> bool:
    """Say whether this host has what ending marked processes takes."""
    return hasattr(os, "pidfd_open") and (_PROC / "self" / "environ").exists()


def end_marked(token: str) -> int:
    """Kill what carries a token once; give how many processes were signalled.

    One pass: a process may fork while it runs, so a caller repeats until a pass finds nothing.
    """
    word = f"{VARIABLE}={token}".encode("ascii")
    sessions = {session for pid in _own() if _carries(pid, word) and (session := _session(pid))}
    sessions.discard(os.getsid(0))
    return sum(_end(pid, word, sessions) for pid in _own())


def _own() -> Iterator[int]:
    me, mine = os.getpid(), os.geteuid()
    for entry in os.scandir(_PROC):
        if not entry.name.isdigit() or int(entry.name) == me:
            continue
        try:
            owner = entry.stat().st_uid
        except FileNotFoundError:
            continue
        if owner == mine:
            yield int(entry.name)


def _end(pid: int, word: bytes, sessions: set[int]) -> bool:
    try:
        opened = os.pidfd_open(pid)
    except (ProcessLookupError, PermissionError):
        return False
    try:
        if not _alive(pid) or not (_carries(pid, word) or _session(pid) in sessions):
            return False
        signal.pidfd_send_signal(opened, signal.SIGKILL)
    except ProcessLookupError:
        return False
    finally:
        os.close(opened)
    return True


def _carries(pid: int, word: bytes) -> bool:
    try:
        with (_PROC / str(pid) / "environ").open("rb") as file:
            return word in file.read(_MAX_ENVIRONMENT).split(b"\x00")
    except (FileNotFoundError, PermissionError, ProcessLookupError):
        return False


def _fields(pid: int) -> list[bytes]:
    """Give `/proc/PID/stat` after the command: state, parent, group, session (proc(5))."""
    try:
        return (_PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
    except (FileNotFoundError, PermissionError, ProcessLookupError):
        return []


def _session(pid: int) -> int | None:
    fields = _fields(pid)
    return int(fields[3]) if fields else None


def _alive(pid: int) -> bool:
    fields = _fields(pid)
    return bool(fields) and fields[0] not in (b"Z", b"X")
