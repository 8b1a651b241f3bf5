"""`gitops-bot agent list --watch`: a list that follows what happens, in place on a terminal and in lines elsewhere.

It leaves with Ctrl-C. The look each second is the truth; a nudge of another process of this host only shortens it.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gitops_bot.cli.agent_shown import COLUMNS, NONE, shown
from gitops_bot.cli.listing import print_json, print_rows
from gitops_bot.cli.terminal import escaped
from gitops_bot.core.errors import ConfigError

if TYPE_CHECKING:
    from gitops_bot.bootstrap.hints import DatagramHint

LOOK_SECONDS = 1.0
_HOME_AND_CLEAR = "\x1b[H\x1b[2J"
Rows = list[dict[str, Any]]


def watched(read: Callable[[], tuple[Rows, str | None]], state: Path, *, as_json: bool) -> None:
    """Show the rows anew at each change until Ctrl-C."""
    before: Rows | None = None
    try:
        with _nudges(state / "hints") as hint:
            while True:
                rows, following = read()
                if rows != before:
                    _draw(rows, before, following, as_json=as_json)
                before = rows
                hint.wait(LOOK_SECONDS)
    except KeyboardInterrupt:
        click.echo(err=True)


def _nudges(folder: Path) -> "DatagramHint":
    """Listen for nudges; where a socket's path would be too long, the look each second does."""
    from gitops_bot.bootstrap.hints import DatagramHint

    try:
        return DatagramHint(folder)
    except ConfigError:
        return DatagramHint(folder, listen=False)


def _draw(rows: Rows, before: Rows | None, following: str | None, *, as_json: bool) -> None:
    if as_json:
        print_json({"items": rows, "next": following})
    elif sys.stdout.isatty():
        click.echo(_HOME_AND_CLEAR, nl=False)
        print_rows([shown(one) for one in rows], COLUMNS, empty=NONE)
        if following is not None:
            click.echo(f"more: --after {following}")
        click.echo("Ctrl-C leaves")
    else:
        _tell(rows, before)
    sys.stdout.flush()


def _tell(rows: Rows, before: Rows | None) -> None:
    if not rows:
        click.echo(NONE)
    known = {one["slug"]: one for one in before or ()}
    for one in rows:
        if known.get(one["slug"]) != one:
            needs = " (needs you)" if one["needs_person"] else ""
            click.echo(escaped(f"{one['slug']}: {one['status']}{needs}: {one['doing']}"))
