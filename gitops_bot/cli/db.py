"""`gitops-bot db`: the database is brought to this version's schema, looked at, and copied while it is in use."""

import json
from pathlib import Path

import click

from gitops_bot.cli.terminal import escaped

_file = click.Path(dir_okay=False, path_type=Path)
_config = click.option("--config", type=_file, help="The settings file (default: gitops-bot.toml here).")
_url_file = click.option("--url-file", type=_file, help="A file (0600) that holds the database URL, instead.")
_database = click.option("--database", type=_file, help="An SQLite file, instead.")


@click.group()
def db() -> None:
    """Upgrade, check and back up the database.

    Services open the database with few rights. These commands use the owner's URL: [database] owner_url_file, or
    url_file where there is one user (SQLite).
    """


@db.command()
@_config
@_url_file
@_database
@click.option(
    "--accept-changed-schema",
    is_flag=True,
    help="Build upon a schema that is not what the migrations made (PostgreSQL, after a new major version).",
)
def upgrade(config: Path | None, url_file: Path | None, database: Path | None, accept_changed_schema: bool) -> None:
    """Bring the database to this version's schema; makes a new SQLite file with its folder.

    Running it again changes nothing. A schema that another hand changed is refused.

    \b
    Example:
      gitops-bot db upgrade
    """
    from gitops_bot.bootstrap import database as bootstrap
    from gitops_bot.store.schema import HEAD

    _, owner_url = _urls(config, url_file, database)
    digest = bootstrap.upgrade(owner_url, accept_changed=accept_changed_schema)
    click.echo(f"schema {HEAD}, sha256:{digest}")


@db.command()
@_config
@_url_file
@_database
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def check(config: Path | None, url_file: Path | None, database: Path | None, as_json: bool) -> None:
    """Look at the database: files, library, logins, schema, content. Exits 1 when something is wrong.

    Nothing is changed. On SQLite every page is read, which takes a while where there are many.
    """
    from gitops_bot.bootstrap import database as bootstrap

    url, owner_url = _urls(config, url_file, database)
    findings = bootstrap.check(url, owner_url)
    if as_json:
        rows = [{"name": item.name, "ok": item.ok, "detail": item.detail, "fix": item.fix} for item in findings]
        click.echo(json.dumps({"ok": all(item.ok for item in findings), "findings": rows}))
    else:
        for item in findings:
            click.echo(f"{'ok  ' if item.ok else 'FAIL'}  {item.name}: {escaped(item.detail)}")
            if not item.ok and item.fix:
                click.echo(f"      fix: {escaped(item.fix)}")
    if not all(item.ok for item in findings):
        raise SystemExit(1)


@db.command()
@click.argument("target", type=_file, metavar="FILE")
@_config
@_url_file
@_database
def backup(target: Path, config: Path | None, url_file: Path | None, database: Path | None) -> None:
    """Write a consistent copy of the database to FILE (0600) while everything runs; never overwrites.

    An SQLite copy is a database file itself; a PostgreSQL copy is for pg_restore.

    \b
    Example:
      gitops-bot db backup /var/backups/gitops-bot-monday.db
    """
    from gitops_bot.bootstrap.backup import backup as write

    write(_urls(config, url_file, database)[1], target)
    click.echo(f"wrote {escaped(str(target))}, {target.stat().st_size} bytes")


def _urls(config: Path | None, url_file: Path | None, database: Path | None) -> tuple[str, str]:
    """Give the URL of the services and that of the owner."""
    from gitops_bot import config as settings

    if url_file is not None and database is not None:
        raise click.UsageError("--url-file and --database exclude each other")
    if url_file is not None:
        url = settings.secret(url_file, "url")
        return url, url
    if database is not None:
        from sqlalchemy import URL

        url = URL.create("sqlite", database=str(database.absolute())).render_as_string()
        return url, url
    loaded = settings.load(config)
    return loaded.database_url, loaded.owner_url
