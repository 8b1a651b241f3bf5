"""`gitops-bot serve`: broker and workspace under one parent."""

from pathlib import Path

import click

from gitops_bot.cli.host import config_option
from gitops_bot.cli.terminal import escaped


@click.command()
@config_option
def serve(config: Path | None) -> int:
    """Run the broker and the workspace together, until SIGTERM or Ctrl-C.

    They stay two processes, each with its own rights in the database. What they write comes out here with the name of
    the writer before each line. When one ends, the other is stopped, and the exit status is 1: neither is started again
    silently, that is the business of what supervises this command. When this command is killed, both end (on Linux).

    \b
    Before the first start:
      gitops-bot db upgrade          make or bring up the database
      gitops-bot policy check        read the bundle in policies/
      gitops-bot trust pin           pin that bundle on this host
    """
    from gitops_bot.bootstrap.serving import serve as run
    from gitops_bot.bootstrap.serving import services
    from gitops_bot.config import load, own_environment

    load(config)  # what is set wrongly is told once, and nothing is started
    return run(services(config), own_environment(), lambda line: click.echo(escaped(line), err=True))
