"""Broker and workspace as one service: two processes under one parent, of which neither goes on without the other.

The parent decides nothing and opens no database. It passes on what the two write, a line at a time and each with its
name before it, and ends when one of them does, or when it is told to; then it stops the other. Whatever ends the
parent, SIGKILL included, ends the two (`process.start_bound`).
"""

import os
import selectors
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import IO, Final, cast

from gitops_bot.process import Child, end_group, start_bound

STOP_SECONDS: Final = 40.0
"""How long both together have to end after SIGTERM, before SIGKILL; the workspace finishes requests for 20."""
LOOK_SECONDS: Final = 0.2
MAX_LINE: Final = 8_192
_CHUNK: Final = 65_536


def services(config: Path | None) -> dict[str, list[str]]:
    """Give the command of each service by its name."""
    named = [] if config is None else ["--config", str(config)]
    # -P: a folder named like a module of ours in the current folder is not imported.
    python = [sys.executable, "-P", "-m"]
    return {
        "broker": [*python, "gitops_bot.cli", "broker", *named],
        "workspace": [*python, "workspace", "--verbose", *named],
    }


@dataclass(slots=True)
class _Service:
    """A running service and what it wrote of a line that is not whole yet."""

    name: str
    child: Child
    pending: bytes = b""

    def lines(self, part: bytes) -> list[bytes]:
        """Take in what it wrote, b"" at its end; give the lines that are whole."""
        whole = (self.pending + part).split(b"\n")
        self.pending = whole.pop()[:MAX_LINE]
        if part == b"" and self.pending:
            whole, self.pending = [*whole, self.pending], b""
        return [line[:MAX_LINE] for line in whole]


@dataclass(slots=True)
class Pair:
    """Services that live and end together. `write` takes whole lines."""

    write: Callable[[str], None]
    running: list[_Service] = field(default_factory=list)
    told: bool = False
    _selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)

    def start(self, commands: Mapping[str, Sequence[str]], environment: Mapping[str, str]) -> None:
        """Start each command.

        Raises:
            Unavailable: one cannot be started; none is left.
        """
        started = False
        try:
            for name, argv in commands.items():
                service = _Service(name, start_bound(argv, cwd=Path.cwd(), env=environment))
                self.running.append(service)
                self._selector.register(_output(service), selectors.EVENT_READ, service)
            started = True
        finally:
            if not started:
                self.stop()

    def tell(self, _number: int, _frame: FrameType | None) -> None:
        """Let `run` stop; a handler of signals."""
        self.told = True

    def run(self) -> str | None:
        """Pass on output until one ends, or until told to stop; give the sentence about the one that ended."""
        while not self.told:
            self._pass_on(LOOK_SECONDS)
            for service in self.running:
                status = service.child.poll()
                if status is not None:
                    return f"the {service.name} ended {_said(status)}"
        return None

    def stop(self) -> dict[str, int]:
        """Stop what runs and pass on its last words; give each status by name. Nothing of theirs is left afterwards."""
        for service in self.running:
            if service.child.poll() is None:
                service.child.terminate()
        end = time.monotonic() + STOP_SECONDS
        while time.monotonic() < end and any(service.child.poll() is None for service in self.running):
            self._pass_on(LOOK_SECONDS)
        late = [service.name for service in self.running if service.child.poll() is None]
        for service in self.running:
            end_group(service.child, grace=0)
        while self._pass_on(0):
            continue
        self._selector.close()
        for service in self.running:
            _output(service).close()
        for name in late:
            self.write(f"serve: the {name} did not stop in time and was killed")
        return {service.name: service.child.returncode for service in self.running}

    def _pass_on(self, seconds: float) -> bool:
        """Pass on what was written, waiting for it at most so long; tell whether there was anything."""
        if not self._selector.get_map():
            time.sleep(seconds)
            return False
        ready = self._selector.select(seconds)
        for key, _ in ready:
            service = cast("_Service", key.data)
            part = os.read(key.fd, _CHUNK)
            if part == b"":
                self._selector.unregister(key.fileobj)
            for line in service.lines(part):
                self.write(f"{service.name:<9} | {line.decode('utf-8', 'replace')}")
        return bool(ready)


def _output(service: _Service) -> IO[bytes]:
    assert service.child.stdout is not None
    return service.child.stdout


def _said(status: int) -> str:
    return f"with status {status}" if status >= 0 else f"by {signal.Signals(-status).name}"


def serve(commands: Mapping[str, Sequence[str]], environment: Mapping[str, str], write: Callable[[str], None]) -> int:
    """Run services until SIGTERM or SIGINT, or until one ends; 0 when it was told to stop and all stopped well.

    Raises:
        Unavailable: one cannot be started.
    """
    pair = Pair(write)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, pair.tell)
    pair.start(commands, environment)
    ended = pair.run()
    statuses = pair.stop()
    if ended is not None:
        others = " and ".join(f"the {name}" for name in statuses if f"the {name} " not in ended)
        write(f"serve: {ended}; {others} was stopped")
        return 1
    for name, status in statuses.items():
        if status != 0:
            write(f"serve: the {name} ended {_said(status)}")
    return 0 if set(statuses.values()) <= {0} else 1
