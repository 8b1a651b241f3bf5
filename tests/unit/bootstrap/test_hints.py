"""A nudge wakes whoever waits, costs nothing when nobody does, and its loss is a second at most."""

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from gitops_bot.bootstrap.hints import DatagramHint
from gitops_bot.core.errors import ConfigError


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder whose path is short enough for a socket."""
    with TemporaryDirectory(prefix="gb-") as made:
        yield Path(made) / "hints"


def slept(hint: DatagramHint, seconds: float) -> float:
    began = time.monotonic()
    hint.wait(seconds)
    return time.monotonic() - began


def test_a_nudge_wakes_every_process_that_waits(folder: Path) -> None:
    with DatagramHint(folder) as one, DatagramHint(folder) as two:
        later = threading.Timer(0.05, DatagramHint(folder, listen=False).notify)
        later.start()
        assert slept(one, 60) < 50
        assert slept(two, 60) < 50
        later.join()


def test_a_nudge_before_the_wait_is_kept_and_many_are_one(folder: Path) -> None:
    with DatagramHint(folder) as hint:
        for _ in range(1000):
            hint.notify()
        assert slept(hint, 60) < 50
        assert slept(hint, 0.05) >= 0.04, "nothing is left to wake for"


def test_without_a_nudge_the_time_ends_the_wait(folder: Path) -> None:
    with DatagramHint(folder) as hint:
        assert slept(hint, 0.05) >= 0.04
    assert slept(DatagramHint(folder, listen=False), 0.05) >= 0.04


def test_the_socket_of_a_dead_process_is_removed_and_others_are_woken(folder: Path) -> None:
    with DatagramHint(folder) as alive:
        dead = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        dead.bind(str(folder / "1-dead.sock"))
        dead.close()
        alive.notify()
        assert slept(alive, 60) < 50
        assert len(list(folder.iterdir())) == 1
    assert list(folder.iterdir()) == []


def test_notifying_nobody_is_no_failure(folder: Path) -> None:
    hint = DatagramHint(folder, listen=False)
    hint.notify()
    folder.rmdir()
    hint.notify()


def test_the_folder_is_this_users_alone(folder: Path) -> None:
    with DatagramHint(folder):
        assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o770)
    with pytest.raises(ConfigError, match="chmod 700"):
        DatagramHint(folder)


def test_a_path_that_no_socket_can_have_is_named(folder: Path) -> None:
    long = folder.parent / ("x" * 120)
    with pytest.raises(ConfigError, match="shorter"):
        DatagramHint(long)
    DatagramHint(long, listen=False).notify()


def test_a_full_socket_does_not_hold_the_committer(folder: Path) -> None:
    """Nobody reads: the sender drops what does not fit and goes on."""
    with DatagramHint(folder) as hint:
        began = time.monotonic()
        for _ in range(5000):
            hint.notify()
        assert time.monotonic() - began < 60
        assert len(list(folder.iterdir())) == 1
