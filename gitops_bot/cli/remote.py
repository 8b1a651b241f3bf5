"""What commands share that act over HTTP: the workspace's address and the token, which is never an argument."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gitops_bot.api.grammar import ID
from gitops_bot.cli.terminal import escaped
from gitops_bot.core.errors import ConfigError

if TYPE_CHECKING:
    from gitops_bot.api.client import Client
    from gitops_bot.bootstrap.shell_logins import Login

F = TypeVar("F", bound=Callable[..., Any])
STILL_OPEN = 3


def remote_options(command: F) -> F:
    """Give a command `--url` and `--token-file`."""
    url = click.option("--url", metavar="URL", help="The workspace's address  [$GITOPS_BOT_URL].")
    token = click.option(
        "--token-file",
        type=click.Path(path_type=Path, dir_okay=False),
        help="A file (0600) with the token  [or the token itself in $GITOPS_BOT_TOKEN].",
    )
    return url(token(command))


def connect(url: str | None, token_file: Path | None) -> "Client":
    """Make a client from the options or, where one is absent, from what the environment holds.

    Raises:
        UsageError: neither names an address or a token.
        ConfigError: others may read the token's file, or the address is none.
    """
    from gitops_bot.api.client import Client
    from gitops_bot.config import agent_environment, secret

    address = address_of(url)
    token = secret(token_file, "token") if token_file is not None else agent_environment()["GITOPS_BOT_TOKEN"]
    if not token:
        raise click.UsageError(
            "no token: give --token-file or set GITOPS_BOT_TOKEN (see `gitops-bot agent add --help`)"
        )
    if not (token.isascii() and token.isprintable() and " " not in token):
        raise ConfigError("the token is none", fix="put the token there, and nothing else")
    return Client(address, token)


def address_of(url: str | None) -> str:
    """Give the workspace's address from the option or the environment.

    Raises:
        UsageError: neither names one.
    """
    from gitops_bot.config import agent_environment

    address = url or agent_environment()["GITOPS_BOT_URL"]
    if not address:
        raise click.UsageError("no workspace: give --url or set GITOPS_BOT_URL, as http://localhost:8480")
    return address


def connect_person(url: str | None) -> "Client":
    """Make a client that acts as the person who logged in with this shell (`gitops-bot login`).

    Raises:
        UsageError: nobody did, there.
        ConfigError: others may read the credential's file, or several are there and no address is named.
    """
    from gitops_bot.api.client import Client

    found = person_login(url)
    if found is None:
        raise click.UsageError("this shell is logged in nowhere: gitops-bot login --url URL")
    return Client(found.url, found.credential)


def person_login(url: str | None) -> "Login | None":
    """Find the credential of the person who logged in with this shell; None when nobody did, there.

    Raises:
        ConfigError: as `connect_person`.
    """
    from gitops_bot.bootstrap.shell_logins import find
    from gitops_bot.config import agent_environment

    return find(url or agent_environment()["GITOPS_BOT_URL"] or None)


def connect_either(url: str | None, token_file: Path | None) -> "Client":
    """Make a client that acts as an agent where a token is given, else as the person who logged in with this shell.

    Raises:
        UsageError: there is neither.
        ConfigError: as `connect` and `connect_person`.
    """
    from gitops_bot.config import agent_environment

    if token_file is None and not agent_environment()["GITOPS_BOT_TOKEN"] and person_login(url) is not None:
        return connect_person(url)
    return connect(url, token_file)


def say_where(document: Mapping[str, Any], *, err: bool) -> None:
    """Say of an open gated ask that only signed commits answer it, whose are missing, and where they are pushed."""
    signed, quorum = document.get("signed"), document.get("quorum") or {}
    if document.get("state") != "OPEN" or not isinstance(signed, dict):
        return
    people = ", ".join(quorum.get("may_still") or ()) or "nobody"
    for line in (
        f"gated: only signed commits answer it, {quorum.get('missing')} more of {people}",
        f"  {signed.get('command')}",
        f"  pushed to {signed.get('branch')} of {signed.get('repository') or 'no repository yet'}",
    ):
        click.echo(escaped(line), err=err)


def checked_id(text: str) -> str:
    """Take an id from the command line; what would be another path of the API is a usage error."""
    if not ID.fullmatch(text):
        raise click.UsageError("ID is 26 lower-case letters and digits")
    return text
