"""`gitops-bot webhook`: what the forge could not deliver, asked for again."""

from dataclasses import asdict
from pathlib import Path

import click

from gitops_bot.cli.host import config_option
from gitops_bot.cli.listing import json_option, print_json, print_rows

_COLUMNS = ("repository", "hook", "delivery", "event", "guid")


@click.group()
def webhook() -> None:
    """Look after the webhook of a repository, or of the App."""


@webhook.command()
@click.option("--since", default="1h", show_default=True, metavar="TIME", help="How far to look back, as in 30m or 2d.")
@config_option
@json_option
def redeliver(since: str, config: Path | None, as_json: bool) -> None:
    """Ask the forge to send again what this workspace's webhooks failed to deliver, and list it.

    A delivery of which any attempt arrived, or three failed, is left alone; what arrives twice changes nothing. Needs a
    token that may administer webhooks, or the App's key. The broker does the same by itself every five minutes, and the
    poll finds whatever stays lost.

    \b
    Example:
      gitops-bot webhook redeliver --since 2h --json
    """
    from gitops_bot.bootstrap.sweeping import MOST_BY_HAND
    from gitops_bot.bootstrap.sweeping import redeliver as ask_again
    from gitops_bot.config import load
    from gitops_bot.core.durations import parse_duration

    settings = load(config)
    back = parse_duration(since, where="--since")
    asked = [asdict(one) for one in ask_again(settings, settings.forge.repositories, back, MOST_BY_HAND)]
    if as_json:
        print_json({"asked": asked})
    else:
        print_rows(asked, _COLUMNS, empty="nothing failed that could be sent again")
