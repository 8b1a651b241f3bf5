"""`gitops-bot agent`: agents and their tokens, on the broker's host."""

import os
from pathlib import Path
from typing import Any

import click

from gitops_bot.cli.agent_import import import_
from gitops_bot.cli.host import config_option, host_database
from gitops_bot.cli.listing import json_option, print_json, print_members, print_rows
from gitops_bot.core.errors import ConfigError, Reason, Refusal, refuse

_COLUMNS = ("slug", "kind", "principal", "owner", "state", "purpose")


@click.group()
def agent() -> None:
    """Add agents, and see which there are.

    An agent acts as a service of the policy and belongs to a person. It asks with a token over HTTP, and never answers.
    """


@agent.command()
@click.argument("slug")
@click.option("--principal", required=True, metavar="NAME", help="The service of the policy that it acts as.")
@click.option("--owner", metavar="NAME", help="The person it belongs to (default: the service's owner).")
@click.option("--loop", "is_loop", is_flag=True, help="A loop token: it registers loops and does nothing else.")
@click.option("--purpose", default="", metavar="TEXT", help="What it is for, in one line.")
@click.option(
    "--token-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the token into this new file (0600) instead of printing it.",
)
@config_option
def add(
    slug: str,
    principal: str,
    owner: str | None,
    is_loop: bool,
    purpose: str,
    token_file: Path | None,
    config: Path | None,
) -> None:
    """Add the agent SLUG and print its token, this once: only a hash is kept.

    Exits 4 when the policy knows no such service or person, or the name is taken.

    \b
    Example, a shell that asks:
      gitops-bot agent add nightly --principal demo-agent --token-file nightly.token
      GITOPS_BOT_URL=http://localhost:8480 gitops-bot ask open "Ship it?" --token-file nightly.token
    \b
    Example, a loop:
      gitops-bot agent add tuner --principal demo-agent --loop --token-file loop.token
      gitops-bot loop run --broker-url http://localhost:8480 --loop-token-file loop.token ...
    """
    from gitops_bot.bootstrap.enrolment import add_agent
    from gitops_bot.bootstrap.trust import pinned_policy

    with host_database(config) as (settings, database):
        policy = pinned_policy(settings.policies, settings.trust_file)
        descriptor = None if token_file is None else _reserve(token_file)
        added = False
        try:
            found, token = add_agent(
                database, policy, slug=slug, principal=principal, owner=owner, purpose=purpose, loop=is_loop
            )
            added = True
        finally:
            if descriptor is not None and token_file is not None and not added:
                os.close(descriptor)
                token_file.unlink(missing_ok=True)
    if descriptor is None:
        click.echo(token)
        click.echo(f"added {found.slug} ({found.kind.value}); the token above is shown this once", err=True)
        return
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(token + "\n")
    click.echo(f"added {found.slug} ({found.kind.value}); its token is in {token_file}", err=True)


def _reserve(token_file: Path) -> int:
    """Make the file before the token exists, so that no token is lost to a path that cannot be written."""
    try:
        return os.open(token_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ConfigError(f"cannot make {token_file}: {error.strerror}", fix="name a new file") from error


@agent.command("list")
@click.option("--after", default="", metavar="SLUG", help="Start after this one.")
@click.option("--limit", type=click.IntRange(1, 200), default=50, show_default=True)
@config_option
@json_option
def list_(after: str, limit: int, config: Path | None, as_json: bool) -> None:
    """List agents by slug."""
    from gitops_bot.store import agents

    with host_database(config) as (_, database), database.read() as tx:
        found = agents.page(tx, after, limit)
    rows = [_document(one) for one in found]
    following = found[-1].slug if len(found) == limit else None
    if as_json:
        print_json({"items": rows, "next": following})
        return
    print_rows(rows, _COLUMNS, empty="no agents; `gitops-bot agent add --help` says how to add one")
    if following is not None:
        click.echo(f"more: --after {following}")


@agent.command()
@click.argument("slug")
@config_option
@json_option
def show(slug: str, config: Path | None, as_json: bool) -> None:
    """Show one agent and how many of its asks are open."""
    from gitops_bot.core.asks import AskKind
    from gitops_bot.store import agents, asks

    with host_database(config) as (_, database), database.read() as tx:
        found = agents.by_slug(tx, slug)
        if found is None:
            raise Refusal(refuse(Reason.NOT_FOUND, f"No agent {slug[:64]!r}."))
        open_asks = {kind.value: asks.count_open(tx, found.id, kind) for kind in AskKind}
    document = {**_document(found), "open_asks": open_asks}
    if as_json:
        print_json(document)
    else:
        print_members(document, ("id", *_COLUMNS, "pause_reason", "open_asks"))


def _document(found: Any) -> dict[str, Any]:
    return {
        "id": found.id,
        "slug": found.slug,
        "kind": found.kind.value,
        "principal": found.principal,
        "owner": found.owner,
        "state": found.state.value,
        "pause_reason": found.pause_reason,
        "purpose": found.purpose,
    }


agent.add_command(import_)
