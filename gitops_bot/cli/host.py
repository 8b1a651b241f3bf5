"""What commands on the broker's host share: the settings, the pinned policy, the database in the host's role."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from gitops_bot.config import Settings
    from gitops_bot.store.engine import Database
    from gitops_bot.store.roles import Role

config_option = click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Settings (default: $GITOPS_BOT_CONFIG, else gitops-bot.toml here).",
)


@contextmanager
def host_database(config: Path | None) -> "Iterator[tuple[Settings, Database]]":
    """Open the database in the host's role for one command.

    Raises:
        ConfigError: the settings or the database are not right.
        Unavailable: the database cannot be reached.
    """
    from gitops_bot.store.roles import Role

    with _opened(config, Role.HOST) as found:
        yield found


@contextmanager
def broker_database(config: Path | None) -> "Iterator[tuple[Settings, Database]]":
    """Open the database in the broker's role, for the commands that write what is the broker's alone: bundles, the
    pointer, the end of grants. They run beside a broker, with its settings.

    Raises:
        ConfigError: the settings or the database are not right.
        Unavailable: the database cannot be reached.
    """
    from gitops_bot.store.roles import Role

    with _opened(config, Role.BROKER) as found:
        yield found


@contextmanager
def _opened(config: Path | None, role: "Role") -> "Iterator[tuple[Settings, Database]]":
    from gitops_bot.bootstrap.database import open_database
    from gitops_bot.config import load

    settings = load(config)
    database = open_database(settings.database_url, role, pool_size=2)
    try:
        yield settings, database
    finally:
        database.close()
