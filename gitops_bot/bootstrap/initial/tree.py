"""Files of a repository's working tree, read and replaced without ever following a link.

Each folder on the way is opened from the one above it, so that nothing that is swapped meanwhile leads out of the
repository. A file is replaced whole or not at all.
"""

import contextlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from gitops_bot.core.errors import ConfigError

MAX_FILE: Final = 1024 * 1024
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def top_of(folder: Path) -> Path:
    """Give the folder, which is the top of a git working tree.

    Raises:
        ConfigError: it is not.
    """
    here = folder.resolve()
    if not here.is_dir():
        raise ConfigError(f"there is no folder {folder}", fix="name the repository's folder with --dir")
    if (here / ".git").exists():
        return here
    above = next((one for one in here.parents if (one / ".git").exists()), None)
    if above is not None:
        raise ConfigError(f"{here} is inside the git repository {above}", fix=f"--dir {above}")
    raise ConfigError(f"{here} is no git repository", fix=f"git init {here}, or clone the repository first")


def read(top: Path, path: str) -> str | None:
    """Read a file; None when there is none.

    Raises:
        ConfigError: a link, no regular file, too large, no UTF-8, or not readable.
    """
    with _errors(path), _parent(top, path, make=False) as (folder, name):
        if folder is None or not _regular(folder, name, path):
            return None
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        with os.fdopen(descriptor, "rb") as file:
            content = file.read(MAX_FILE + 1)
        if len(content) > MAX_FILE:
            raise ConfigError(f"{path} is larger than {MAX_FILE} bytes", fix="move it away")
        try:
            return content.decode("utf-8")
        except UnicodeDecodeError:
            raise ConfigError(f"{path} is not UTF-8", fix="move it away") from None


def replace(top: Path, path: str, text: str) -> None:
    """Write a file whole, with the folders that it needs.

    Raises:
        ConfigError: a link is in the way, or it cannot be written.
    """
    with _errors(path), _parent(top, path, make=True) as (folder, name):
        assert folder is not None
        _regular(folder, name, path)
        unfinished = f".{name}.unfinished"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(unfinished, dir_fd=folder)  # relative to an open folder
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(unfinished, flags, 0o644, dir_fd=folder), "wb") as file:
            file.write(text.encode("utf-8"))
        os.replace(unfinished, name, src_dir_fd=folder, dst_dir_fd=folder)  # relative to an open folder


def make_private(top: Path, name: str, *, dry: bool) -> bool:
    """Make a folder at the top for its owner alone; False when it was there, or is only looked for (`dry`).

    Raises:
        ConfigError: something else is in its place.
    """
    with _errors(name):
        try:
            if not stat.S_ISDIR((top / name).lstat().st_mode):
                raise ConfigError(f"{name} is a link or no folder", fix="move it away")
        except FileNotFoundError:
            if not dry:
                (top / name).mkdir(0o700)
            return not dry
        return False


@contextmanager
def _parent(top: Path, path: str, *, make: bool) -> Iterator[tuple[int | None, str]]:
    """Open the folder of a file; None when it is not there and is not to be made."""
    *folders, name = path.split("/")
    with contextlib.ExitStack() as opened:
        at = os.open(top, _FOLDER)
        opened.callback(os.close, at)
        for part in folders:
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, 0o755, dir_fd=at)  # relative to an open folder
            try:
                at = os.open(part, _FOLDER, dir_fd=at)
            except FileNotFoundError:
                yield None, name
                return
            except NotADirectoryError:
                raise ConfigError(f"{path}: {part} is a link or no folder", fix="put a real folder there") from None
            opened.callback(os.close, at)
        yield at, name


def _regular(folder: int, name: str, path: str) -> bool:
    try:
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode  # relative to an open folder
    except FileNotFoundError:
        return False
    if stat.S_ISLNK(mode):
        raise ConfigError(f"{path} is a link; nothing is written through links", fix="put a real file there")
    if not stat.S_ISREG(mode):
        raise ConfigError(f"{path} is no regular file", fix="move it away")
    return True


@contextmanager
def _errors(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigError(f"cannot use {path}: {error.strerror}", fix="give this user the right to it") from error
