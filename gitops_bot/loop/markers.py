"""A file that an agent left is taken at most once: read without following links, with a bounded size, and gone.

The agent owns the folder, so the name may be a link, a pipe, a device, a folder or a gigabyte; each costs one note.
What the bytes say is `loop/grammar`.
"""

import contextlib
import json
import os
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path

from gitops_bot.core.errors import Unavailable
from gitops_bot.loop.grammar import ESCALATION_FILE, MAX_MARKER, Escalation


@dataclass(frozen=True, slots=True)
class Taken:
    """What was under the name: its bytes, or a note why there are none; neither when there was nothing."""

    raw: bytes | None = None
    note: str | None = None


def take(workspace: Path, name: str) -> Taken:
    """Read and delete one file of the workspace."""
    folder = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        taken = _read(folder, name)
        if taken.raw is not None or taken.note is not None:
            gone = _delete(folder, name)
            if not gone:
                return Taken(None, f"{name} cannot be deleted, so it is not read")
        return taken
    finally:
        os.close(folder)


def peek(workspace: Path, name: str) -> bytes | None:
    """Read one plain file of the workspace and leave it; None when there is none or it is too large."""
    folder = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return _read(folder, name).raw
    finally:
        os.close(folder)


def write_escalation(workspace: Path, escalation: Escalation) -> None:
    """Write `ESCALATION.json` into the workspace, in place of whatever has that name.

    Raises:
        Unavailable: it cannot be written.
    """
    said = {"category": escalation.category, "reason": escalation.reason, "evidence": escalation.evidence}
    text = json.dumps(said, ensure_ascii=False, indent=1).encode("utf-8", "replace") + b"\n"
    folder = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _delete(folder, ESCALATION_FILE)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        file = os.open(ESCALATION_FILE, flags, 0o644, dir_fd=folder)
        try:
            os.write(file, text)
        finally:
            os.close(file)
    except OSError as error:
        raise Unavailable(f"{ESCALATION_FILE}: {error.strerror}") from error
    finally:
        os.close(folder)


def _read(folder: int, name: str) -> Taken:
    try:
        # O_NONBLOCK: opening a pipe would wait for its writer.
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return Taken()
    except OSError as error:
        return Taken(None, f"{name} is no readable plain file ({error.strerror}); it was deleted")
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            return Taken(None, f"{name} is no plain file; it was deleted")
        raw = _whole(file)
    except OSError as error:
        return Taken(None, f"{name} could not be read ({error.strerror}); it was deleted")
    finally:
        os.close(file)
    if len(raw) > MAX_MARKER:
        return Taken(None, f"{name} is larger than {MAX_MARKER} bytes; it was deleted")
    return Taken(raw)


def _whole(file: int) -> bytes:
    raw = b""
    while len(raw) <= MAX_MARKER and (piece := os.read(file, MAX_MARKER + 1 - len(raw))):
        raw += piece
    return raw


def _delete(folder: int, name: str) -> bool:
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return True
    except OSError:
        with contextlib.suppress(RecursionError):  # it recurses once a level; what is too deep stays
            shutil.rmtree(name, ignore_errors=True, dir_fd=folder)  # never follows a link
    try:
        os.lstat(name, dir_fd=folder)
    except FileNotFoundError:
        return True
    return False
