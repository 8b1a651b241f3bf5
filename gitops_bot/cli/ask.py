"""`gitops-bot ask`: questions to a person, opened and followed over HTTP by an agent. Never answered here."""

from pathlib import Path
from typing import Any

import click

from gitops_bot.cli.listing import json_option, print_json, print_members, print_rows
from gitops_bot.cli.remote import STILL_OPEN, checked_id, connect, remote_options, say_where

_COLUMNS = ("id", "state", "kind", "opened_at", "text")
_MEMBERS = (
    "id", "kind", "state", "verb", "summary", "text", "options", "why", "candidates", "action", "requester", "owner",
    "opened_at", "expires_at", "due_at", "ended_at", "ended_by", "end_reason", "superseded_by", "binding",
)  # fmt: skip
_wait = click.option(
    "--wait",
    type=click.IntRange(0, 30),
    default=0,
    metavar="SECONDS",
    help="Wait so long for an answer, 30 at most; exits 3 when it is still open.",
)


@click.group()
def ask() -> None:
    """Ask a person, and see what became of it.

    These commands act over HTTP with an agent's token; a person's answer is given where the policy says, never here.
    """


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
        document = client.get(f"/asks/{_id(document)}", {"wait": wait}, patience=wait)
        return _show(document, as_json, waited=True)
    if as_json:
        print_json(document)
    else:
        click.echo(_id(document))
    return 0


@ask.command("list")
@click.option("--open", "only_open", is_flag=True, help="Only what is still open.")
@click.option("--after", default="", metavar="ID", help="Start after this one.")
@click.option("--limit", type=click.IntRange(1, 200), default=50, show_default=True)
@remote_options
@json_option
def list_(only_open: bool, after: str, limit: int, url: str | None, token_file: Path | None, as_json: bool) -> None:
    """List the asks of this token's agent, oldest first."""
    query = {"open": 1 if only_open else None, "after": after, "limit": limit}
    found = connect(url, token_file).get("/asks", query)
    if as_json:
        print_json(found)
        return
    print_rows(found["items"], _COLUMNS, empty="no asks")
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
    document = connect(url, token_file).get(f"/asks/{checked_id(ask_id)}", {"wait": wait or None}, patience=wait)
    return _show(document, as_json, waited=bool(wait))


@ask.command()
@click.argument("ask_id", metavar="ID")
@click.option("--reason", metavar="TEXT", help="Why it is not needed any more.")
@remote_options
@json_option
def cancel(ask_id: str, reason: str | None, url: str | None, token_file: Path | None, as_json: bool) -> None:
    """Withdraw an ask. That approves nothing, and withdrawn is not denied."""
    document = connect(url, token_file).post(f"/asks/{checked_id(ask_id)}/cancel", {"reason": reason})
    if as_json:
        print_json(document)
    else:
        click.echo(f"{_id(document)} is {document['state']}")


def _show(document: dict[str, Any], as_json: bool, *, waited: bool) -> int:
    if as_json:
        print_json(document)
    else:
        print_members(document, _MEMBERS)
        _print_decision(document)
    return STILL_OPEN if waited and document.get("state") == "OPEN" else 0


def _print_decision(document: dict[str, Any]) -> None:
    print_rows(document["votes"], ("principal", "decision", "option", "text", "channel", "at"), empty="no votes")
    if document.get("verdict"):
        print_members(document["verdict"], ("state", "option", "text", "by", "at"))
    elif document.get("signed") and document.get("state") == "OPEN":
        say_where(document, err=False)
    elif document.get("state") == "OPEN":
        print_members(document["quorum"], ("refused", "detail", "missing", "may_still", "undeclared"))


def _id(document: dict[str, Any]) -> str:
    from gitops_bot.cli.terminal import escaped

    return escaped(str(document.get("id")))
