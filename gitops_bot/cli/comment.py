"""`gitops-bot comment`: what a comment body would do, told without doing it, by the functions that intake calls."""

import json
import sys
from pathlib import Path

import click

from gitops_bot.core.captures import TraceId, parse_trace_id
from gitops_bot.core.errors import Malformed
from gitops_bot.forge.grammar import MAX_BODY, Judgement, Outcome, judge, parse
from gitops_bot.forge.replies import help_text, near_miss

_USAGE = 64
_MOST_BYTES = 4 * MAX_BODY + 1  # one more than the longest body that could count; the rest is not read


@click.group()
def comment() -> None:
    """Look at pull-request comments as the bot does."""


@comment.command()
@click.option("--trace-id", required=True, metavar="ID", help="The trace id that is open on the pull request.")
@click.option("--file", "source", type=click.Path(path_type=Path), help="Read the body from a file.")
def explain(trace_id: str, source: Path | None) -> None:
    """Tell what a comment body would do, and why; nothing is sent.

    The body is read from standard input, or from --file. Prints one JSON document: "outcome" is approve, deny, status,
    help, near_miss or silent; "reason" is the code; "reply" is what the bot would answer to somebody who may vote, or
    null.

    \b
    Example:
      echo '/approve-capture model=a/b;c=1;p=1;mt=1;lt=0;lf=0.0000' |
        gitops-bot comment explain --trace-id 'model=a/b;c=1;p=1;mt=1;lt=0;lf=0.0000'
    """
    try:
        open_trace_id = parse_trace_id(trace_id).trace_id
        judgement = judge(parse(_read(source)), open_trace_id)
    except Malformed as error:
        click.echo(f"gitops-bot: {error}", err=True)
        raise SystemExit(_USAGE) from None
    document = {
        "outcome": judgement.outcome.value,
        "reason": judgement.reason or judgement.outcome.value,
        "reply": _reply(judgement, open_trace_id),
    }
    click.echo(json.dumps(document, ensure_ascii=True))


def _read(source: Path | None) -> bytes:
    if source is None:
        return sys.stdin.buffer.read(_MOST_BYTES)
    try:
        with source.open("rb") as file:
            return file.read(_MOST_BYTES)
    except OSError as error:
        click.echo(f"gitops-bot: cannot read the file: {error.strerror}", err=True)
        raise SystemExit(_USAGE) from None


def _reply(judgement: Judgement, open_trace_id: TraceId) -> str | None:
    match judgement.outcome:
        case Outcome.NEAR_MISS:
            return near_miss(judgement)
        case Outcome.HELP:
            return help_text(open_trace_id)
        case _:
            return None
