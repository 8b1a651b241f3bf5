"""`gitops-bot backlog`: decisions that ended without a verdict, seen and asked anew by a person over HTTP."""

import click

from gitops_bot.cli.ask_shown import id_of
from gitops_bot.cli.listing import json_option, print_json, print_rows
from gitops_bot.cli.remote import checked_id, connect_person
from gitops_bot.cli.terminal import escaped

_COLUMNS = ("ask", "agent", "kind", "cause", "entered_at", "text")
_url = click.option("--url", metavar="URL", help="The workspace's address  [where this shell is logged in].")


@click.group()
def backlog() -> None:
    """See which decisions nobody took, and ask them anew.

    An ask that expired, or was withdrawn with its agent, approved nothing and waits here. These commands act as the
    person who logged in with this shell (`gitops-bot login`).
    """


@backlog.command("list")
@click.option("--before", default="", metavar="ID", help="Start before this one.")
@click.option("--limit", type=click.IntRange(1, 200), default=50, show_default=True)
@_url
@json_option
def list_(before: str, limit: int, url: str | None, as_json: bool) -> None:
    """List the backlog, newest first.

    \b
    Example:
      gitops-bot backlog list --json
    """
    found = connect_person(url).get("/backlog", {"before": before, "limit": limit})
    if as_json:
        print_json(found)
        return
    print_rows(found["items"], _COLUMNS, empty="the backlog is empty")
    if found.get("next"):
        click.echo(escaped(f"more: --before {found['next']}"))


@backlog.command()
@click.argument("ask_id", metavar="ID")
@_url
@json_option
def reopen(ask_id: str, url: str | None, as_json: bool) -> None:
    """Ask the decision of ask ID anew, with a fresh binding, and print the new ask's id.

    Exits 4 when it is not in the backlog, or the policy would not ask it any more.

    \b
    Example:
      gitops-bot backlog reopen 01j...
    """
    document = connect_person(url).post(f"/backlog/{checked_id(ask_id)}/reopen")
    if as_json:
        print_json(document)
    else:
        click.echo(id_of(document))
