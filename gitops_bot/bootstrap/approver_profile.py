"""What an approver's machine was set up for: one small file under their home, and where this machine keeps its own.

After `read_profile` every value has its form. Flags stand before the file; the file is written once, after the person
confirmed, and never changed by itself.
"""

import hashlib
import os
import re
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gitops_bot.core.errors import ConfigError, Malformed
from gitops_bot.core.principals import PrincipalName
from gitops_bot.signed.grammar import read_address
from gitops_bot.signed.rendering import escape

FILE: Final = "approver.toml"
_MAX_FILE: Final = 64 * 1024
_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,31}", re.ASCII)
_REPOSITORY: Final = re.compile(r"[!-~]{1,200}", re.ASCII)
_TEXTS: Final = ("remote", "person", "environment", "repository", "token_file", "ssh_key", "known_hosts")
_KEYS: Final = (*_TEXTS, "repository_id")
_HEAD: Final = "# Written by `gitops-bot approval sign`; docs/signing.md says what each key means.\n"


@dataclass(frozen=True, slots=True)
class Profile:
    """Whose approvals this machine signs, and where. `repository` and its forge's number are None until the first
    request was confirmed; `state` is this machine's own folder for this remote, `file` the settings file."""

    remote: str
    person: PrincipalName
    environment: str
    repository: str | None
    repository_id: int | None
    token_file: Path | None
    ssh_key: Path | None
    known_hosts: Path | None
    state: Path
    file: Path
    written: bool

    @property
    def trust_file(self) -> Path:
        """The pin."""
        return self.state / "trust.json"


def read_profile(environment: Mapping[str, str], flags: Mapping[str, str | None]) -> Profile:
    """Read the settings of this person's machine; `flags` that are given stand before the file's values.

    Raises:
        ConfigError: something is missing or wrong, or others could have written the file.
    """
    file = _folder(environment, "XDG_CONFIG_HOME", ".config") / FILE
    written = os.path.lexists(file)
    said: dict[str, Any] = _read(file) if written else {}
    given = {name: value for name, value in flags.items() if value is not None}
    if "remote" in given and said.get("remote", given["remote"]) != given["remote"]:
        # What was confirmed of another repository says nothing of this one.
        said = {name: value for name, value in said.items() if name not in ("repository", "repository_id")}
    said |= given
    for name in ("remote", "person"):
        if name not in said:
            raise ConfigError(f"this machine does not know its {name}", fix=_fix(file))
    environment_name = said.get("environment", "production")
    for name, form, value in (
        ("person", _NAME, said["person"]),
        ("environment", _NAME, environment_name),
        ("repository", _REPOSITORY, said.get("repository", "any")),
    ):
        if form.fullmatch(value) is None:
            raise ConfigError(f"{name} has another form: {ascii(value)[:80]}", fix=_fix(file))
    try:
        read_address(said["remote"])
    except Malformed as error:
        raise ConfigError(str(error), fix=_fix(file)) from error
    home = _home(environment)
    return Profile(
        remote=said["remote"],
        person=PrincipalName(said["person"]),
        environment=environment_name,
        repository=said.get("repository"),
        repository_id=said.get("repository_id"),
        token_file=_path(said.get("token_file"), home),
        ssh_key=_path(said.get("ssh_key"), home),
        known_hosts=_path(said.get("known_hosts"), home),
        state=_folder(environment, "XDG_STATE_HOME", ".local/state") / "approver" / name_of(said["remote"], said),
        file=file,
        written=written,
    )


def write_profile(profile: Profile, repository: str, repository_id: int) -> None:
    """Write the settings file for the first time; one that is there is left alone.

    Raises:
        ConfigError: it cannot be written.
    """
    values: dict[str, str | int] = {
        "remote": profile.remote,
        "person": profile.person,
        "environment": profile.environment,
        "repository": repository,
        "repository_id": repository_id,
    }
    for name in ("token_file", "ssh_key", "known_hosts"):
        path: Path | None = getattr(profile, name)
        if path is not None:
            values[name] = str(path)
    lines = [f"{name} = {value if isinstance(value, int) else _quoted(value)}\n" for name, value in values.items()]
    try:
        profile.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(profile.file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(_HEAD + "".join(lines))
    except FileExistsError:
        return
    except OSError as error:
        raise ConfigError(f"cannot write {profile.file}: {error.strerror}", fix="see who may write there") from error


def name_of(remote: str, said: Mapping[str, Any]) -> str:
    """Name the folder of a remote and environment: readable, and another for each."""
    environment = said.get("environment", "production")
    last = re.sub(r"[^a-z0-9]+", "-", remote.rstrip("/").rpartition("/")[2].removesuffix(".git").lower()).strip("-")
    told = hashlib.sha256(f"{remote}\0{environment}".encode()).hexdigest()[:8]
    return f"{last[:40] or 'approvals'}-{environment}-{told}"


def _read(file: Path) -> dict[str, Any]:
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as opened:
            about = os.fstat(handle)
            if not stat.S_ISREG(about.st_mode) or about.st_uid not in (os.geteuid(), 0) or about.st_mode & 0o022:
                raise ConfigError(f"others could have written {file}", fix=f"check it, then chmod 600 {file}")
            found: dict[str, Any] = tomllib.loads(opened.read(_MAX_FILE).decode("utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror}", fix=_fix(file)) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} is no TOML: {error}", fix=_fix(file)) from error
    for name, value in found.items():
        if name not in _KEYS:
            raise ConfigError(f"{file}: unknown key {ascii(name)[:60]}", fix=f"known are {', '.join(_KEYS)}")
        if not isinstance(value, str if name in _TEXTS else int) or isinstance(value, bool):
            raise ConfigError(f"{file}: {name} is of another type", fix=_fix(file))
    return found


def _folder(environment: Mapping[str, str], variable: str, below: str) -> Path:
    """Find a folder of the XDG Base Directory Specification; a relative one is not taken, as it says."""
    named = environment.get(variable, "")
    return (Path(named) if named.startswith("/") else _home(environment) / below) / "gitops-bot"


def _home(environment: Mapping[str, str]) -> Path:
    home = environment.get("HOME", "")
    if not home.startswith("/"):
        raise ConfigError("HOME names no folder", fix="sign as the person whose keys they are, from a login shell")
    return Path(home)


def _path(text: str | None, home: Path) -> Path | None:
    if text is None:
        return None
    return home / text.removeprefix("~/") if text.startswith("~/") else Path(text)


def _quoted(text: str) -> str:
    return f'"{escape(text)}"'


def _fix(file: Path) -> str:
    return f"gitops-bot approval sign ASK --remote URL --person NAME, or write {file} (docs/signing.md)"
