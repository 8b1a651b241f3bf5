"""What a forge of its own process starts with: accounts, repositories, grants from a JSON file, tokens from a second.

Tokens stand in a file that only its owner can read, never in argv, the environment or the seed itself.
"""

import json
import os
import stat
from pathlib import Path
from typing import Any

from gitops_bot.core.errors import ConfigError
from gitops_bot.sandbox.control import Control
from gitops_bot.sandbox.refusals import Rejected


def plant(control: Control, seed: Path) -> None:
    """Set a forge up from a seed file.

    The seed is an object with `tokens` (a file beside it: an object of login to token, mode 0600), `accounts`
    (`login`, `id`, `type`), `repositories` (`full_name`, `id`, `default_branch`, `private`, `files` of path to text)
    and `grants` (`repository`, `login`, `role_name`), and, where wanted, `apps` (`slug`, `id`, `bot_id`), `teams`
    (`organization`, `name`, `id`, `members` of login to state) and `hooks` (`repository`, `url`, `secret`, which names
    an entry of the tokens).

    Raises:
        ConfigError: a file cannot be read, the tokens are open to others, or a value does not fit.
    """
    read = _object(seed)
    tokens = _tokens(seed.parent / str(read.get("tokens", "tokens.json")))
    try:
        for account in read.get("accounts", []):
            login = account["login"]
            control.add_account(login, int(account["id"]), account.get("type", "User"), token=tokens.get(login))
        for repository in read.get("repositories", []):
            files = {path: str(text).encode() for path, text in repository.get("files", {}).items()}
            control.add_repository(
                repository["full_name"],
                int(repository["id"]),
                repository.get("default_branch", "main"),
                private=bool(repository.get("private", False)),
                files=files or None,
            )
        for app in read.get("apps", []):
            made, bot = control.add_app(app["slug"], int(app["id"]), int(app["bot_id"])), f"{app['slug']}[bot]"
            if bot in tokens:
                control.installation_token(made, lifetime=None, token=tokens[bot])
        for team in read.get("teams", []):
            control.add_team(team["organization"], team["name"], int(team["id"]))
            for login, state in team.get("members", {}).items():
                control.set_membership(int(team["id"]), login, state)
        for hook in read.get("hooks", []):
            control.add_hook(hook["repository"], hook["url"], tokens[hook["secret"]])
        for grant in read.get("grants", []):
            control.grant(grant["repository"], grant["login"], grant["role_name"])
    except (KeyError, TypeError, ValueError, AttributeError, Rejected) as error:
        raise ConfigError(f"{seed}: {type(error).__name__}: {error}") from error


def _object(path: Path) -> dict[str, Any]:
    try:
        read = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: {type(error).__name__}") from error
    if not isinstance(read, dict):
        raise ConfigError(f"{path}: not a JSON object")
    return read


def secret_of(path: Path) -> str:
    """Read the secret of a control file, at least 16 characters in one line.

    Raises:
        ConfigError: the file is open to others, or holds no such secret.
    """
    _closed(path, "the secret")
    text = path.read_text("utf-8", "replace").strip()
    if not 16 <= len(text) <= 500 or not text.isascii() or not text.isprintable() or " " in text:
        raise ConfigError(f"{path}: one line of 16 to 500 printable ASCII characters is needed")
    return text


def _closed(path: Path, what: str) -> None:
    try:
        state = path.lstat()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    if not stat.S_ISREG(state.st_mode) or state.st_uid != os.getuid() or state.st_mode & 0o077:
        raise ConfigError(f"{path}: {what} must be a plain file of yours with mode 0600", fix=f"chmod 600 {path}")


def _tokens(path: Path) -> dict[str, str]:
    _closed(path, "tokens")
    read = _object(path)
    if not all(isinstance(token, str) and token for token in read.values()):
        raise ConfigError(f"{path}: a token is no text")
    return read
