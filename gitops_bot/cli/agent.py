"""`gitops-bot agent`: agents and their tokens, on the broker's host."""

import os
from pathlib import Path
from typing import Any

import click

from gitops_bot.cli.agent_fleet import HARNESSES, WAKES, add_to_fleet, pause, resume, retire, tick
from gitops_bot.cli.agent_import import import_
from gitops_bot.cli.agent_shown import COLUMNS, NONE, capsule, row, show, shown, text
from gitops_bot.cli.agent_watch import watched
from gitops_bot.cli.host import config_option, host_database
from gitops_bot.cli.listing import json_option, print_json, print_rows
from gitops_bot.core.errors import ConfigError


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
@click.option("--harness", type=click.Choice(HARNESSES), default="command", help="How the fleet runs COMMAND.")
@click.option("--folder", type=click.Path(file_okay=False), help="Where COMMAND runs (default: here).")
@click.option(
    "--provider", default="local", show_default=True, metavar="NAME", help="Its lane: whose limits it shares."
)
@click.option("--wake", type=click.Choice(WAKES), default="event", show_default=True, help="When it runs unwoken.")
@click.option("--cron", metavar="EXPR", help="For a scheduled one: five fields, as cron's.")
@click.option("--zone", default="UTC", show_default=True, metavar="ZONE", help="The time zone of --cron.")
@click.option("--wake-on", type=click.Choice(("any", "all")), default="any", show_default=True, help="Of its answers.")
@click.option("--turn-limit", default="30m", show_default=True, metavar="TIME", help="The longest turn.")
@click.option("--turns-a-day", type=click.IntRange(1), metavar="N", help="Its budget within 24 hours.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@config_option
def add(
    slug: str,
    principal: str,
    owner: str | None,
    is_loop: bool,
    purpose: str,
    token_file: Path | None,
    config: Path | None,
    **given: Any,
) -> None:
    """Add the agent SLUG: with a COMMAND one that the fleet runs, else one whose token is printed, this once.

    Exits 4 when the policy knows no such service or person, or the name is taken.

    \b
    Example, a shell that asks:
      gitops-bot agent add nightly --principal demo-agent --token-file nightly.token
      GITOPS_BOT_URL=http://localhost:8480 gitops-bot ask open "Ship it?" --token-file nightly.token
    \b
    Example, a loop:
      gitops-bot agent add tuner --principal demo-agent --loop --token-file loop.token
      gitops-bot loop run --broker-url http://localhost:8480 --loop-token-file loop.token ...
    \b
    Example, one that the fleet runs, woken by messages and answers, and one that runs each morning:
      gitops-bot agent add linter --principal demo-agent --folder /srv/linter -- /srv/linter/run
      gitops-bot agent add daily --principal demo-agent --wake scheduled --cron "30 7 * * *" -- /srv/daily/run
    """
    if given["command"]:
        if is_loop or token_file is not None:
            raise click.UsageError(
                "an agent that the fleet runs has no token of its own; leave --loop and --token-file"
            )
        add_to_fleet(slug, principal, owner, purpose, given, config)
        return
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
@click.option("--watch", is_flag=True, help="Keep the list up to date until Ctrl-C.")
@config_option
@json_option
def list_(after: str, limit: int, watch: bool, config: Path | None, as_json: bool) -> None:
    """List agents by slug, with what each is doing.

    Only WAITING_HUMAN and BLOCKED need a person, and are marked; every other status is well. With --watch the list
    follows what happens: redrawn in place on a terminal, else one line for each change (with --json one document).

    \b
    Example:
      gitops-bot agent list --watch
    """
    from gitops_bot.bootstrap import managing
    from gitops_bot.bootstrap.rules import rules_of

    with host_database(config) as (settings, database):
        rules = rules_of(settings, database)

        def read() -> tuple[list[dict[str, Any]], str | None]:
            found = managing.page(database, rules, after, limit)
            return [row(one) for one in found.rows], found.next

        if watch:
            watched(read, settings.state, as_json=as_json)
            return
        rows, following = read()
    if as_json:
        print_json({"items": rows, "next": following})
        return
    print_rows([shown(one) for one in rows], COLUMNS, empty=NONE)
    if following is not None:
        click.echo(f"more: --after {following}")


for one in (show, capsule, text, pause, resume, retire, tick, import_):
    agent.add_command(one)
