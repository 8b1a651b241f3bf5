"""A file that an agent left is taken once, whatever it is."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gitops_bot.loop.grammar import MAX_MARKER, Escalation
from gitops_bot.loop.markers import Taken, peek, take, write_escalation


def test_a_plain_file_is_read_and_gone(tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(b"x")
    assert take(tmp_path, "m") == Taken(b"x")
    assert take(tmp_path, "m") == Taken()


def test_the_largest_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(b"x" * MAX_MARKER)
    assert take(tmp_path, "m").raw == b"x" * MAX_MARKER


def gigabyte(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 30)


def folder(path: Path) -> None:
    (path / "deep").mkdir(parents=True)
    (path / "deep" / "file").write_text("x")


HOSTILE: dict[str, Callable[[Path], None]] = {
    "one byte too many": lambda path: path.write_bytes(b"x" * (MAX_MARKER + 1)) and None,
    "a gigabyte": gigabyte,
    "a link": lambda path: path.symlink_to(path.parent / "secret"),
    "a dangling link": lambda path: path.symlink_to("/nowhere/at/all"),
    "a pipe": os.mkfifo,
    "a folder": folder,
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_anything_else_costs_a_note_and_is_gone(tmp_path: Path, kind: str) -> None:
    (tmp_path / "secret").write_text("s")
    HOSTILE[kind](tmp_path / "m")
    taken = take(tmp_path, "m")
    assert taken.raw is None
    assert taken.note is not None
    assert not os.path.lexists(tmp_path / "m")
    assert (tmp_path / "secret").read_text() == "s"


def test_peeking_leaves_the_file(tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(b"x")
    assert peek(tmp_path, "m") == b"x"
    assert (tmp_path / "m").exists()
    assert peek(tmp_path, "n") is None


def test_an_escalation_replaces_a_link_and_does_not_follow_it(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s")
    (tmp_path / "ESCALATION.json").symlink_to(tmp_path / "secret")
    write_escalation(tmp_path, Escalation("c", "r"))
    assert (tmp_path / "secret").read_text() == "s"
    assert '"reason": "r"' in (tmp_path / "ESCALATION.json").read_text()
