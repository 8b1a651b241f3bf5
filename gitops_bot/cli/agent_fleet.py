"""`gitops-bot agent add -- COMMAND`, `pause`, `resume`, `retire`, `tick`: agents that the fleet runs, on the host."""

from pathlib import Path
from typing import Any

import click

from gitops_bot.cli.host import config_option, host_database
from gitops_bot.cli.listing import json_option, print_json, when
from gitops_bot.cli.terminal import escaped
from gitops_bot.core.errors import Malformed

HARNESSES = ("command", "acpx")
WAKES = ("continuous", "scheduled", "event", "manual")
_REASON = click.option("--reason", default="", metavar="TEXT", help="Why, in a line that people read.")


def add_to_fleet(
    slug: str, principal: str, owner: str | None, purpose: str, given: dict[str, Any], config: Path | None
) -> None:
    """Add an agent that the fleet runs, and say when it is due."""
    from gitops_bot.bootstrap.managing import add
    from gitops_bot.bootstrap.trust import pinned_policy
    from gitops_bot.core.durations import parse_duration
    from gitops_bot.store.fleet import Setup
    from gitops_bot.store.states import HarnessKind, WakeOn, WakePolicy

    try:
        limit = parse_duration(given["turn_limit"])
    except Malformed as error:
        raise click.UsageError(f"--turn-limit: {error.message}; write 90s, 30m or 2h") from error
    setup = Setup(
        HarnessKind(given["harness"]),
        tuple(given["command"]),
        str(Path(given["folder"] or ".").absolute()),
        f"{given['harness']}:{given['provider']}",
        WakePolicy(given["wake"]),
        WakeOn(given["wake_on"]),
        limit,
        given["turns_a_day"],
        given["cron"],
        given["zone"] if given["cron"] else None,
    )
    with host_database(config) as (settings, database):
        policy = pinned_policy(settings.policies, settings.trust_file)
        added = add(database, policy, setup, slug=slug, principal=principal, owner=owner, purpose=purpose)
    due = "when somebody wakes it" if added.due_at is None else when(added.due_at)
    click.echo(f"added {added.agent.slug}; its first turn: {due}", err=True)


@click.command()
@click.argument("slug")
@_REASON
@config_option
def pause(slug: str, reason: str, config: Path | None) -> None:
    """Pause the agent SLUG: no turn starts until it is resumed.

    A turn that runs ends by itself; what the agent asked stays open.

    \b
    Example:
      gitops-bot agent pause linter --reason "the branch is frozen"
    """
    from gitops_bot.bootstrap import managing

    with host_database(config) as (_, database):
        done = managing.pause(database, slug, reason)
    click.echo(f"{done.agent.slug} is paused" + (" already" if done.repeated else ""))


@click.command()
@click.argument("slug")
@config_option
def resume(slug: str, config: Path | None) -> None:
    """Resume the paused agent SLUG; it is due at once, with what it was not told yet.

    \b
    Example:
      gitops-bot agent resume linter
    """
    from gitops_bot.bootstrap import managing

    with host_database(config) as (_, database):
        done = managing.resume(database, slug)
    click.echo(f"{done.agent.slug} runs" + (" already" if done.repeated else " again"))


@click.command()
@click.argument("slug")
@_REASON
@config_option
@json_option
def retire(slug: str, reason: str, config: Path | None, as_json: bool) -> None:
    """Retire the agent SLUG for good.

    Its tokens end, a turn that runs is ended, and what it asked is withdrawn to the backlog: denied by nobody.

    \b
    Example:
      gitops-bot agent retire linter --reason "its job is done"
    """
    from gitops_bot.bootstrap import managing

    with host_database(config) as (_, database):
        done = managing.retire(database, slug, reason)
    if as_json:
        print_json({"slug": done.agent.slug, "repeated": done.repeated, "withdrawn": list(done.withdrawn)})
        return
    click.echo(f"{done.agent.slug} is retired" + (" already" if done.repeated else ""))
    for ask in done.withdrawn:
        click.echo(f"withdrawn: {ask}")


@click.command()
@click.argument("slug")
@config_option
def tick(slug: str, config: Path | None) -> None:
    """Make the agent SLUG due now, whatever its schedule says; a broker starts its turn.

    \b
    Example:
      gitops-bot agent tick linter
    """
    from gitops_bot.bootstrap import managing

    with host_database(config) as (settings, database):
        from gitops_bot.bootstrap.hints import DatagramHint

        agent = managing.wake(database, slug)
        if (settings.state / "hints").is_dir():
            DatagramHint(settings.state / "hints", listen=False).notify()
    click.echo(f"{escaped(agent.slug)} is due now")
