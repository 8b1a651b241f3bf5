"""`gitops-bot agent`: agents and their tokens, on the broker's host."""

import os
from pathlib import Path
from typing import Any

import click

from gitops_bot.cli.agent_fleet import HARNESSES, WAKES, add_to_fleet, pause, resume, retire, tick
from gitops_bot.cli.agent_import import import_
from gitops_bot.cli.host import config_option, host_database
from gitops_bot.cli.listing import json_option, print_json, print_members, print_rows
from gitops_bot.core.errors import ConfigError

_COLUMNS = ("slug", "kind", "principal", "owner", "state", "purpose")
_LISTED = ("slug", "status", "due_at", "due_reason", "outcome", "owner", "doing")


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
@config_option
@json_option
def list_(after: str, limit: int, config: Path | None, as_json: bool) -> None:
    """List agents by slug, with what each is doing.

    Only WAITING_HUMAN and BLOCKED need a person; every other status is well.
    """
    from gitops_bot.bootstrap import managing
    from gitops_bot.bootstrap.rules import rules_of

    with host_database(config) as (settings, database):
        found = managing.page(database, rules_of(settings, database), after, limit)
    rows = [_row(one) for one in found.rows]
    if as_json:
        print_json({"items": rows, "next": found.next})
        return
    print_rows(rows, _LISTED, empty="no agents; `gitops-bot agent add --help` says how to add one")
    if found.next is not None:
        click.echo(f"more: --after {found.next}")


@agent.command()
@click.argument("slug")
@config_option
@json_option
def show(slug: str, config: Path | None, as_json: bool) -> None:
    """Show one agent: what it is doing, its open asks, and how the fleet runs it."""
    from gitops_bot.bootstrap import managing
    from gitops_bot.bootstrap.rules import rules_of

    with host_database(config) as (settings, database):
        row, standing = managing.shown(database, rules_of(settings, database), slug)
    open_asks = [{"id": ask.id, "kind": ask.kind, "verb": ask.verb} for ask in row.open_asks]
    document = {**_row(row), "open_asks": open_asks, "fleet": None if standing is None else _standing(standing)}
    if as_json:
        print_json(document)
        return
    print_members(document, ("id", *_COLUMNS, "status", "doing", "pause_reason", "open_asks"))
    if document["fleet"] is not None:
        print_members(document["fleet"], tuple(document["fleet"]))


def _row(one: Any) -> dict[str, Any]:
    fleet = one.fleet
    return {
        **_document(one.agent),
        "status": one.status.value,
        "needs_person": one.needs_person,
        "doing": one.doing,
        "due_at": None if fleet is None else fleet.due_at,
        "due_reason": None if fleet is None else fleet.due_reason,
        "outcome": None if fleet is None else fleet.outcome,
    }


def _standing(found: Any) -> dict[str, Any]:
    setup = found.setup
    return {
        "harness": setup.harness.value,
        "command": list(setup.command),
        "folder": setup.folder,
        "lane": setup.lane,
        "wakes": setup.policy.value,
        "cron": setup.cron,
        "zone": setup.zone,
        "wake_on": setup.wake_on.value,
        "turn_limit_ms": setup.turn_limit,
        "turns_a_day": setup.turns_a_day,
        "due_at": found.due_at,
        "due_reason": found.due_reason,
        "outcome": found.outcome,
        "settled_at": found.settled_at,
        "report": found.report,
    }


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


for one in (pause, resume, retire, tick, import_):
    agent.add_command(one)
