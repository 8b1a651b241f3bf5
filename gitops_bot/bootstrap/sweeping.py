"""Asking a forge for webhook deliveries that failed: by the broker's duty, and by hand. Under a token these are of the
repositories' webhooks, as an App of the one that it has."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from gitops_bot.authority.duties import Pace, RowDuty
from gitops_bot.bootstrap.clock import wall_seconds
from gitops_bot.bootstrap.forge import app_of, is_app
from gitops_bot.broker import hooks_sweep
from gitops_bot.broker.hooks_sweep import Sweep
from gitops_bot.config import Settings, secret
from gitops_bot.core.errors import ConfigError
from gitops_bot.store.engine import Database

if TYPE_CHECKING:
    from gitops_bot.forge.deliveries import Asked
    from gitops_bot.forge.transport import Transport

PATH: Final = "/hooks/github"
APP: Final = "app"
"""The key of the one webhook of an App."""
LOOK_BACK_MS: Final = 3_600_000
"""What failed longer ago the poll has found."""
MOST_AT_ONCE: Final = 10
MOST_BY_HAND: Final = 100


def duties(settings: Settings, database: Database) -> list[RowDuty]:
    """Make the broker's duty, armed; none where no webhook is served."""
    if not settings.forge.webhook_secret_files or not settings.forge.repositories:
        return []

    def ask_again(key: str) -> int:
        return len(redeliver(settings, (key,), LOOK_BACK_MS, MOST_AT_ONCE))

    sweep = Sweep(database, ask_again)
    sweep.arm((APP,) if is_app(settings) else settings.forge.repositories)
    return [RowDuty(hooks_sweep.DUTY, database, sweep.one, Pace(batch=1))]


def redeliver(settings: Settings, repositories: tuple[str, ...], back_ms: int, most: int) -> "tuple[Asked, ...]":
    """Ask for what this workspace's webhooks (as an App its one) failed to deliver in the last so many ms; give that.

    Raises:
        ConfigError: no repository, or no usable credential.
        Unavailable: the forge does not answer, or (refused) not to this credential.
    """
    from gitops_bot.forge.deliveries import ask_again, ask_app_again

    since = int(wall_seconds() * 1000) - back_ms
    address = settings.origin.rstrip("/") + PATH
    if not settings.forge.repositories:
        raise ConfigError("no repository of a forge is configured", fix='[forge] repositories = ["OWNER/NAME"]')
    if is_app(settings):
        app = app_of(settings)
        try:
            return ask_app_again(app.wire, address, since, most)
        finally:
            app.close()
    found: list[Asked] = []
    with _wire(settings) as wire:
        for repository in repositories:
            found += ask_again(wire, repository, address, since, most - len(found))
    return tuple(found)


@contextmanager
def _wire(settings: Settings) -> "Iterator[Transport]":
    from gitops_bot.forge.transport import Transport

    wire = Transport(settings.forge.api_url, secret(settings.forge.token_file, "token"))
    try:
        yield wire
    finally:
        wire.close()
