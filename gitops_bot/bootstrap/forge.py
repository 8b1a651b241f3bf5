"""The way to the forge as it is configured: a token, or a GitHub App with its private key; never both.

Secrets are read once, from files that only their owner may read. Nothing is asked of the forge here.
"""

import time
from typing import TYPE_CHECKING

from gitops_bot.bootstrap.clock import wall_seconds
from gitops_bot.config import Settings, secret
from gitops_bot.core.errors import ConfigError

if TYPE_CHECKING:
    from gitops_bot.forge.app import App
    from gitops_bot.forge.client import GitHubForge


def is_app(settings: Settings) -> bool:
    """Tell whether the bot is a GitHub App.

    Raises:
        ConfigError: it is given a token too, or half of what an App needs.
    """
    forge = settings.forge
    if not forge.app_id and forge.private_key_file is None and not forge.installation:
        return False
    if forge.token_file is not None:
        raise ConfigError(
            "[forge] names a token and a GitHub App",
            fix="delete token_file to be the App, or app_id, private_key_file and installation to use the token",
        )
    if not forge.app_id:
        raise ConfigError("[forge] has parts of a GitHub App and no app_id", fix="app_id = the App ID of its page")
    if forge.private_key_file is None:
        fix = 'generate a private key on the App\'s page, chmod 600 it, private_key_file = "its path"'
        raise ConfigError("[forge] app_id is set and no private_key_file", fix=fix)
    owners = {name.partition("/")[0].lower() for name in forge.repositories}
    if forge.installation and len(owners) > 1:
        raise ConfigError(
            "[forge] installation is one account's, and the repositories are of several",
            fix="delete installation; each repository's is then looked up",
        )
    return True


def app_of(settings: Settings) -> "App":
    """Make the App of the settings.

    Raises:
        ConfigError: its key cannot be used.
    """
    from gitops_bot.forge.app import App

    forge = settings.forge
    key = secret(forge.private_key_file, "private_key")
    return App(forge.api_url, forge.app_id, key, wall_seconds, time.monotonic, forge.installation)


def client_of(settings: Settings) -> "GitHubForge | None":
    """Make the forge's adapter; None where no repository is configured.

    Raises:
        ConfigError: there is no usable credential, or there are two.
    """
    forge = settings.forge
    if not forge.repositories:
        return None
    from gitops_bot.forge.client import GitHubForge

    if not is_app(settings):
        return GitHubForge(forge.api_url, secret(forge.token_file, "token"))
    from gitops_bot.forge.wires import AppWires

    return GitHubForge(forge.api_url, AppWires(app_of(settings), forge.repositories))
