"""A body that is a plain command: prompt on standard input, text on standard output, an environment built from scratch.

It runs in a group of its own that is ended with it, whole. The caller's `tick` is called several times a second while
it runs, so that a budget counts and an abort is felt; what the text means is the caller's work. It reports no cost.
"""

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

from gitops_bot import process
from gitops_bot.core.errors import Unavailable

TICK_SECONDS: Final = 0.05


class Child(Protocol):
    """What is needed of a started program."""

    def poll(self) -> int | None:
        """Give its exit status, None while it runs."""


class CommandHarness:
    """Runs commands to their end. `tick` answers True when the command is to be ended now; `wrap` puts before a command
    what isolates it."""

    def __init__(self, wrap: Callable[[Sequence[str]], Sequence[str]] = list) -> None:
        self._wrap = wrap

    def run(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        stdin: bytes,
        timeout: float | None,
        tick: Callable[[], bool],
    ) -> process.Completed:
        """Run one command, its output through files; `timeout` in seconds, None waits for its end.

        Raises:
            Unavailable: it cannot be started, outlasts `timeout`, or `tick` ended it.
        """
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            given.write(stdin)
            given.seek(0)
            child = process.start(self._wrap(argv), cwd=cwd, env=env, stdin=given, stdout=out, stderr=err)
            try:
                returncode = _wait(child, argv[0], timeout, tick)
            finally:
                process.end_group(child, grace=0)
            out.seek(0)
            err.seek(0)
            return process.Completed(returncode, out.read(process.OUTPUT_CAP), err.read(process.OUTPUT_CAP))


def _wait(child: Child, name: str, timeout: float | None, tick: Callable[[], bool]) -> int:
    waited = 0.0
    while (returncode := child.poll()) is None:
        time.sleep(TICK_SECONDS)
        waited += TICK_SECONDS  # only this process's own waiting counts, not a suspended machine's
        if tick():
            raise Unavailable(f"{name} was ended")
        if timeout is not None and waited >= timeout:
            raise Unavailable(f"{name} took longer than {timeout:g} s")
    return returncode
