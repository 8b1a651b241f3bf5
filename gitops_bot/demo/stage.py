"""The processes of a demo: started in order, watched, ended together; each is the product's own command or program."""

import json
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from gitops_bot.core.errors import Unavailable
from gitops_bot.process import PIPE, Child, end_group, start

START_SECONDS: Final = 30.0
COMMAND: Final = (sys.executable, "-m", "gitops_bot.cli")


@dataclass
class Actor:
    """One process of the demo, with its log file."""

    name: str
    process: Child
    log: Path


class Stage:
    """Starts processes with their logs under `root/logs`; leaving the block ends all of them, newest first."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._logs = root / "logs"
        self._logs.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._actors: list[Actor] = []
        self._files: list[IO[bytes]] = []

    def __enter__(self) -> "Stage":
        return self

    def __exit__(self, *_: object) -> None:
        for actor in reversed(self._actors):
            end_group(actor.process)
        for file in self._files:
            file.close()

    def start(self, name: str, argv: Sequence[str], *, says_url: bool = False) -> tuple[Actor, str]:
        """Start a process; with `says_url` wait for its one JSON line and give the address that it names."""
        log = self._logs / f"{name}.log"
        file = log.open("ab")
        self._files.append(file)
        process = start(argv, cwd=self._root, stdout=PIPE if says_url else file, stderr=file)
        actor = Actor(name, process, log)
        self._actors.append(actor)
        if not says_url:
            return actor, ""
        assert process.stdout is not None
        with process.stdout:
            line = process.stdout.readline()
        try:
            return actor, str(json.loads(line)["url"])
        except (ValueError, KeyError):
            raise Unavailable(f"{name} did not start; see {log}: {self.tail(actor)}") from None

    def kill(self, actor: Actor) -> None:
        """Kill a process with everything in its group, as a power cut does, and watch it no more."""
        self._actors.remove(actor)
        end_group(actor.process, grace=0)

    def check(self) -> None:
        """Look whether every process lives.

        Raises:
            Unavailable: one ended; its last words are named.
        """
        for actor in self._actors:
            if actor.process.poll() not in (None, 0) and actor.name != "loop":
                raise Unavailable(f"{actor.name} ended with {actor.process.returncode}: {self.tail(actor)}")

    def answers(self, actor: Actor, host: str, port: int) -> None:
        """Wait until a process listens.

        Raises:
            Unavailable: it ended, or did not listen in time.
        """
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until:
            if actor.process.poll() is not None:
                break
            try:
                socket.create_connection((host, port), 1).close()
            except OSError:
                time.sleep(0.05)
            else:
                return
        raise Unavailable(f"{actor.name} does not answer on port {port}: {self.tail(actor)}")

    @staticmethod
    def tail(actor: Actor) -> str:
        """Give the last line of a process's log."""
        lines = actor.log.read_text("utf-8", "replace").strip().splitlines()
        return lines[-1][-300:] if lines else "(it said nothing)"


def free_port() -> int:
    """Find a port of loopback that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
