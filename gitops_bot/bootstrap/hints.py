"""Nudges between processes of one host: a datagram after a commit wakes whoever sleeps, and losing one costs a second.

Each process that waits binds a socket of its own in a folder of this user's alone; whoever commits sends to every
socket there one byte, or the names of the duties that alone have work, never waiting for a reader. What is no name is
read as work for all. A socket whose process is gone is removed by whoever finds it.
"""

import contextlib
import os
import re
import select
import socket
import time
from collections.abc import Collection
from pathlib import Path
from typing import Final

from gitops_bot.core.errors import ConfigError

FOLDER: Final = "hints"
MOST_PATH: Final = 100
"""A socket's path has 107 bytes on Linux and 103 on macOS (unix(7))."""
_DRAIN: Final = 4096
_ALL: Final = b"\x00"
_NAMES: Final = re.compile(rb"[a-z0-9._-]{1,64}(?:,[a-z0-9._-]{1,64}){0,15}")
_MOST: Final = 1_100


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
        self._send(_ALL)

    def notify_of(self, duties: Collection[str]) -> None:
        """Wake them for these duties alone."""
        named = ",".join(sorted(duties)).encode("utf-8")
        self._send(named if _NAMES.fullmatch(named) else _ALL)

    def _send(self, said: bytes) -> None:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            for path in self._folder.glob("*.sock"):
                _send(sender, path, said)

    def wait(self, seconds: float) -> Collection[str] | None:
        """Sleep until nudged, at most `seconds`. Gives the duties that alone were named; None: any may."""
        if self._own is None:
            time.sleep(seconds)
            return None
        readable, _, _ = select.select([self._own], [], [], seconds)
        named: set[bytes] = set()
        if readable:
            with contextlib.suppress(BlockingIOError):
                for _ in range(_DRAIN):
                    named.add(self._own.recv(_MOST))
        if not named or not all(map(_NAMES.fullmatch, named)):
            return None
        return {name for said in named for name in said.decode("ascii").split(",")}

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


def _send(sender: socket.socket, path: Path, said: bytes) -> None:
    try:
        sender.sendto(said, str(path))
    except ConnectionRefusedError:
        # Nobody reads it any more: its process died without closing.
        path.unlink(missing_ok=True)
    except OSError:
        # Full (its owner has a nudge already) or gone since it was listed.
        return
