"""What somebody chose for a new set-up, checked: a repository, a forge, an account, a credential, an origin.

Everything here ends up in files, addresses and commands, so each text is of a closed alphabet and nothing is escaped
later. Who the account is, is asked in `gitops_bot.forge.public`.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from gitops_bot.core.errors import ConfigError, Malformed, Unavailable
from gitops_bot.process import run

PLACEHOLDER_ID: Final = 2**53 - 1
"""The account of a person who did not say who they are: the largest number that a policy takes, held by nobody."""

PUBLIC_API: Final = "https://api.github.com"
_OWNER: Final = r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,98}[A-Za-z0-9])?"
_REPOSITORY: Final = re.compile(rf"{_OWNER}/[A-Za-z0-9._-]{{1,100}}", re.ASCII)
_LOGIN: Final = re.compile(_OWNER, re.ASCII)
_HOST: Final = r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,200}[A-Za-z0-9])?(?::[0-9]{1,5})?"
_ORIGIN: Final = re.compile(rf"https://{_HOST}|http://localhost(?::[0-9]{{1,5}})?", re.ASCII)
_API: Final = re.compile(rf"https://{_HOST}(?:/api/v3)?|http://(?:localhost|127\.0\.0\.1)(?::[0-9]{{1,5}})?", re.ASCII)
_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Account:
    """Somebody on the forge, by number and login."""

    id: int
    login: str


@dataclass(frozen=True, slots=True)
class Choices:
    """A set-up: `repository` as `owner/name`; `me` None when nobody said who they are; `origin` '' when it is not known
    yet how the workspace is reached."""

    repository: str
    api_url: str
    app: bool
    origin: str
    me: Account | None

    @property
    def host(self) -> str:
        """Name the forge as its repositories are named."""
        host = urlsplit(self.api_url).netloc
        return "github.com" if host == "api.github.com" else host

    @property
    def site(self) -> str:
        """Give the address of the forge's pages."""
        return f"{urlsplit(self.api_url).scheme}://{self.host}"

    @property
    def owner(self) -> str:
        """Give the owner of the repository."""
        return self.repository.partition("/")[0]

    @property
    def person(self) -> str:
        """Give the name in the policy of whoever sets up: the login where it is a name there."""
        name = "" if self.me is None else self.me.login.lower()
        fits = re.fullmatch(r"[a-z][a-z0-9-]{0,31}", name, re.ASCII) and name != "agent"
        return name if fits else "me"

    @property
    def hook_url(self) -> str:
        """Give the address for webhooks; one that leads nowhere while the origin is not known."""
        return f"{self.origin or 'https://workspace.invalid'}/hooks/github"


def checked_repository(text: str) -> str:
    """Give a repository's name.

    Raises:
        Malformed: it is no `owner/name`.
    """
    if _REPOSITORY.fullmatch(text) is None or text.partition("/")[2] in (".", "..") or text.endswith(".git"):
        raise Malformed("write the repository as owner/name, as in acme/ops, without address and .git")
    return text


def checked_login(text: str) -> str:
    """Give a login, a leading `@` taken off.

    Raises:
        Malformed: it is no login.
    """
    login = text.removeprefix("@")
    if _LOGIN.fullmatch(login) is None:
        raise Malformed("write your login on the forge, as in alice")
    return login


def checked_origin(text: str) -> str:
    """Give an origin.

    Raises:
        Malformed: it is neither `https://host` nor on this machine.
    """
    if _ORIGIN.fullmatch(text) is None:
        raise Malformed("write the origin as https://host without a path; passkeys work nowhere else")
    return text


def checked_api(text: str) -> str:
    """Give the address of a forge's API.

    Raises:
        Malformed: it is none.
    """
    if _API.fullmatch(text) is None:
        raise Malformed("write the API's address as https://HOST/api/v3, as GitHub Enterprise has it")
    return text


def origin_repository(folder: Path) -> str:
    """Read from git which repository a folder was cloned from.

    Raises:
        ConfigError: its remote `origin` names none.
    """
    fix = "name it: --repository owner/name"
    try:
        told = run(("git", "config", "--local", "--get", "remote.origin.url"), cwd=folder, timeout=_SECONDS)
    except Unavailable as error:
        raise ConfigError(f"which repository is this? {error}", fix=fix) from error
    address = told.stdout.decode("utf-8", "replace").strip()
    try:
        return checked_repository(_path(address).strip("/").removesuffix(".git"))
    except Malformed:
        raise ConfigError("which repository is this? its remote origin names none", fix=fix) from None


def _path(address: str) -> str:
    """Give the path in a remote's address, or '' where it is a folder: `host:path` is one of ssh (git, URLs)."""
    if "://" in address:
        try:
            parts = urlsplit(address)
        except ValueError:
            return ""
        return parts.path if parts.scheme in ("https", "http", "ssh") else ""
    host, colon, path = address.partition(":")
    return path if colon and "/" not in host else ""
