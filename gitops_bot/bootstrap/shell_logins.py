"""The credentials by which this shell acts as a person, one a workspace, in files that only their owner may read.

A credential is written once a person confirmed it, is sent to the address that it was got from and to no other, and
goes with `forget`. What it may do is decided at the workspace, each time it is used.
"""

import contextlib
import hashlib
import json
import os
import re
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from gitops_bot.config import person_environment
from gitops_bot.core.errors import ConfigError, Malformed
from gitops_bot.core.strictjson import load_object

FOLDER: Final = "logins"
_MAX_FILE: Final = 16_384
_CREDENTIAL: Final = re.compile(r"gbs_[A-Za-z0-9_-]{16,200}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Login:
    """One credential: where it counts, whose it is, until when at most (ms since 1970 UTC)."""

    url: str
    person: str
    expires_at: int
    credential: str = field(repr=False)


def folder() -> Path:
    """Give this person's folder of credentials (XDG Base Directory Specification).

    Raises:
        ConfigError: the environment names no home.
    """
    environment = person_environment()
    named, home = environment.get("XDG_STATE_HOME", ""), environment.get("HOME", "")
    if not named.startswith("/") and not home.startswith("/"):
        raise ConfigError("HOME names no folder", fix="log in from a login shell")
    return (Path(named) if named.startswith("/") else Path(home) / ".local/state") / "gitops-bot" / FOLDER


def plain(url: str) -> str:
    """Give an address as its credential is filed under: scheme, host, port and path without a slash at the end."""
    parts = urlsplit(url)
    return f"{parts.scheme.lower()}://{parts.netloc.lower()}{parts.path.rstrip('/')}"


def keep(login: Login) -> Path:
    """Write a credential for its owner alone, in place of the one before; give the file.

    Raises:
        ConfigError: it cannot be written.
    """
    place = folder()
    document = {
        "v": 1,
        "url": plain(login.url),
        "person": login.person,
        "expires_at": login.expires_at,
        "credential": login.credential,
    }
    file = place / _name(login.url)
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, made = tempfile.mkstemp(dir=place, prefix=".login-")  # of mode 0600
        try:
            with os.fdopen(handle, "w", encoding="ascii") as opened:
                json.dump(document, opened)
            Path(made).replace(file)
        finally:
            Path(made).unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError(f"cannot write {file}: {error.strerror}", fix="see who may write there") from error
    return file


def find(url: str | None) -> Login | None:
    """Find the credential for an address; without one the only credential there is. None: there is none.

    Raises:
        ConfigError: others may read the file, it is none of ours, or several are there and no address is named.
    """
    place = folder()
    if url is not None:
        file = place / _name(url)
        return _read(file, plain(url)) if file.is_file() else None
    try:
        files = sorted(one for one in place.iterdir() if one.suffix == ".json")
    except OSError:
        return None
    if len(files) > 1:
        raise ConfigError("you are logged in at several workspaces", fix="give --url or set GITOPS_BOT_URL")
    return _read(files[0], None) if files else None


def forget(url: str) -> None:
    """Remove the credential for an address."""
    with contextlib.suppress(OSError):
        (folder() / _name(url)).unlink()


def _name(url: str) -> str:
    address = plain(url)
    readable = re.sub(r"[^a-z0-9]+", "-", address.partition("://")[2]).strip("-")[:40]
    return f"{readable}-{hashlib.sha256(address.encode('utf-8', 'replace')).hexdigest()[:8]}.json"


def _read(file: Path, url: str | None) -> Login:
    fix = f"rm {file}, then gitops-bot login"
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as opened:
            about = os.fstat(handle)
            if not stat.S_ISREG(about.st_mode) or about.st_mode & 0o077 or about.st_uid != os.getuid():
                raise ConfigError(f"others may read {file}", fix=f"chmod 600 {file}")
            document = load_object(opened.read(_MAX_FILE + 1), limit=_MAX_FILE, where=str(file))
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror}", fix=fix) from error
    except Malformed as error:
        raise ConfigError(str(error), fix=fix) from error
    login = _login(document)
    if login is None or (url is not None and login.url != url):
        raise ConfigError(f"{file} holds no credential for this address", fix=fix)
    return login


def _login(document: Mapping[str, Any]) -> Login | None:
    url, person, until, credential = (document.get(name) for name in ("url", "person", "expires_at", "credential"))
    if not isinstance(url, str) or not isinstance(person, str) or not isinstance(until, int):
        return None
    if not isinstance(credential, str) or not _CREDENTIAL.fullmatch(credential) or document.get("v") != 1:
        return None
    return Login(url, person, until, credential)
