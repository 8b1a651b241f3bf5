"""The files of a policy bundle are read from its folder, bounded, as bytes; what they mean is left to the grammar.

A bundle is the folder's `*.toml` and everything in `keys/`, hidden files left out. A link is followed (a mounted
configuration is made of them), but only regular files are read.
"""

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from gitops_bot.core.errors import ConfigError, Malformed
from gitops_bot.policy.grammar import MAX_FILES, parse_bundle
from gitops_bot.policy.model import Policy
from gitops_bot.policy.people import CERTIFICATE
from gitops_bot.policy.tables import MAX_FILE

if TYPE_CHECKING:
    from gitops_bot.signed.openpgp.facts import CertificateFacts


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


def certificates_of(files: Mapping[str, bytes]) -> "dict[str, CertificateFacts]":
    """Read every certificate of a bundle, by its path.

    Raises:
        Malformed: one of them is no certificate that could count.
    """
    paths = [path for path in files if CERTIFICATE.fullmatch(path)]
    if not paths:
        return {}
    from gitops_bot.signed.openpgp.certificates import read_certificate

    return {path: read_certificate(files[path], where=path) for path in paths}


def load_files(files: Mapping[str, bytes]) -> Policy:
    """Load a bundle from its files, its certificates included.

    Raises:
        Malformed: it does not load.
    """
    return parse_bundle(files, {path: found.facts for path, found in certificates_of(files).items()})


def load_bundle(folder: Path) -> Policy:
    """Read and load a bundle.

    Raises:
        ConfigError: it cannot be read, or does not load.
    """
    try:
        return load_files(read_bundle(folder))
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
