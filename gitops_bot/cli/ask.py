"""`gitops-bot ask`: questions to a person, opened and followed over HTTP by an agent, seen and answered by a person."""

from pathlib import Path

import click

from gitops_bot.cli.ask_answer import answer
from gitops_bot.cli.ask_shown import id_of, print_ask
from gitops_bot.cli.listing import json_option, print_json, print_rows
from gitops_bot.cli.remote import checked_id, connect, connect_either, connect_person, remote_options

_COLUMNS: tuple[str, ...] = ("id", "state", "kind", "opened_at", "text")
_NEEDED: tuple[str, ...] = ("id", "agent", "blocks", "kind", "risk", "answerable", "opened_at", "expires_at", "text")
_wait = click.option(
    "--wait",
    type=click.IntRange(0, 30),
    default=0,
    metavar="SECONDS",
    help="Wait so long for an answer, 30 at most; exits 3 when it is still open.",
)


@click.group()
def ask() -> None:
    """Ask a person, see what became of it, and answer as a person.

    Agents ask with their token over HTTP; people answer with the credential of `gitops-bot login`, or in the workspace.
    """


ask.add_command(answer)


@ask.command("open")
@click.argument("question")
@click.option("--option", "options", multiple=True, metavar="TEXT", help="An offered answer; two or more, or none.")
@click.option("--why", default="", metavar="TEXT", help="What the person should know.")
@click.option(
    "--candidate", "candidates", multiple=True, metavar="NAME", help="Only this person may answer; repeatable."
)
@click.option("--expires-in", metavar="TIME", help="As 90s, 30m, 2h or 7d; the policy's limit stands.")
@click.option("--key", "idempotency_key", metavar="KEY", help="The same key gives the same ask, however often sent.")
@_wait
@remote_options
@json_option
def open_(
    question: str,
    options: tuple[str, ...],
    why: str,
    candidates: tuple[str, ...],
    expires_in: str | None,
    idempotency_key: str | None,
    wait: int,
    url: str | None,
    token_file: Path | None,
    as_json: bool,
) -> int:
    """Open a plain question and print its id. It has no effect but its answer.

    \b
    Example:
      gitops-bot ask open "Which region first?" --option eu-west --option us-east --key rollout-42
      gitops-bot ask show 01j... --wait 30
    """
    client = connect(url, token_file)
    body: dict[str, object] = {
        "question": question,
        "options": list(options),
        "why": why,
        "candidates": list(candidates),
        "expires_in": expires_in,
        "idempotency_key": idempotency_key,
    }
    document = client.post("/asks", body)
    if wait:
        document = client.get(f"/asks/{id_of(document)}", {"wait": wait}, patience=wait)
        return print_ask(document, as_json, waited=True)
    if as_json:
        print_json(document)
    else:
        click.echo(id_of(document))
    return 0


@ask.command("list")
@click.option("--open", "only_open", is_flag=True, help="Only what is still open.")
@click.option("--after", default="", metavar="ID", help="Start after this one.")
@click.option("--limit", type=click.IntRange(1, 200), default=50, show_default=True)
@click.option("--needs-you", "needs_you", is_flag=True, help="What you may answer, newest first, and what is gated.")
@remote_options
@json_option
def list_(
    only_open: bool,
    after: str,
    limit: int,
    needs_you: bool,
    url: str | None,
    token_file: Path | None,
    as_json: bool,
) -> None:
    """List asks: of this token's agent, oldest first; all of them for a person who is logged in.

    \b
    Example, as a person:
      gitops-bot ask list --needs-you
      gitops-bot ask list --needs-you --json
    """
    if needs_you:
        query: dict[str, object] = {"before": after, "limit": limit}
        found = connect_person(url).get("/needs-you", query)
        columns, empty = _NEEDED, "nothing needs you"
    else:
        query = {"open": 1 if only_open else None, "after": after, "limit": limit}
        found = connect_either(url, token_file).get("/asks", query)
        columns, empty = _COLUMNS, "no asks"
    if as_json:
        print_json(found)
        return
    print_rows(found["items"], columns, empty=empty)
    if found.get("next"):
        click.echo(f"more: --after {found['next']}")


@ask.command()
@click.argument("ask_id", metavar="ID")
@_wait
@remote_options
@json_option
def show(ask_id: str, wait: int, url: str | None, token_file: Path | None, as_json: bool) -> int:
    """Show one ask: what it binds, who voted, who is missing, its verdict.

    With --wait it exits 3 when the ask is still open afterwards.
    """
    document = connect_either(url, token_file).get(f"/asks/{checked_id(ask_id)}", {"wait": wait or None}, patience=wait)
    return print_ask(document, as_json, waited=bool(wait))


@ask.command()
@click.argument("ask_id", metavar="ID")
@click.option("--reason", metavar="TEXT", help="Why it is not needed any more.")
@remote_options
@json_option
def cancel(ask_id: str, reason: str | None, url: str | None, token_file: Path | None, as_json: bool) -> None:
    """Withdraw an ask, as its requester or as the owner of the agent that asked.

    That approves nothing, and withdrawn is not denied.
    """
    document = connect_either(url, token_file).post(f"/asks/{checked_id(ask_id)}/cancel", {"reason": reason})
    if as_json:
        print_json(document)
    else:
        click.echo(f"{id_of(document)} is {document['state']}")
