"""A command of the host that gets each event as one line of JSON on standard input, and is killed when it dawdles.

Its environment is built from scratch and holds nothing of ours; what it prints is dropped, for it may be anything.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gitops_bot import process
from gitops_bot.core.errors import Unavailable
from gitops_bot.ports import Notice

SECONDS: Final = 10.0


class HookNotifier:
    """Runs the command once an event; implements `ports.Notifier`."""

    def __init__(self, argv: Sequence[str], folder: Path, seconds: float = SECONDS) -> None:
        self._argv = tuple(argv)
        self._folder = folder
        self._seconds = seconds

    def tell(self, notice: Notice) -> None:
        """Hand one event over.

        Raises:
            Unavailable: the command cannot be started, fails, or takes longer than it may.
        """
        line = json.dumps(notice.payload, ensure_ascii=True, sort_keys=True, separators=(",", ":")) + "\n"
        ended = process.run(self._argv, cwd=self._folder, stdin=line.encode("ascii"), timeout=self._seconds)
        if ended.returncode != 0:
            raise Unavailable(f"the hook ended with {ended.returncode}")
