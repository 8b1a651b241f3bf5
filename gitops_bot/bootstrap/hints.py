"""Nudges between processes of one host: a datagram after a commit wakes whoever sleeps, and losing one costs a second.

Each process that waits binds a socket of its own in a folder of this user's alone; whoever commits sends one byte to
every socket there, never waiting for a reader. A socket whose process is gone is removed by whoever finds it.
"""

import contextlib
import os
import select
import socket
import threading
import time
from pathlib import Path
from typing import Final

from gitops_bot.core.errors import ConfigError

FOLDER: Final = "hints"
MOST_PATH: Final = 100
"""A socket's path has 107 bytes on Linux and 103 on macOS (unix(7))."""
_DRAIN: Final = 4096


class DatagramHint:
    """`ports.Hint` over Unix datagram sockets. One that was not opened for waiting only notifies, and waits blindly."""

    def __init__(self, folder: Path, own: socket.socket | None, path: Path | None) -> None:
        self._folder = folder
        self._own = own
        self._path = path
        self._reader = threading.Lock()
        self._woken = threading.Condition()
        self._nudges = 0

    @classmethod
    def open(cls, state: Path, *, listen: bool = True) -> "DatagramHint":
        """Open the hints of a state folder; with `listen` this process binds a socket there.

        Raises:
            ConfigError: the folder cannot be had for this user alone, or its path is too long for a socket.
        """
        folder = state / FOLDER
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            about = folder.stat()
        except OSError as error:
            raise ConfigError(
                f"cannot make {folder}: {error.strerror}", fix="give this user the state folder"
            ) from error
        if about.st_mode & 0o077 or about.st_uid != os.geteuid():
            raise ConfigError(f"others may use {folder}", fix=f"chmod 700 {folder}")
        if not listen:
            return cls(folder, None, None)
        path = folder / f"{os.getpid()}-{os.urandom(3).hex()}.sock"
        if len(os.fsencode(path)) > MOST_PATH:
            raise ConfigError(f"{folder} is too long a path for a socket", fix="set `state` to a shorter one")
        own = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            own.bind(str(path))
        except OSError as error:
            own.close()
            raise ConfigError(f"cannot bind {path}: {error.strerror}", fix="use a local file system") from error
        own.setblocking(False)
        return cls(folder, own, path)

    def notify(self) -> None:
        """Wake every process that waits in the folder; what cannot be reached is passed over."""
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            for path in self._folder.glob("*.sock"):
                _send(sender, path)

    def wait(self, seconds: float) -> None:
        """Sleep until nudged, at most `seconds`; a nudge wakes every thread that sleeps here."""
        until = time.monotonic() + seconds
        if self._own is None:
            time.sleep(max(seconds, 0))
            return
        seen = self._nudges
        # One thread reads the socket, the others wait for it: of several in select, one might drain it before all woke.
        while seen == self._nudges and (left := until - time.monotonic()) > 0:
            if self._reader.acquire(blocking=False):
                try:
                    self._read(self._own, left)
                finally:
                    self._reader.release()
                    with self._woken:
                        self._woken.notify_all()
            else:
                with self._woken:
                    self._woken.wait_for(lambda: seen != self._nudges or not self._reader.locked(), left)

    def _read(self, own: socket.socket, seconds: float) -> None:
        readable, _, _ = select.select([own], [], [], seconds)
        if readable:
            with contextlib.suppress(BlockingIOError):
                for _ in range(_DRAIN):
                    own.recv(1)
            self._nudges += 1

    def close(self) -> None:
        """Stop waiting and take the socket away."""
        if self._own is not None and self._path is not None:
            self._own.close()
            self._path.unlink(missing_ok=True)


def _send(sender: socket.socket, path: Path) -> None:
    try:
        sender.sendto(b"\x00", str(path))
    except ConnectionRefusedError:
        # Nobody reads it any more: its process died without closing.
        path.unlink(missing_ok=True)
    except OSError:
        # Full (its owner has a nudge already) or gone since it was listed.
        return
