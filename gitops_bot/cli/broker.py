"""`gitops-bot broker`: the long-lived process that settles, delivers, measures and wakes."""

from dataclasses import replace
from pathlib import Path

import click


@click.command()
@click.option("--config", type=click.Path(path_type=Path, dir_okay=False), help="Settings (default: gitops-bot.toml).")
def broker(config: Path | None) -> int:
    """Run the broker until it is told to stop (SIGTERM or Ctrl-C).

    It polls the forge for approvals, provisions captures, sends `rescope` to parked loops, expires asks, delivers
    effects and seals the ledger. Everything it knows is in the database: kill it at any time and start it again.

    A loop that starts its own broker names its bridge in BROKER_CONTROL_ADDR (see docs/loop.md).

    \b
    Before the first start:
      gitops-bot db upgrade          make or bring up the database
      gitops-bot policy check        read the bundle in policies/
      gitops-bot trust pin           pin that bundle on this host
    """
    from gitops_bot.bootstrap.broker import run
    from gitops_bot.bootstrap.hints import DatagramHint
    from gitops_bot.config import is_degraded, load, starter

    settings = load(config)
    if is_degraded():
        settings = replace(settings, degraded=True)
    with DatagramHint(settings.state / "hints") as hint:
        return run(settings, outside=hint, starter=starter(), ready=lambda: click.echo("broker: ready", err=True))
