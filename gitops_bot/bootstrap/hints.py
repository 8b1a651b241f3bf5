"""Nudges between processes of one host: a datagram after a commit wakes whoever sleeps, and losing one costs a second.

Each process that waits binds a socket of its own in a folder of this user's alone; whoever commits sends one byte to
every socket there, never waiting for a reader. A socket whose process is gone is removed by whoever finds it.
"""

import contextlib
import os
import select
import socket
import time
from pathlib import Path
from typing import Final

from gitops_bot.core.errors import ConfigError

FOLDER: Final = "hints"
MOST_PATH: Final = 100
"""A socket's path has 107 bytes on Linux and 103 on macOS (unix(7))."""
_DRAIN: Final = 4096


class DatagramHint:
    """`ports.Hint` over Unix datagram sockets. One that does not listen only notifies; one thread waits."""

    def __init__(self, folder: Path, *, listen: bool = True) -> None:
        """Open the hints of a folder, which is made where it is missing.

        Raises:
            ConfigError: the folder is not this user's alone, or its path is too long for a socket.
        """
        self._folder = _private(folder)
        self._path: Path | None = None
        self._own: socket.socket | None = None
        if listen:
            self._path = folder / f"{os.getpid()}-{os.urandom(3).hex()}.sock"
            self._own = _bind(self._path)

    def __enter__(self) -> "DatagramHint":
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()

    def notify(self) -> None:
        """Wake every process that waits in the folder; what cannot be reached is passed over."""
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            for path in self._folder.glob("*.sock"):
                _send(sender, path)

    def wait(self, seconds: float) -> None:
        """Sleep until nudged, at most `seconds`."""
        if self._own is None:
            time.sleep(seconds)
            return
        readable, _, _ = select.select([self._own], [], [], seconds)
        if readable:
            with contextlib.suppress(BlockingIOError):
                for _ in range(_DRAIN):
                    self._own.recv(1)

    def close(self) -> None:
        """Stop waiting and take the socket away."""
        if self._own is not None and self._path is not None:
            self._own.close()
            self._path.unlink(missing_ok=True)


def _private(folder: Path) -> Path:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        about = folder.stat()
    except OSError as error:
        raise ConfigError(f"cannot make {folder}: {error.strerror}", fix="give this user the state folder") from error
    if about.st_mode & 0o077 or about.st_uid != os.geteuid():
        raise ConfigError(f"others may use {folder}", fix=f"chmod 700 {folder}")
    return folder


def _bind(path: Path) -> socket.socket:
    if len(os.fsencode(path)) > MOST_PATH:
        raise ConfigError(f"{path.parent} is too long a path for a socket", fix="set `state` to a shorter one")
    own = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        own.bind(str(path))
    except OSError as error:
        own.close()
        raise ConfigError(f"cannot bind {path}: {error.strerror}", fix="use a local file system") from error
    own.setblocking(False)
    return own


def _send(sender: socket.socket, path: Path) -> None:
    try:
        sender.sendto(b"\x00", str(path))
    except ConnectionRefusedError:
        # Nobody reads it any more: its process died without closing.
        path.unlink(missing_ok=True)
    except OSError:
        # Full (its owner has a nudge already) or gone since it was listed.
        return
