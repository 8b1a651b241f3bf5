"""`gitops-bot agent show`, `capsule`, `text`: one agent, and what one of its turns was told and said, on the host."""

from pathlib import Path
from typing import Any

import click

from gitops_bot.cli.host import config_option, host_database
from gitops_bot.cli.listing import json_option, print_json, print_members, print_rows
from gitops_bot.cli.terminal import escaped

COLUMNS = ("slug", "status", "needs_you", "due_at", "due_reason", "outcome", "owner", "doing")
NONE = "no agents; `gitops-bot agent add --help` says how to add one"
_MEMBERS = ("id", "slug", "kind", "principal", "owner", "state", "purpose", "status", "doing", "pause_reason")
_TURN = ("run", "version", "reason", "started_at", "took", "stop", "outcome")
_NAMED = click.argument("name", metavar="SLUG|RUN")


@click.command()
@click.argument("slug")
@config_option
@json_option
def show(slug: str, config: Path | None, as_json: bool) -> None:
    """Show one agent: what it is doing, what it asks, and how the fleet runs it, with its last turns.

    \b
    Example:
      gitops-bot agent show linter
    """
    from gitops_bot.bootstrap import looking
    from gitops_bot.bootstrap.rules import rules_of

    with host_database(config) as (settings, database):
        found = looking.whole(database, rules_of(settings, database), slug)
    asks = [
        {"id": ask.id, "kind": ask.kind, "verb": ask.verb, "opened_at": ask.opened_at} for ask in found.row.open_asks
    ]
    document: dict[str, Any] = {**row(found.row), "open_asks": asks, "fleet": None, "turns": [], "untold": []}
    if found.standing is not None:
        document["fleet"] = _standing(found.standing)
        document["turns"] = [turn(one) for one in found.turns]
        document["untold"] = [{"kind": one.kind.value, "ref": one.ref, "at": one.at} for one in found.untold]
    if as_json:
        print_json(document)
        return
    print_members(document, _MEMBERS)
    if found.standing is not None:
        print_members(document["fleet"], tuple(document["fleet"]))
    _section("open asks", asks, ("id", "kind", "verb", "opened_at"))
    _section("not told yet", document["untold"], ("kind", "ref", "at"))
    _section("last turns", [_with_time(one) for one in document["turns"]], _TURN)


@click.command()
@_NAMED
@config_option
@json_option
def capsule(name: str, config: Path | None, as_json: bool) -> None:
    """Print the capsule of an agent's last turn, or of the run RUN: what it was handed, word for word.

    RUN.VERSION names an earlier body of a run that was dispatched again; all of its bodies have the same capsule.

    \b
    Example:
      gitops-bot agent capsule linter
    """
    found = _turn(name, config)
    if as_json:
        print_json({**turn(found.shown.row), "capsule": found.shown.capsule})
        return
    _print(found.shown.capsule)


@click.command()
@_NAMED
@config_option
@json_option
def text(name: str, config: Path | None, as_json: bool) -> None:
    """Print what the body of an agent's last turn, or of the run RUN, said: so far while it runs, else what landed.

    It is an agent's text, whatever it says of itself.

    \b
    Example:
      gitops-bot agent text linter
    """
    found = _turn(name, config)
    lines = [
        {"kind": one.kind, "author_kind": one.author_kind, "at": one.at, "text": getattr(one.text, "text", one.text)}
        for one in found.shown.lines
    ]
    if as_json:
        print_json({**turn(found.shown.row), "text": found.text, "lines": lines})
        return
    if found.text is not None:
        _print(found.text)
        return
    for line in lines:
        click.echo(f"{line['kind']} by {'gitops-bot' if line['author_kind'] == 'system' else 'the agent'}:")
        _print(line["text"])
    if not lines:
        click.echo("nothing of it landed")


def _turn(name: str, config: Path | None) -> Any:
    from gitops_bot.bootstrap import looking

    with host_database(config) as (_, database):
        return looking.turn(database, name)


def _print(said: str) -> None:
    """Print lines of others, each with what a terminal would obey escaped."""
    for line in said.split("\n"):
        click.echo(escaped(line))


def _section(title: str, rows: list[dict[str, Any]], columns: tuple[str, ...]) -> None:
    if rows:
        click.echo(f"\n{title}:")
        print_rows(rows, columns, empty="")


def row(one: Any) -> dict[str, Any]:
    """Give an agent of a list as a document."""
    found, fleet = one.agent, one.fleet
    return {
        "id": found.id,
        "slug": found.slug,
        "kind": found.kind.value,
        "principal": found.principal,
        "owner": found.owner,
        "state": found.state.value,
        "pause_reason": found.pause_reason,
        "purpose": found.purpose,
        "status": one.status.value,
        "needs_person": one.needs_person,
        "doing": one.doing,
        "due_at": None if fleet is None else fleet.due_at,
        "due_reason": None if fleet is None else fleet.due_reason,
        "outcome": None if fleet is None else fleet.outcome,
    }


def shown(document: dict[str, Any]) -> dict[str, Any]:
    """Give a row of a list as people read it: a mark where it needs a person."""
    return {**document, "needs_you": "yes" if document["needs_person"] else None}


def turn(one: Any) -> dict[str, Any]:
    """Give a turn as a document."""
    ended = one.ended_at
    return {
        "run": one.run,
        "version": one.version,
        "reason": one.reason,
        "started_at": one.started_at,
        "ended_at": ended,
        "took_ms": None if ended is None else ended - one.started_at,
        "stop": None if one.stop is None else one.stop.value,
        "exit_code": one.exit_code,
        "detail": one.detail,
        "outcome": one.outcome,
    }


def _with_time(document: dict[str, Any]) -> dict[str, Any]:
    took = document["took_ms"]
    return {**document, "took": "runs" if took is None else f"{took / 1_000:.1f} s"}


def _standing(found: Any) -> dict[str, Any]:
    setup = found.setup
    return {
        "harness": setup.harness.value,
        "command": list(setup.command),
        "folder": setup.folder,
        "lane": setup.lane,
        "wakes": setup.policy.value,
        "cron": setup.cron,
        "zone": setup.zone,
        "wake_on": setup.wake_on.value,
        "turn_limit_ms": setup.turn_limit,
        "turns_a_day": setup.turns_a_day,
        "session": found.session,
        "due_at": found.due_at,
        "due_reason": found.due_reason,
        "outcome": found.outcome,
        "settled_at": found.settled_at,
        "report": found.report,
    }
