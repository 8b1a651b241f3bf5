"""The program of an executor, pinned: what is executed is a sealed copy in memory whose digest was compared after it
was sealed, so that nothing can come between check and start, whoever may write the file on disk.

The pin covers one file. What that file loads, an interpreter, libraries, modules, is the host's: of these only the
interpreter of a script is looked at, and must be a file that nobody but root or this user can put something else in
the place of. What the program does is not looked at.
"""

import fcntl
import hashlib
import os
import stat
from pathlib import Path, PurePosixPath
from typing import Final

from gitops_bot.core.errors import ConfigError, Reason, Refused, refuse
from gitops_bot.core.executions import NothingDone

MAX_PROGRAM: Final = 256 * 1024 * 1024
"""Bytes of a program's file; it is copied to memory for each call."""
_PIECE: Final = 1024 * 1024
_FIRST_LINE: Final = 256  # bytes of a script's first line that the kernel reads (BINPRM_BUF_SIZE)
_ELF: Final = b"\x7fELF"
_MOST_LINKS: Final = 40
_MFD_EXEC: Final = 0x10  # linux/memfd.h, from 6.3; Python 3.11 has no name for it
_SEALS: Final = ("F_SEAL_SEAL", "F_SEAL_SHRINK", "F_SEAL_GROW", "F_SEAL_WRITE")


def require_support() -> None:
    """Look whether this host can seal a copy.

    Raises:
        ConfigError: it cannot.
    """
    if not hasattr(os, "memfd_create") or not all(hasattr(fcntl, name) for name in _SEALS):
        raise ConfigError("program executors need Linux", fix="use an http executor, or run the broker on Linux")


def open_pinned(path: str, sha256: str) -> int | Refused:
    """Give an open, sealed copy of the program; the caller closes it. `bytes_differ` when its digest is another one,
    or when it is a script whose interpreter others could replace.

    Raises:
        NothingDone: there is no such file, it cannot be read, or this host cannot keep a copy.
    """
    # 1. Open what is there now. A FIFO must not make us wait, nor a terminal become ours.
    try:
        source = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        raise NothingDone(f"cannot read the program {path}: {error.strerror}") from error
    try:
        about = os.fstat(source)
        if not stat.S_ISREG(about.st_mode) or about.st_size > MAX_PROGRAM:
            return refuse(Reason.BYTES_DIFFER, f"{path} is no file that can be pinned.", program=path)
        # 2. and 3. Copy and seal. From here on nobody can change what we hold.
        copy = _sealed(source, path)
    finally:
        os.close(source)
    # 4. Hash what is sealed. 5. Look at what would run it.
    fault = _fault(copy, path, sha256)
    if fault is not None:
        os.close(copy)
        return fault
    return copy


def sealed_bytes(content: bytes) -> int:
    """Give an open file in memory with some content, read from its beginning; nobody can change it.

    Raises:
        OSError: no memory, or no descriptor left.
    """
    file = os.memfd_create("body", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        _write(file, content)
        _seal(file)
        os.lseek(file, 0, os.SEEK_SET)
    except OSError:
        os.close(file)
        raise
    return file


def _sealed(source: int, path: str) -> int:
    try:
        copy = _executable_memory()
    except OSError as error:
        raise NothingDone(f"cannot keep a copy of {path}: {error.strerror}") from error
    try:
        left = MAX_PROGRAM + 1
        while left > 0 and (piece := os.read(source, min(_PIECE, left))):
            left -= len(piece)
            _write(copy, piece)
        _seal(copy)
    except OSError as error:
        os.close(copy)
        raise NothingDone(f"cannot copy {path}: {error.strerror}") from error
    return copy


def _executable_memory() -> int:
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    try:
        return os.memfd_create("program", flags | _MFD_EXEC)
    except OSError:
        # An older kernel does not know the flag, and does not need it.
        return os.memfd_create("program", flags)


def _write(file: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(file, rest) :]


def _seal(file: int) -> None:
    fcntl.fcntl(
        file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
    )


def _fault(copy: int, path: str, sha256: str) -> Refused | None:
    hashed, at = hashlib.sha256(), 0
    while piece := os.pread(copy, _PIECE, at):
        hashed.update(piece)
        at += len(piece)
    if hashed.hexdigest() != sha256:
        return refuse(
            Reason.BYTES_DIFFER,
            f"{path} is not the program that the policy pins.",
            program=path,
            found=hashed.hexdigest(),
        )
    head = os.pread(copy, _FIRST_LINE, 0)
    why = None if head.startswith(_ELF) else interpreter_fault(head)
    return None if why is None else refuse(Reason.BYTES_DIFFER, f"{path}: {why}.", program=path)


def interpreter_fault(head: bytes) -> str | None:
    """Say what is wrong with what would run a script, by its first 256 bytes as the kernel reads them, if anything."""
    if not head.startswith(b"#!"):
        return "neither a program of this system nor a script"
    line, ended, _ = head[2:].partition(b"\n")
    words = line.replace(b"\t", b" ").split()
    if not ended or not words or b"\x00" in line or not words[0].startswith(b"/"):
        return "its first line names no interpreter by an absolute path within 256 bytes"
    name = os.fsdecode(words[0])
    if PurePosixPath(name).name == "env":
        return "env would look for its interpreter; name the interpreter by its path"
    try:
        if not only_we_replace(name):
            return f"others than root could replace its interpreter {name!r}"
        file = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        return f"its interpreter {name!r} cannot be read ({error.strerror})"
    try:
        return None if os.read(file, len(_ELF)) == _ELF else f"its interpreter {name!r} is a script itself"
    finally:
        os.close(file)


def only_we_replace(path: str) -> bool:
    """Tell whether nobody but root and this user could put something else in the place of an absolute path: every
    folder and link on the way, links followed, and the file itself, is theirs and closed to others.

    Raises:
        OSError: something on the way is not there.
    """
    here, todo, links = PurePosixPath("/"), list(reversed(PurePosixPath(path).parts[1:])), 0
    if not _ours(os.lstat(here)):
        return False
    while todo:
        part = todo.pop()
        if part == "..":
            here = here.parent
            continue
        about = os.lstat(here / part)
        if not _ours(about):
            return False
        if not stat.S_ISLNK(about.st_mode):
            here = here / part
            continue
        links += 1
        if links > _MOST_LINKS:
            return False
        target = Path(here / part).readlink()
        if target.is_absolute():
            here = PurePosixPath("/")
        todo += reversed([word for word in target.parts if word != "/"])
    return True


def _ours(about: os.stat_result) -> bool:
    closed = stat.S_ISLNK(about.st_mode) or not about.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return closed and about.st_uid in (0, os.geteuid())
