"""The files of a policy bundle are read from its folder, bounded, as bytes; what they mean is left to the grammar.

A bundle is the folder's `*.toml` and everything in `keys/`, hidden files left out. A link is followed (a mounted
configuration is made of them), but only regular files are read.
"""

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from gitops_bot.core.errors import ConfigError, Malformed
from gitops_bot.policy.grammar import MAX_FILES, parse_bundle
from gitops_bot.policy.model import KeyFacts, Policy
from gitops_bot.policy.tables import MAX_FILE


def read_bundle(folder: Path) -> dict[str, bytes]:
    """Read a bundle's files, as paths relative to the folder to bytes.

    Raises:
        ConfigError: the folder or a file cannot be read, is no regular file, or is over `MAX_FILES` files or `MAX_FILE`
            bytes.
    """
    tables = [entry for entry in _visible(folder) if entry.suffix == ".toml"]
    keys = folder / "keys"
    entries = tables + (_visible(keys) if keys.is_dir() else [])
    if not tables:
        raise ConfigError(f"no policy in {folder}: it holds no *.toml", fix="name the folder that holds policy.toml")
    if len(entries) > MAX_FILES:
        raise ConfigError(f"{folder} holds more than {MAX_FILES} policy files", fix="merge or remove some")
    return {entry.relative_to(folder).as_posix(): _read(entry) for entry in entries}


def load_bundle(folder: Path, keys: Mapping[str, KeyFacts]) -> Policy:
    """Read and load a bundle; `keys` holds what was read from each certificate.

    Raises:
        ConfigError: it cannot be read, or does not load.
    """
    try:
        return parse_bundle(read_bundle(folder), keys)
    except Malformed as error:
        fix = f"repair it; `gitops-bot policy check {folder}` says the same"
        raise ConfigError(f"the policy in {folder} does not load: {error}", fix=fix) from error


def _visible(folder: Path) -> list[Path]:
    try:
        return sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))
    except OSError as error:
        fix = "name the folder that holds policy.toml"
        raise ConfigError(f"cannot read the folder {folder}: {error.strerror}", fix=fix) from error


def _read(path: Path) -> bytes:
    try:
        # Without O_NONBLOCK, opening a pipe would wait for its writer.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise ConfigError(f"{path} is no regular file", fix="a bundle holds files only; move it away")
            content = file.read(MAX_FILE + 1)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}", fix="give this user the right to read it") from error
    if len(content) > MAX_FILE:
        raise ConfigError(f"{path} is larger than {MAX_FILE} bytes", fix="a policy file is short; is it the right one?")
    return content
