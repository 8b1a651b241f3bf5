"""`gitops-bot verb`: what a verb's action hashes to, computed here without a database."""

import json
import sys
from pathlib import Path

import click

from gitops_bot.cli.terminal import escaped
from gitops_bot.core.canonical import action_bytes, action_hash
from gitops_bot.core.errors import Malformed
from gitops_bot.core.strictjson import MAX_BYTES, load_object

_FAILED = 1
_USAGE = 64


@click.group()
def verb() -> None:
    """Work with verbs: the named operations that an agent may want."""


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
