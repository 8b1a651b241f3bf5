"""`gitops-bot trust repin`: a new epoch on this host, told before it is done."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gitops_bot.cli.host import broker_database, config_option
from gitops_bot.cli.listing import json_option, print_json
from gitops_bot.cli.terminal import escaped

if TYPE_CHECKING:
    from gitops_bot.bootstrap.repinning import Plan

_NOT_DONE = 1


@click.command()
@click.option(
    "--from",
    "source",
    type=click.Choice(["disk", "database"]),
    required=True,
    help="Pin the bundle in the policies folder, or the one that the database has in force.",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@config_option
@json_option
def repin(source: str, yes: bool, config: Path | None, as_json: bool) -> int:
    """Pin this host anew, on the broker's host only: a new epoch begins, and the signed channel opens again.

    For a database or trust file that was lost or restored, or keys so lost that no quorum is left (docs/incidents.md).
    Everything that is open is withdrawn to the backlog, every grant that was not spent lapses, no vote of before
    counts. It prints what it will do, and asks. While people can still sign, `gitops-bot policy propose` is the better
    way: this one needs nobody's signature, and everybody is told.

    \b
    Example:
      gitops-bot trust repin --from database
    """
    from gitops_bot.bootstrap.repinning import plan
    from gitops_bot.bootstrap.repinning import repin as do

    if as_json and not yes:
        raise click.UsageError("--json needs --yes: there is nobody to ask")
    with broker_database(config) as (settings, database):
        decided = plan(settings, database, "disk" if source == "disk" else "database")
        if not as_json:
            _print(decided)
        if not yes and not click.confirm("Pin this host anew?"):
            click.echo("nothing was changed", err=True)
            return _NOT_DONE
        do(settings, database, decided)
    if as_json:
        print_json(_document(decided))
    else:
        click.echo(f"epoch {decided.epoch} began under version {decided.policy.version}, {decided.policy.digest}")
    return 0


def _print(decided: "Plan") -> None:
    before, policy = decided.before, decided.policy
    if before is None:
        click.echo(escaped(f"pinned now   nothing: {decided.lost}"))
    else:
        click.echo(f"pinned now   version {before.policy_version}, {before.policy_digest}, epoch {before.epoch}")
    click.echo(f"database     epoch {decided.database_epoch}")
    click.echo(f"to be pinned version {policy.version}, {policy.digest}, epoch {decided.epoch}")
    for sentence in decided.changes:
        click.echo(escaped(f"  {sentence}"))
    click.echo(f"open asks that are withdrawn to the backlog: {decided.open_asks}")
    click.echo(f"grants that lapse unspent: {decided.grants}")
    click.echo("votes of before count nowhere; every person is to be told; compare `gitops-bot trust show` with them")


def _document(decided: "Plan") -> dict[str, Any]:
    before = decided.before
    return {
        "epoch": decided.epoch,
        "policy": {"digest": decided.policy.digest, "version": decided.policy.version},
        "was": None if before is None else {"epoch": before.epoch, "digest": before.policy_digest},
        "changes": list(decided.changes),
        "withdrawn": decided.open_asks,
        "lapsed": decided.grants,
    }
