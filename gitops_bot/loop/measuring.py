"""Judge and rig are what they were at start, or the run escalates: their command and every file it names are hashed.

They live outside the workspace and run in a folder that the agent does not own. What they import or read besides the
files on their command line is not stamped; keep that out of the agent's reach too.
"""

import hashlib
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

from gitops_bot.core.errors import ConfigError
from gitops_bot.process import SYSTEM_PATH


@dataclass(frozen=True, slots=True)
class Tool:
    """A judge or rig: its command, and the digest it had at start."""

    name: str
    argv: tuple[str, ...]
    digest: str

    def unchanged(self) -> bool:
        """Tell whether command and files still have the digest."""
        return _digest(self.argv) == self.digest


def stamp(name: str, command: str, *, workspace: Path, here: Path) -> Tool:
    """Read a command line, make its files absolute from `here`, and hash them.

    Raises:
        ConfigError: it cannot be read or found, or a file of it lies inside the workspace.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ConfigError(f"--{name}: {error}", fix="quote the command as a shell would read it") from error
    if not words:
        raise ConfigError(f"--{name} is empty", fix=f'--{name} "python3 /path/to/{name}.py"')
    program = words[0] if "/" in words[0] else shutil.which(words[0], path=SYSTEM_PATH)
    if program is None or not (here / program).is_file():
        raise ConfigError(f"--{name}: {words[0]} is no program here", fix="give the path of the program")
    argv = [str(here / program), *(_absolute(word, here) for word in words[1:])]
    home = workspace.resolve()
    for word in argv:
        if Path(word).is_file() and Path(word).resolve().is_relative_to(home):
            raise ConfigError(
                f"--{name}: {word} lies inside the workspace, where the agent could change it",
                fix="keep judge and rig outside the workspace",
            )
    return Tool(name, tuple(argv), _digest(argv))


def _absolute(word: str, here: Path) -> str:
    return str(here / word) if not word.startswith("-") and len(word) < 4096 and (here / word).is_file() else word


def _digest(argv: tuple[str, ...] | list[str]) -> str:
    whole = hashlib.sha256()
    for word in argv:
        whole.update(word.encode("utf-8", "surrogateescape") + b"\x00")
        try:
            with Path(word).open("rb") as file:
                whole.update(hashlib.file_digest(file, "sha256").digest())
        except (OSError, ValueError):
            whole.update(b"\x00")  # no file: the word alone counts
    return f"sha256:{whole.hexdigest()}"
