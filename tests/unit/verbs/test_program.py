"""What is executed is what was hashed: a sealed copy, and for a script an interpreter that only root could replace."""

import errno
import fcntl
import hashlib
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gitops_bot.core.errors import Reason, Refused
from gitops_bot.core.executions import NothingDone
from gitops_bot.verbs import program
from gitops_bot.verbs.program import interpreter_fault, only_we_replace, open_pinned, sealed_bytes

SCRIPT = b"#!/bin/sh\nexit 0\n"


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def pay(tmp_path: Path) -> Path:
    path = tmp_path / "pay"
    path.write_bytes(SCRIPT)
    return path


@contextmanager
def opened(path: Path | str, sha256: str) -> Iterator[int]:
    file = open_pinned(str(path), sha256)
    assert isinstance(file, int)
    try:
        yield file
    finally:
        os.close(file)


def refused(path: Path | str, sha256: str) -> Refused:
    found = open_pinned(str(path), sha256)
    assert isinstance(found, Refused)
    assert found.reason is Reason.BYTES_DIFFER
    return found


def test_the_pinned_program_is_opened(pay: Path) -> None:
    with opened(pay, digest(SCRIPT)) as file:
        assert os.pread(file, 100, 0) == SCRIPT


def test_a_compiled_program_is_opened() -> None:
    content = Path("/bin/true").read_bytes()
    with opened("/bin/true", digest(content)) as file:
        assert os.pread(file, len(content) + 1, 0) == content


def test_a_replaced_program_differs(pay: Path) -> None:
    pay.write_bytes(SCRIPT.replace(b"0", b"1"))
    assert refused(pay, digest(SCRIPT)).facts["found"] == digest(SCRIPT.replace(b"0", b"1"))


def test_a_link_put_in_its_place_differs_unless_it_leads_to_the_same_bytes(pay: Path, tmp_path: Path) -> None:
    """The pin is of bytes; where they lie says nothing."""
    other = tmp_path / "other"
    other.write_bytes(SCRIPT + b"# other\n")
    pay.unlink()
    pay.symlink_to(other)
    refused(pay, digest(SCRIPT))
    other.write_bytes(SCRIPT)
    with opened(pay, digest(SCRIPT)):
        pass


def test_what_was_opened_can_no_longer_change(pay: Path) -> None:
    """A writer of the file on disk, or of our copy by its path in /proc, comes too late."""
    with opened(pay, digest(SCRIPT)) as file:
        with pay.open("r+b") as disk:
            disk.write(b"#!/bin/ls")
        assert os.pread(file, 100, 0) == SCRIPT
        again = os.open(f"/proc/self/fd/{file}", os.O_RDWR)
        try:
            with pytest.raises(PermissionError):
                os.pwrite(again, b"#!/bin/ls", 0)
            with pytest.raises(PermissionError):
                os.ftruncate(again, 0)
            with pytest.raises(PermissionError):
                fcntl.fcntl(again, fcntl.F_ADD_SEALS, 0)
        finally:
            os.close(again)


def test_a_file_that_changes_while_it_is_copied_is_judged_by_the_copy(
    pay: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The digest is of what will be executed, never of what was read a moment before."""
    seal = program._seal

    def seal_late(file: int) -> None:
        if os.pread(file, 2, 0) == b"#!":
            os.pwrite(file, b"#!/bin/ls", 0)
        seal(file)

    with opened(pay, digest(SCRIPT)):
        pass
    monkeypatch.setattr(program, "_seal", seal_late)
    refused(pay, digest(SCRIPT))


def test_a_missing_or_unreadable_program_is_nothing_done(tmp_path: Path) -> None:
    """It may be back in a moment: a deployment replaces a file."""
    with pytest.raises(NothingDone, match="No such file"):
        open_pinned(str(tmp_path / "gone"), digest(b""))
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(NothingDone, match="Too many levels"):
        open_pinned(str(tmp_path / "loop"), digest(b""))


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    """Opening a FIFO to read waits for a writer; /dev/zero never ends."""
    os.mkfifo(tmp_path / "fifo")
    refused(tmp_path / "fifo", digest(b""))
    refused(tmp_path, digest(b""))
    refused("/dev/zero", digest(b""))


def test_a_program_beyond_the_cap_is_not_copied(pay: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "MAX_PROGRAM", len(SCRIPT))
    with opened(pay, digest(SCRIPT)):
        pass
    pay.write_bytes(SCRIPT + b"\n")
    refused(pay, digest(SCRIPT + b"\n"))


def test_a_host_without_memory_for_a_copy_is_nothing_done(pay: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "memfd_create", none)
    with pytest.raises(NothingDone, match="Too many open files"):
        open_pinned(str(pay), digest(SCRIPT))


def test_no_descriptor_is_left_open(pay: Path, tmp_path: Path) -> None:
    def count() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before = count()
    refused(pay, digest(b""))
    refused(tmp_path, digest(b""))
    with opened(pay, digest(SCRIPT)):
        assert count() == before + 1
    os.close(sealed_bytes(b"x"))
    assert count() == before


@pytest.mark.parametrize("head", [b"#!/bin/sh\n", b"#! /bin/sh -eu\nx", b"#!\t/usr/bin/python3 -I \n"])
def test_a_script_names_its_interpreter(head: bytes) -> None:
    assert interpreter_fault(head) is None


@pytest.mark.parametrize(
    ("head", "said"),
    [
        (b"", "neither a program"),
        (b"MZ\x90", "neither a program"),
        (b"exit 0\n", "neither a program"),
        (b" #!/bin/sh\n", "neither a program"),
        (b"#!\n", "names no interpreter"),
        (b"#!sh\n", "names no interpreter"),
        (b"#!bin/sh\n", "names no interpreter"),
        (b"#!/bin/sh", "names no interpreter"),  # cut at 256 bytes: the kernel would read another name
        (b"#!/bin/sh\x00/evil\n", "names no interpreter"),
        (b"#!/usr/bin/env python3\n", "env would look"),
        (b"#!/nowhere/sh\n", "cannot be read"),
        (b"#!/bin/sh/x\n", "cannot be read"),
    ],
)
def test_what_would_run_something_else_is_refused(head: bytes, said: str) -> None:
    assert said in (interpreter_fault(head) or "")


@pytest.fixture
def closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the way to which nobody else can write, as that for temporary files is not."""
    ours = program._ours
    way = {(about.st_dev, about.st_ino) for about in map(os.lstat, [tmp_path, *tmp_path.parents])}
    monkeypatch.setattr(program, "_ours", lambda about: (about.st_dev, about.st_ino) in way or ours(about))
    return tmp_path


def test_an_interpreter_that_is_a_script_is_refused(closed: Path) -> None:
    """Its own interpreter would be one more thing that nobody pinned."""
    interpreter = closed / "sh"
    shutil.copy("/bin/sh", interpreter)
    interpreter.chmod(0o755)
    assert interpreter_fault(f"#!{interpreter}\n".encode()) is None
    interpreter.write_bytes(SCRIPT)
    assert "is a script itself" in (interpreter_fault(f"#!{interpreter}\n".encode()) or "")


def test_what_only_we_can_replace_is_told_by_the_whole_way(closed: Path) -> None:
    inner = closed / "a"
    inner.mkdir(mode=0o755)
    sh = inner / "sh"
    shutil.copy("/bin/sh", sh)
    for path in (sh, inner):
        for mode, holds in ((0o755, True), (0o775, False), (0o757, False), (0o1777, False), (0o755, True)):
            path.chmod(mode)
            assert only_we_replace(str(sh)) is holds, (path, oct(mode))


@pytest.mark.parametrize(("mode", "owner", "holds"), [
    (stat.S_IFREG | 0o755, 0, True), (stat.S_IFREG | 0o755, os.geteuid(), True), (stat.S_IFREG | 0o755, 4_242, False),
    (stat.S_IFDIR | 0o755, 4_242, False), (stat.S_IFLNK | 0o777, 4_242, False), (stat.S_IFLNK | 0o777, 0, True),
    (stat.S_IFDIR | 0o1777, 0, False), (stat.S_IFREG | 0o775, 0, False),
])  # fmt: skip
def test_only_root_and_this_user_are_we(mode: int, owner: int, holds: bool) -> None:
    assert program._ours(os.stat_result((mode, 1, 1, 1, owner, 0, 0, 0, 0, 0))) is holds


def test_links_are_followed_step_by_step(closed: Path) -> None:
    """A link through a folder of somebody else's is that somebody's to turn, though it ends at a file of root's."""
    good, bad, theirs = closed / "good", closed / "bad", closed / "theirs"
    good.symlink_to("/bin/sh")
    theirs.mkdir(mode=0o755)
    (theirs / "way").symlink_to("/bin")
    bad.symlink_to("theirs/../theirs/way/sh")
    assert only_we_replace(str(good))
    assert only_we_replace(str(bad))
    theirs.chmod(0o777)
    assert not only_we_replace(str(bad))
    assert only_we_replace(str(good))


def test_a_circle_of_links_ends(closed: Path) -> None:
    (closed / "one").symlink_to("two")
    (closed / "two").symlink_to("one")
    assert not only_we_replace(str(closed / "one"))


def test_a_body_is_read_from_its_beginning_and_stays_as_it_is() -> None:
    file = sealed_bytes(b"{}")
    try:
        assert os.read(file, 10) == b"{}"
        with pytest.raises(PermissionError):
            os.pwrite(file, b"x", 0)
    finally:
        os.close(file)
