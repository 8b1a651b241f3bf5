"""The secrets of webhooks, all of them live: a file that changed is read again, and no restart is needed.

A secret whose file cannot be read signs nothing from then on: it may have been removed because it leaked.
"""

import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gitops_bot.config import secret
from gitops_bot.core.errors import ConfigError

LOOK_SECONDS: Final = 0.2
_log: Final = logging.getLogger(__name__)
_Seen = tuple[int, int, int] | None


class Secrets:
    """The secrets of the files as they are now."""

    def __init__(self, paths: Sequence[Path]) -> None:
        """Read them.

        Raises:
            ConfigError: one that is missing, empty or open to others.
        """
        self._paths = tuple(paths)
        self._seen: list[_Seen] = [_look(path) for path in self._paths]
        self._known: list[bytes | None] = [_read(path) for path in self._paths]
        self._looked = time.monotonic()

    @property
    def configured(self) -> bool:
        """Whether any secret is named at all."""
        return bool(self._paths)

    def now(self) -> tuple[bytes, ...]:
        """Give what signs now."""
        if time.monotonic() - self._looked >= LOOK_SECONDS:
            self._looked = time.monotonic()
            for place, path in enumerate(self._paths):
                seen = _look(path)
                if seen != self._seen[place]:
                    self._seen[place], self._known[place] = seen, _read_again(path)
        return tuple(found for found in self._known if found)


def _look(path: Path) -> _Seen:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size


def _read(path: Path) -> bytes:
    return secret(path, "webhook secret").encode("utf-8")


def _read_again(path: Path) -> bytes | None:
    try:
        return _read(path)
    except ConfigError as error:
        _log.warning("a webhook secret is gone, and signs nothing: %s", error.message)
        return None
