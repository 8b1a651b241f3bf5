"""A body of the fleet that is a plain command: the capsule on standard input, the agent's text on standard output.

What comes back says how it ended, never what its text means: that is read from the markers, by the fleet. What keeps it
from files that are not its own is chosen by `isolate`; the environment is built from scratch in every way. A command
keeps no session, so that there is nothing to release.
"""

import re
import shutil
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gitops_bot import process
from gitops_bot.core.errors import Unavailable
from gitops_bot.core.texts import storable
from gitops_bot.harness import attended
from gitops_bot.ports import BodyEnd, BodyOrder, BodyStop

DETAIL_CAP: Final = 300
_SHELL_SIGNAL: Final = 128
"""A shell, and bubblewrap, report a signal as this much and its number."""
_UNSEEN: Final = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]+")
_SECRET_NAME: Final = re.compile(r"(?i)(TOKEN|SECRET|KEY|PASSWORD|CREDENTIALS?)$")


@dataclass(frozen=True, slots=True)
class Start:
    """An order as it is started: the whole argument vector with what isolates it, the folder it starts in, what it
    finds in its environment besides a system path, and what its standard input holds before the capsule. `program` is
    looked for here before anything starts; None where the command is found elsewhere."""

    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]
    before_prompt: bytes = b""
    program: str | None = None


Isolate = Callable[[BodyOrder], Start]
"""Gives the start of an order, or raises Unavailable where it cannot be kept apart as it must."""


class CommandBodies:
    """Runs commands as bodies, each apart as `isolate` says, and hears at most `cap` bytes of text of each; fulfils
    `ports.Harness`."""

    def __init__(self, isolate: Isolate, cap: int = attended.TEXT_CAP) -> None:
        self._isolate, self._cap = isolate, cap

    @property
    def keeps_sessions(self) -> bool:
        """A command ends with its turn."""
        return False

    def run(self, order: BodyOrder, heard: Callable[[bytes], None], stopping: Callable[[], bool]) -> BodyEnd:
        """Run one turn to its end; exit status 0 is ENDED, every other and every signal FAILED."""
        try:
            start = self._isolate(order)
            absent = missing(start)
            if absent:
                return BodyEnd(BodyStop.NOT_STARTED, detail=absent)
            ran = attended.attend(
                start.argv,
                cwd=start.cwd,
                env=start.env,
                stdin=start.before_prompt + order.prompt,
                limit=order.limit,
                heard=heard,
                stopping=stopping,
                cap=self._cap,
            )
        except Unavailable as error:
            return BodyEnd(BodyStop.NOT_STARTED, detail=line(str(error)))
        return _end(order, ran, self._cap)

    def release(self, order: BodyOrder) -> None:
        """Do nothing: there is no session."""


def missing(start: Start) -> str:
    """Say why a start cannot begin at all; empty where it can, as far as can be seen from here."""
    if any("\0" in word for word in (*start.argv, *start.env.keys(), *start.env.values())):
        return "a word of its command or its environment has a NUL in it"
    if start.program is None:
        return ""
    path = start.env.get("PATH", process.SYSTEM_PATH)
    name = start.program if "/" not in start.program else str(start.cwd / start.program)
    return "" if shutil.which(name, path=path) else line(f"there is no program {start.program}")


def line(text: str) -> str:
    """Make one short line of a text that is shown to people."""
    return storable(_UNSEEN.sub(" ", text)).strip()[:DETAIL_CAP]


def told(order: BodyOrder, error: bytes) -> str:
    """Give the end of a standard error as a line, without the secrets that the body had in its environment."""
    text = error.decode("utf-8", "replace")
    for name, value in order.env.items():
        if value and _SECRET_NAME.search(name):
            text = text.replace(value, "[hidden]")
    return line(text[-DETAIL_CAP:])


def status(code: int | None) -> str:
    """Say an exit status, and the signal that it stands for."""
    number = -code if code is not None and code < 0 else (code or 0) - _SHELL_SIGNAL
    try:
        name = f" ({signal.Signals(number).name})"
    except ValueError:
        name = ""
    return f"exit status {code}{name}"


def _end(order: BodyOrder, ran: attended.Attended, cap: int) -> BodyEnd:
    said = told(order, ran.error)
    if ran.stop is BodyStop.TIMED_OUT:
        return BodyEnd(ran.stop, ran.code, f"took longer than {order.limit:g} s")
    if ran.stop is BodyStop.STOPPED:
        return BodyEnd(ran.stop, ran.code, "was stopped")
    if ran.code != 0:
        return BodyEnd(BodyStop.FAILED, ran.code, line(f"{status(ran.code)}: {said}" if said else status(ran.code)))
    if ran.cut:
        # Its outcome is its last line, and that was not read.
        over = f"said more than {cap} bytes; the rest was not read"
        return BodyEnd(BodyStop.FAILED, ran.code, over)
    return BodyEnd(BodyStop.ENDED, ran.code, said)
