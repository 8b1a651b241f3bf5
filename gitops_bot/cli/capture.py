"""`gitops-bot capture`: ask for a measured trace, and follow it, over HTTP under an agent's token."""

from pathlib import Path
from typing import Any

import click

from gitops_bot.cli.listing import json_option, print_json, print_members, print_rows
from gitops_bot.cli.remote import checked_id, connect, remote_options
from gitops_bot.cli.terminal import escaped
from gitops_bot.core.captures import parse_trace_id
from gitops_bot.core.errors import Malformed

_COLUMNS = ("id", "state", "exact", "created_at", "trace_id", "approval")
_MEMBERS = (
    "id", "state", "exact", "trace_id", "environment", "approval", "why", "requester", "attempt", "knobs", "digest",
    "error", "created_at", "updated_at", "ready_at",
)  # fmt: skip
_FAILED = 1


@click.group()
def capture() -> None:
    """Ask for a measured trace of a regime that nobody measured yet, and see what became of it.

    A person approves it on its pull request, or where else the policy says. These commands act over HTTP with the token
    of an agent or of a loop's run.
    """


@capture.command()
@click.argument("trace_id", required=False)
@click.option("--model", metavar="ORG/NAME", help="The regime in parts, instead of a trace id.")
@click.option("--concurrency", type=click.IntRange(0, 9_999_999), help="Requests at once.")
@click.option("--prefixes", type=click.IntRange(0, 9_999_999), help="Shared prefixes.")
@click.option("--max-tokens", type=click.IntRange(0, 9_999_999), help="Tokens of an answer.")
@click.option("--long-tokens", type=click.IntRange(0, 9_999_999), help="Tokens of a long prompt.")
@click.option("--long-frac", metavar="D.DDDD", help="The share of long prompts, with four decimals.")
@click.option("--why", default="", metavar="TEXT", help="What the person should know.")
@click.option("--mode", type=click.Choice(["block", "continue"]), default="block", show_default=True)
@click.option("--key", "idempotency_key", metavar="KEY", help="The same key gives the same ask, however often sent.")
@remote_options
@json_option
def request(
    trace_id: str | None,
    why: str,
    mode: str,
    idempotency_key: str | None,
    url: str | None,
    token_file: Path | None,
    as_json: bool,
    **parts: Any,
) -> int:
    """Ask for a capture of TRACE_ID and print its id, the `handle` that a loop's marker names.

    A finished one that still hashes is a hit, one under way is joined, else a new one opens with its ask. The status is
    on standard error: hit, submitted, pending_approval, or escalate, which has no id and exits 1.

    \b
    Example:
      gitops-bot capture request 'model=Qwen/Qwen3-0.6B;c=48;p=8;mt=8;lt=0;lf=0.0000' \\
        --why "requests queue only from c=32 on"
    """
    regime = _regime(trace_id, parts)
    body = {**regime, "why": why, "mode": mode, "idempotency_key": idempotency_key}
    document = connect(url, token_file).post("/captures", body)
    if as_json:
        print_json(document)
    else:
        if document.get("handle"):
            click.echo(escaped(str(document["handle"])))
        told = [document.get("status"), document.get("approval"), document.get("reason")]
        click.echo(escaped("  ".join(str(one) for one in told if one)), err=True)
    return 0 if document.get("handle") else _FAILED


def _regime(trace_id: str | None, parts: dict[str, Any]) -> dict[str, Any]:
    given = {name: value for name, value in parts.items() if value is not None}
    if trace_id is not None:
        if given:
            raise click.UsageError("give a trace id or the parts of a regime, not both")
        try:
            return dict(parse_trace_id(trace_id).params())
        except Malformed as error:
            raise click.UsageError(escaped(str(error))) from None
    missing = [f"--{name.replace('_', '-')}" for name in parts if name not in given]
    if missing:
        raise click.UsageError(f"give a trace id, or the whole regime; missing: {', '.join(missing)}")
    return given


@capture.command("list")
@click.option("--open", "only_open", is_flag=True, help="Only what is under way.")
@click.option("--after", default="", metavar="ID", help="Start after this one.")
@click.option("--limit", type=click.IntRange(1, 200), default=50, show_default=True)
@remote_options
@json_option
def list_(only_open: bool, after: str, limit: int, url: str | None, token_file: Path | None, as_json: bool) -> None:
    """List the captures that this token's agent has to do with, oldest first."""
    query = {"open": 1 if only_open else None, "after": after, "limit": limit}
    found = connect(url, token_file).get("/captures", query)
    if as_json:
        print_json(found)
        return
    print_rows(found["items"], _COLUMNS, empty="no captures")
    if found.get("next"):
        click.echo(f"more: --after {found['next']}")


@capture.command()
@click.argument("capture_id", metavar="ID")
@remote_options
@json_option
def show(capture_id: str, url: str | None, token_file: Path | None, as_json: bool) -> None:
    """Show one capture: pending, approved, running, ready, denied or error, and the exact state beside it."""
    document = connect(url, token_file).get(f"/captures/{checked_id(capture_id)}")
    if as_json:
        print_json(document)
    else:
        print_members(document, _MEMBERS)


@capture.command()
@click.argument("capture_id", metavar="ID")
@click.option("--reason", metavar="TEXT", help="Why it is not needed any more.")
@remote_options
@json_option
def cancel(capture_id: str, reason: str | None, url: str | None, token_file: Path | None, as_json: bool) -> None:
    """Take the wish for a capture back; it is cancelled once nobody waits for it any more."""
    document = connect(url, token_file).post(f"/captures/{checked_id(capture_id)}/cancel", {"reason": reason})
    if as_json:
        print_json(document)
    else:
        click.echo(escaped(f"{document['id']} is {document['exact']}"))
