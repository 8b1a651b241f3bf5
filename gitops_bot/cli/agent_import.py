"""`gitops-bot agent import`: takes a folder of approval files over, on the broker's host."""

from collections import Counter
from pathlib import Path
from typing import Any

import click

from gitops_bot.cli.host import config_option, host_database
from gitops_bot.cli.listing import json_option, print_json
from gitops_bot.cli.terminal import escaped

_WORDS = {"asked": "asked", "recorded": "recorded, no verdict", "known": "known already", "refused": "REFUSED"}


@click.command("import")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False, exists=True))
@click.option("--agent", "slug", required=True, metavar="SLUG", help="The agent that asks what the open files ask.")
@click.option("--dry-run", is_flag=True, help="Say what would become of each file, and write nothing.")
@config_option
@json_option
def import_(folder: Path, slug: str, dry_run: bool, config: Path | None, as_json: bool) -> None:
    """Take the Markdown approval files of FOLDER over, each once.

    A file is front matter with `question`, `options` and `state`, and a body. Open ones become asks, ended ones lines
    in the agent's thread that claim nothing of who answered. Run it again as often as you like: a file is known by its
    bytes. Exits 4 when files were refused; the others are taken over all the same.

    \b
    Example:
      gitops-bot agent import approvals/ --agent nightly --dry-run
      gitops-bot agent import approvals/ --agent nightly
    """
    from gitops_bot.bootstrap.importing import import_folder
    from gitops_bot.bootstrap.rules import rules_of

    items: list[dict[str, Any]] = []
    with host_database(config) as (settings, database):
        rules = rules_of(settings, database)
        for one in import_folder(database, rules, folder, slug, dry=dry_run):
            items.append(
                {
                    "file": one.name,
                    "became": one.came.value,
                    "ask": one.ask,
                    "why": one.why,
                    "ignored": list(one.ignored),
                }
            )
            if not as_json:
                click.echo(_line(items[-1]))
    counts = Counter(item["became"] for item in items)
    if as_json:
        print_json({"dry_run": dry_run, "items": items, "counts": dict(sorted(counts.items()))})
    elif not items:
        click.echo(f"no Markdown files in {escaped(str(folder))}")
    else:
        click.echo(
            ", ".join(f"{count} {word}" for word, count in sorted(counts.items())) + (" (dry run)" if dry_run else "")
        )
    if counts["refused"]:
        raise SystemExit(4)


def _line(item: dict[str, Any]) -> str:
    more = item["why"] or item["ask"] or ""
    ignored = f" (keys that mean nothing here: {', '.join(item['ignored'])})" if item["ignored"] else ""
    return escaped(f"{item['file']}: {_WORDS[item['became']]}{': ' + more if more else ''}{ignored}")
