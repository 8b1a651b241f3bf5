"""`gitops-bot person`: what the host may do about a person at once, without anybody's signature: stop them."""

from pathlib import Path

import click

from gitops_bot.cli.host import config_option, host_database
from gitops_bot.cli.listing import json_option, print_json
from gitops_bot.cli.terminal import escaped


@click.group()
def person() -> None:
    """Stop a person's keys and accounts at once, on the broker's host only."""


@person.command()
@click.argument("name")
@click.option("--lift", is_flag=True, help="Reinstate them instead.")
@click.option("--reason", metavar="TEXT", help="Why; it stands in the ledger.")
@config_option
@json_option
def suspend(name: str, lift: bool, reason: str | None, config: Path | None, as_json: bool) -> None:
    """Suspend NAME: from now on nothing that they sign, write or press counts, and grants that count them fall.

    This only takes authority away, so it asks nobody. Nothing is executed, approved or denied by it. With --lift they
    are reinstated; do that only once the keys that others may hold are out of the bundle (`gitops-bot policy propose`).
    A bundle that is adopted and names only other keys of theirs reinstates them by itself.

    \b
    Example:
      gitops-bot person suspend alice --reason "her laptop was stolen"
      gitops-bot person suspend alice --lift
    """
    from gitops_bot.bootstrap import suspending
    from gitops_bot.bootstrap.rules import rules_of

    with host_database(config) as (settings, database):
        policy = rules_of(settings, database).policy
        if lift:
            who = suspending.lift(database, policy, name, reason)
            done = None
        else:
            done = suspending.suspend(database, policy, name, reason)
            who = done.person
    if as_json:
        grants, unreachable = ((), ()) if done is None else (done.grants, done.unreachable)
        print_json({"person": who, "suspended": not lift, "grants": grants, "unreachable": unreachable})
        return
    click.echo(escaped(f"{who} is {'reinstated' if done is None else 'suspended'}"))
    if done is not None:
        click.echo(f"grants that count them and are judged again now: {', '.join(done.grants) or 'none'}")
        if done.unreachable:
            click.echo(escaped(f"nobody can approve until they are reinstated: {', '.join(done.unreachable)}"))
