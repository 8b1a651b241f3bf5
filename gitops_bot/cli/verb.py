"""`gitops-bot verb`: an agent asks for an action over HTTP, or sees what it hashes to, computed here."""

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

from gitops_bot.cli.listing import json_option, print_json, print_members
from gitops_bot.cli.remote import STILL_OPEN, connect, remote_options, say_where
from gitops_bot.cli.terminal import escaped
from gitops_bot.core.canonical import action_bytes, action_hash
from gitops_bot.core.errors import Malformed
from gitops_bot.core.strictjson import MAX_BYTES, load_object

_FAILED = 1
_REFUSED = 4
_USAGE = 64
_LONGEST_POLL: Final = 30
_MOST_WAIT: Final = 86_400
_VERB: Final = re.compile(r"[A-Za-z0-9_.-]{1,100}", re.ASCII)
_MEMBERS: Final = ("id", "state", "verb", "summary", "why", "requester", "opened_at", "expires_at", "end_reason")


@click.group()
def verb() -> None:
    """Work with verbs: the named operations that an agent may want."""


@verb.command()
@click.argument("verb_name", metavar="VERB")
@click.option(
    "--params",
    "params_file",
    required=True,
    type=click.Path(path_type=Path),
    help="The action's parameters, one JSON object in a file; - reads standard input.",
)
@click.option("--why", default="", metavar="TEXT", help="What the people should know. It is no part of what is signed.")
@click.option("--expires-in", metavar="TIME", help="As 90s, 30m, 2h or 7d; the policy's limit stands.")
@click.option("--key", "idempotency_key", metavar="KEY", help="The same key gives the same ask, however often sent.")
@click.option(
    "--wait",
    type=click.IntRange(0, _MOST_WAIT),
    default=0,
    metavar="SECONDS",
    help="Wait so long for the answer; exits 3 when it is still open.",
)
@remote_options
@json_option
def request(
    verb_name: str,
    params_file: Path,
    why: str,
    expires_in: str | None,
    idempotency_key: str | None,
    wait: int,
    url: str | None,
    token_file: Path | None,
    as_json: bool,
) -> int:
    """Ask for VERB with these parameters: opens the ask that the policy demands, and prints its id.

    The same action asked for again while it is open is the same ask. Where the policy gates the verb, only commits that
    people sign answer it, and it is carried out after their quorum, once.

    Exits 0 when it is asked (with --wait: approved), 3 when it is still open after --wait, 4 with the reason when it is
    refused, at once or by people.

    \b
    Example:
      echo '{"amount_minor": 125000, "currency": "EUR", "to": "DE89370400440532013000"}' > transfer.json
      gitops-bot verb request payments.transfer --params transfer.json --key invoice-42
      gitops-bot ask show 01j... --wait 30
    """
    if not _VERB.fullmatch(verb_name):
        raise click.UsageError("VERB is the name of a verb in the policy, as payments.transfer")
    try:
        params = load_object(_read(params_file), where="params")
    except Malformed as error:
        click.echo(escaped(f"gitops-bot: {error}"), err=True)
        raise SystemExit(_FAILED) from None
    client = connect(url, token_file)
    body = {"params": params, "why": why, "expires_in": expires_in, "idempotency_key": idempotency_key}
    document = client.post(f"/verbs/{verb_name}/requests", body)
    if not as_json and not wait:
        click.echo(escaped(str(document.get("id"))))
        if document.get("summary"):
            click.echo(escaped(str(document["summary"])), err=True)
        say_where(document, err=True)
        return 0
    left = wait
    while left and (document.get("state") == "OPEN" or document.get("superseded_by")):
        patience = min(left, _LONGEST_POLL)
        of = document.get("superseded_by") or document["id"]
        document = client.get(f"/asks/{of}", {"wait": patience}, patience=patience)
        left -= patience
    if as_json:
        print_json(document)
    else:
        print_members(document, _MEMBERS)
        say_where(document, err=True)
    return _status(document) if wait else 0


def _status(document: Mapping[str, Any]) -> int:
    state = str(document.get("state"))
    if state in ("OPEN", "APPROVED"):
        return STILL_OPEN if state == "OPEN" else 0
    click.echo(
        escaped(f"gitops-bot: {state.lower()}: {document.get('end_reason') or 'see gitops-bot ask show'}"), err=True
    )
    return _REFUSED


@verb.command("hash")
@click.argument("verb_name", metavar="VERB")
@click.option(
    "--params",
    "params_file",
    required=True,
    type=click.Path(path_type=Path),
    help="The action's parameters, one JSON object in a file; - reads standard input.",
)
@click.option("--repository", required=True, metavar="R", help="The repository, as host/owner/name.")
@click.option("--environment", required=True, metavar="E", help="The environment, as the policy's host names it.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document, with the canonical bytes.")
def hash_(verb_name: str, params_file: Path, repository: str, environment: str, as_json: bool) -> None:
    """Print the action hash of VERB with these parameters: what an approval of it binds.

    Parameters hold strings, integers, booleans, null, lists and objects. Floats are refused (write decimals as
    strings), and so are integers beyond 2^53-1 and a key that stands twice. Nothing is asked, and the policy is not
    looked at.

    \b
    Example:
      echo '{"amount_minor": 125000, "currency": "EUR", "to": "DE89370400440532013000"}' > transfer.json
      gitops-bot verb hash payments.transfer --params transfer.json \\
        --repository github.com/acme/ops --environment production
    """
    try:
        params = load_object(_read(params_file), where="params")
        action = action_bytes(repository, environment, verb_name, params)
    except Malformed as error:
        click.echo(escaped(f"gitops-bot: {error}"), err=True)
        raise SystemExit(_FAILED) from None
    if as_json:
        click.echo(json.dumps({"hash": action_hash(action), "canonical": action.decode("utf-8")}))
    else:
        click.echo(action_hash(action))


def _read(source: Path) -> bytes:
    if str(source) == "-":
        return sys.stdin.buffer.read(MAX_BYTES + 1)
    try:
        with source.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        click.echo(f"gitops-bot: cannot read the parameters: {error.strerror}", err=True)
        raise SystemExit(_USAGE) from None
