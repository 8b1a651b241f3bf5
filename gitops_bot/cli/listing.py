"""How commands print: one JSON document with `--json`, else aligned lines in which nothing of others' text acts."""

import datetime
import json
from collections.abc import Mapping, Sequence
from typing import Any

import click

from gitops_bot.cli.terminal import escaped

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
MOST_WIDTH = 60


def print_json(document: object) -> None:
    """Print a document as one line of ASCII JSON."""
    click.echo(json.dumps(document, ensure_ascii=True))


def print_rows(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], *, empty: str) -> None:
    """Print rows as aligned columns under their names; `empty` when there are none."""
    if not rows:
        click.echo(empty)
        return
    cells = [[_cut(cell(name, row.get(name))) for name in columns] for row in rows]
    widths = [max(len(name), *(len(line[at]) for line in cells)) for at, name in enumerate(columns)]
    for line in ([name.upper() for name in columns], *cells):
        click.echo("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())


def print_members(document: Mapping[str, Any], names: Sequence[str]) -> None:
    """Print members of an object, one line each; what is absent or null is left out."""
    shown = [(name, document[name]) for name in names if document.get(name) not in (None, "", [], {})]
    width = max((len(name) for name, _ in shown), default=0)
    for name, value in shown:
        click.echo(f"{name.ljust(width)}  {cell(name, value)}")


def cell(name: str, value: object) -> str:
    """Write one value for a terminal; names that end in `_at` or are `at` are times."""
    if value is None:
        return "-"
    if isinstance(value, int) and not isinstance(value, bool) and (name.endswith("_at") or name == "at"):
        return when(value)
    if isinstance(value, str):
        return escaped(value)
    return escaped(json.dumps(value, ensure_ascii=False))


def when(milliseconds: int) -> str:
    """Write a time as ISO 8601 in UTC, to the second."""
    try:
        return datetime.datetime.fromtimestamp(milliseconds / 1000, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return str(milliseconds)


def _cut(text: str) -> str:
    return text if len(text) <= MOST_WIDTH else text[: MOST_WIDTH - 1] + "…"
