"""The three tokens of a control bridge are files that only the loop's user can read, and a shown token has a level.

They never go into an agent's environment, a log or an argument list. A resumed loop keeps its tokens, since its broker
still holds one.
"""

import hmac
import os
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from gitops_bot.bridge.grammar import Level
from gitops_bot.core.errors import ConfigError

NAMES: Final[Mapping[Level, str]] = {
    Level.VIEWER: "viewer.token",
    Level.OPERATOR: "operator.token",
    Level.BROKER: "broker.token",
}
MIN_LENGTH: Final = 32


class Tokens:
    """The three tokens of one loop."""

    def __init__(self, tokens: Mapping[Level, str]) -> None:
        self._tokens = dict(tokens)

    def __repr__(self) -> str:
        return "Tokens(…)"

    def level(self, shown: str) -> Level:
        """Tell what a shown token stands for, in a time that does not depend on how much of it is right."""
        level = Level.NOBODY
        for known, token in self._tokens.items():
            if hmac.compare_digest(token.encode(), shown.encode("utf-8", "surrogatepass")):
                level = known
        return level

    def broker(self) -> str:
        """The token that is handed to the broker at registration."""
        return self._tokens[Level.BROKER]


def make_tokens(state: Path, *, keep: bool) -> Tokens:
    """Write new tokens as 0600 files into `state`, or read those of the run that is resumed.

    Raises:
        ConfigError: they cannot be written, or a kept file is open to others or no plain file.
    """
    tokens: dict[Level, str] = {}
    for level, name in NAMES.items():
        path = state / name
        try:
            tokens[level] = (keep and _kept(path)) or _written(path)
        except OSError as error:
            raise ConfigError(f"{name}: {error.strerror}", fix=f"make {state} writable for this user only") from error
    return Tokens(tokens)


def _kept(path: Path) -> str | None:
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    try:
        facts = os.fstat(file)
        if not stat.S_ISREG(facts.st_mode) or facts.st_mode & 0o077 or facts.st_uid != os.geteuid():
            raise ConfigError(f"{path.name} is open to others", fix=f"rm {path}")
        token = os.read(file, 4096).decode("ascii", "replace").strip()
    finally:
        os.close(file)
    return token if len(token) >= MIN_LENGTH else None


def _written(path: Path) -> str:
    token = secrets.token_urlsafe(32)
    path.unlink(missing_ok=True)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.write(file, token.encode("ascii") + b"\n")
        os.fsync(file)
    finally:
        os.close(file)
    return token
