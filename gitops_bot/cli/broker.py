"""`gitops-bot broker`: the long-lived process that settles, delivers, measures and wakes."""

from pathlib import Path

import click


@click.command()
@click.option("--config", type=click.Path(path_type=Path, dir_okay=False), help="Settings (default: gitops-bot.toml).")
def broker(config: Path | None) -> int:
    """Run the broker until it is told to stop (SIGTERM or Ctrl-C).

    It polls the forge for approvals, provisions captures, sends `rescope` to parked loops, expires asks, delivers
    effects and seals the ledger. Everything it knows is in the database: kill it at any time and start it again.

    \b
    Before the first start:
      gitops-bot db upgrade          make or bring up the database
      gitops-bot policy check        read the bundle in policies/
      gitops-bot trust pin           pin that bundle on this host
    """
    from gitops_bot.bootstrap.broker import run
    from gitops_bot.bootstrap.hints import DatagramHint
    from gitops_bot.config import load

    settings = load(config)
    with DatagramHint(settings.state / "hints") as hint:
        return run(settings, outside=hint, ready=lambda: click.echo("broker: ready", err=True))
