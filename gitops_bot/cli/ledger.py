"""`gitops-bot ledger`: the ledger is proved, shown and exported, on the broker's host."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gitops_bot.cli.host import config_option, host_database
from gitops_bot.cli.listing import json_option, print_json, print_rows
from gitops_bot.cli.terminal import escaped

if TYPE_CHECKING:
    from gitops_bot.authority.sealing import Fault
    from gitops_bot.config import Settings
    from gitops_bot.store.engine import Database

_FAILED = 1
_BATCH = 500
_COLUMNS = ("seq", "at", "kind", "principal", "channel", "reason", "ask", "capture")


@click.group()
def ledger() -> None:
    """Prove, show and export the ledger: everything asked, answered, refused and sent, with its reasons."""


@ledger.command()
@config_option
@json_option
def verify(config: Path | None, as_json: bool) -> int:
    """Recompute the chain from its first entry, each ask's end from its votes and bytes, and every passkey's assertion.

    The head that this host pinned in its trust file must be in the chain: a database that was rolled back is told.
    Exits 1 when anything is not as it was written. What was committed in the last second may not be sealed yet.
    """
    from gitops_bot.authority.rechecking import verify_assertions
    from gitops_bot.authority.sealing import verify as check

    with host_database(config) as (settings, database):
        result = check(database)
        assertions, unasserted = verify_assertions(database)
        faults = (*result.faults, *unasserted, *_behind(settings, database))
    if as_json:
        print_json(
            {
                "ok": not faults,
                "sealed": result.sealed,
                "unsealed": result.unsealed,
                "asks": result.asks,
                "assertions": assertions,
                "head": result.head,
                "faults": [{"what": fault.what, "seq": fault.seq, "ask": fault.ask} for fault in faults],
            }
        )
    else:
        click.echo(f"{result.sealed} entries sealed, {result.unsealed} not yet, {result.asks} asks; head {result.head}")
        click.echo(f"{assertions} assertions of passkeys verified again")
        for fault in faults:
            where = f"entry {fault.seq}" if fault.seq is not None else f"ask {fault.ask}" if fault.ask else "ledger"
            click.echo(escaped(f"FAULT  {where}: {fault.what}"), err=True)
        click.echo("every entry and every verdict holds" if not faults else f"{len(faults)} faults")
    return _FAILED if faults else 0


def _behind(settings: "Settings", database: "Database") -> "list[Fault]":
    """Compare the chain with the head that this host has seen before; a host without a trust file has seen none."""
    from gitops_bot.authority.sealing import Fault
    from gitops_bot.bootstrap.trust import read_trust
    from gitops_bot.store import ledger as rows

    if not settings.trust_file.exists():
        return []
    seen = read_trust(settings.trust_file).ledger_head
    if seen is None:
        return []
    with database.read() as tx:
        found = rows.sealed(tx, seen.seq - 1, 1)
    if found and (found[0].seq, found[0].hash) == (seen.seq, seen.hash):
        return []
    return [Fault("this host has seen another entry here: the database was rolled back or replaced", seen.seq)]


@ledger.command()
@click.option("--ask", "ask_id", metavar="ID", help="Only what happened to this ask, sealed or not.")
@click.option("--after", type=click.IntRange(min=0), default=0, metavar="N", help="Start after this place.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True)
@config_option
@json_option
def show(ask_id: str | None, after: int, limit: int, config: Path | None, as_json: bool) -> None:
    """Show entries in sealed order, or the whole story of one ask.

    \b
    Example:
      gitops-bot ledger show --ask 01j9...
    """
    from gitops_bot.store import ledger as rows

    with host_database(config) as (_, database), database.read() as tx:
        if ask_id is not None:
            entries: list[dict[str, Any]] = [dict(one) for one in rows.of_ask(tx, ask_id)]
        else:
            entries = [{"seq": one.seq, "hash": one.hash, **one.document} for one in rows.sealed(tx, after, limit)]
    following = entries[-1]["seq"] if ask_id is None and len(entries) == limit else None
    if as_json:
        print_json({"items": entries, "next": following})
        return
    print_rows(entries, _COLUMNS if ask_id is None else _COLUMNS[1:], empty="nothing here")
    if following is not None:
        click.echo(f"more: --after {following}")


@ledger.command()
@click.option("--after", type=click.IntRange(min=0), default=0, metavar="N", help="Start after this place.")
@config_option
def export(after: int, config: Path | None) -> None:
    """Write every sealed entry as one JSON line, in sealed order: {"seq", "hash", "entry"}.

    Each hash is SHA-256 over the tag gitops-bot/ledger/v1, a zero byte and the RFC 8785 form of
    {"entry", "prev", "seq"}, so that anybody can check the chain without this program.

    \b
    Example:
      gitops-bot ledger export > ledger.jsonl
    """
    with host_database(config) as (_, database):
        for line in _lines(database, after):
            click.echo(line)


def _lines(database: "Database", after: int) -> Iterator[str]:
    from gitops_bot.store import ledger as rows

    while True:
        with database.read() as tx:
            batch = rows.sealed(tx, after, _BATCH)
        for one in batch:
            yield json.dumps({"seq": one.seq, "hash": one.hash, "entry": one.document}, ensure_ascii=True)
        if len(batch) < _BATCH:
            return
        after = batch[-1].seq
