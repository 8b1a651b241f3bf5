"""`gitops-bot workspace`: becomes `python -m workspace`; the product never imports the workspace."""

import os
import sys
from pathlib import Path

import click

from gitops_bot.cli.host import config_option


@click.command()
@config_option
def workspace(config: Path | None) -> None:
    """Serve the HTTP API, by which loops, agents and shells come in, until SIGTERM or Ctrl-C.

    It binds [workspace] bind, 127.0.0.1:8480 unless told otherwise; TLS is the business of what stands in front. It
    opens the database in its own role, which cannot write grants, signed votes or the policy in force.

    \b
    Before the first start, as for `gitops-bot broker`:
      gitops-bot db upgrade
      gitops-bot trust pin
    """
    # -P: a folder named like a module of ours in the current folder is not imported.
    argv = [sys.executable, "-P", "-m", "workspace", *(() if config is None else ("--config", str(config)))]
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, argv)  # noqa: S606 # replaces this process; no shell, argv is ours
