"""`gitops-bot approval`: gated asks, votes and refused attempts on the host; signing on a machine of one's own."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from gitops_bot.cli.approval_sign import sign, trust
from gitops_bot.cli.host import config_option, host_database
from gitops_bot.cli.listing import json_option, print_json, print_members, print_rows, when
from gitops_bot.cli.terminal import escaped

if TYPE_CHECKING:
    from gitops_bot.bootstrap.thawing import Plan
    from gitops_bot.store.engine import Database

_STILL_OPEN: Final = 3
_REFUSED: Final = 4
_POLL: Final = 0.5
_COLUMNS: Final = ("ask", "state", "verb", "summary", "requester", "expires_at", "standing", "refused")
_MEMBERS: Final = (
    "ask", "state", "verb", "summary", "requester", "owner", "opened_at", "expires_at", "ended_at", "ended_by",
    "end_reason", "superseded_by", "action_hash", "policy", "run_version", "standing", "approved_by", "denied_by",
    "may_still", "may_give",
)  # fmt: skip


@click.group()
def approval() -> None:
    """Follow gated asks, which signed commits alone answer.

    `sign` and `trust` are for a person's own machine; the others show, explain and thaw on the broker's host, and none
    of them votes. How a person signs, with the command or with git alone, is in docs/signing.md; what the channel is
    and what each code means in docs/approvals.md.
    """


approval.add_command(sign)
approval.add_command(trust)


@approval.command("list")
@click.option("--all", "ended", is_flag=True, help="Those that have ended, too.")
@click.option("--attempts", type=click.IntRange(0, 200), default=0, metavar="N", help="The last N refused commits.")
@click.option("--after", default="", metavar="ASK", help="Start after this one.")
@click.option("--limit", type=click.IntRange(1, 200), default=50, show_default=True)
@config_option
@json_option
def list_(ended: bool, attempts: int, after: str, limit: int, config: Path | None, as_json: bool) -> None:
    """List open gated asks with their votes, branches that are not in order, and refused attempts.

    \b
    Example:
      gitops-bot approval list
      gitops-bot approval list --all --attempts 20
    """
    from gitops_bot.bootstrap.approvals import overview
    from gitops_bot.bootstrap.gate import FIX, closed
    from gitops_bot.bootstrap.rules import rules_of

    with host_database(config) as (settings, database):
        rules = rules_of(settings, database)
        with database.read() as tx:
            found = overview(tx, rules, ended=ended, after=after, limit=limit, attempts=attempts)
            why = closed(database, tx, settings.trust_file)
        found["closed"] = None if why is None else {"reason": why.reason.value, "detail": why.detail, "fix": FIX}
    if as_json:
        print_json(found)
        return
    print_rows(found["items"], _COLUMNS, empty="no gated asks" if ended else "no open gated asks")
    if found["next"] is not None:
        click.echo(f"more: --after {found['next']}")
    if why is not None:
        click.echo(escaped(f"CLOSED  the signed channel decides nothing: {why.reason.value}: {why.detail}"))
        click.echo(f"  do: {FIX}")
    for branch in found["branches"]:
        click.echo(escaped(f"{branch['state'].upper()}  {branch['person']}: {branch['reason']}: {branch['detail']}"))
        click.echo(escaped(f"  do: {branch['remedy']}"))
    if attempts:
        _print_attempts(found["attempts"])
    looked = found["looked_at"]
    click.echo("the branches were never looked at" if looked is None else f"last look: {when(looked)}")


@approval.command()
@click.argument("ask_id", metavar="ASK")
@click.option("--person", metavar="NAME", help="Give the exact file and message that this person signs.")
@click.option(
    "--decision",
    type=click.Choice(["approve", "deny", "revoke"]),
    help="What the file is to say (default: approve where the person may).",
)
@click.option(
    "--wait",
    type=click.IntRange(0, 3600),
    default=0,
    metavar="SECONDS",
    help="Wait so long for the ask to end; exits 3 when it is still open.",
)
@config_option
@json_option
def show(ask_id: str, person: str | None, decision: str | None, wait: int, config: Path | None, as_json: bool) -> int:
    """Show one gated ask: its request, who may give what, votes, refused attempts and its ledger.

    With --person it gives the exact file and message to sign with their short code, and the commands of docs/signing.md
    that sign them with git alone. Compare the short code with the one that the signer's own machine computes.

    \b
    Example:
      gitops-bot approval show 01jd...
      gitops-bot approval show 01jd... --person alice --decision deny
    """
    from gitops_bot.bootstrap.approvals import Wanted, whole
    from gitops_bot.bootstrap.rules import rules_of
    from gitops_bot.core.principals import PrincipalName
    from gitops_bot.core.verdicts import Decision

    if decision is not None and person is None:
        raise click.UsageError("--decision needs --person")
    said = None if decision is None else Decision(decision)
    wanted = None if person is None else Wanted(PrincipalName(person), said)
    with host_database(config) as (settings, database):
        if wait:
            _await_end(database, ask_id, wait)
        rules = rules_of(settings, database)
        with database.read() as tx:
            found = whole(tx, settings, rules, ask_id, wanted)
    if as_json:
        print_json(found)
    else:
        _print_ask(found)
    return _STILL_OPEN if wait and found["state"] == "OPEN" else 0


@approval.command()
@click.argument("commit")
@click.option("--person", metavar="NAME", help="Whose branch it is judged on (default: whose branch holds it).")
@click.option(
    "--git",
    "clone",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Take the commit from this clone instead of the broker's repository.",
)
@click.option("--received-at", metavar="TIME", help="Judge as received then, as 2026-12-01T12:00:00Z.")
@click.option(
    "--policies",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Without a database: this bundle, with --request.",
)
@click.option(
    "--request",
    "request_file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Without a database: this request.json, with --policies.",
)
@config_option
@json_option
def verify(
    commit: str,
    person: str | None,
    clone: Path | None,
    received_at: str | None,
    policies: Path | None,
    request_file: Path | None,
    config: Path | None,
    as_json: bool,
) -> int:
    """Take one commit through the numbered steps again, and print what each found.

    Offline: nothing is fetched and no forge is asked. Both engines of step 5 are asked anew. Exits 0 when it counted or
    would count, 3 when an engine failed so that nothing can be said, 4 with the code of the refusal.

    \b
    Example, on the broker's host:
      gitops-bot approval verify 4f0c...
    \b
    Example, on any machine, without a database:
      gitops-bot approval verify 4f0c... --git approvals.git --policies policies --request request.json
    """
    at = None if received_at is None else _time(received_at)
    if (policies is None) != (request_file is None):
        raise click.UsageError("--policies and --request go together")
    if policies is not None and request_file is not None:
        found = _verify_files(policies, request_file, clone or Path(), commit, person, at)
    else:
        found = _verify_host(config, clone, commit, person, at)
    if as_json:
        print_json(found)
    else:
        _print_steps(found)
    return _status(found)


@approval.command()
@click.argument("person")
@click.option("--to", "to", required=True, metavar="COMMIT", help="The full id of the commit to read on from.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@config_option
@json_option
def thaw(person: str, to: str, yes: bool, config: Path | None, as_json: bool) -> int:
    """Let reading of a frozen or unreadable branch go on from a commit of it, on the broker's host only.

    First find out who rewrote the branch, and why. The better repair is the person's own: push the stored tip again,
    with the command that `approval list` prints; then nothing is skipped. What you thaw over never votes, votes that
    counted stand, and the ledger tells that somebody on this host did it.

    \b
    Example:
      gitops-bot approval list
      gitops-bot approval thaw alice --to 4f0c...
    """
    from gitops_bot.bootstrap.offline import on_host
    from gitops_bot.bootstrap.thawing import plan
    from gitops_bot.bootstrap.thawing import thaw as do
    from gitops_bot.core.errors import Malformed
    from gitops_bot.signed.grammar import read_id

    try:
        oid = read_id(to)
    except Malformed:
        raise click.UsageError("COMMIT is a full id: 40 or 64 digits of lower-case hex") from None
    if as_json and not yes:
        raise click.UsageError("--json needs --yes: there is nobody to ask")
    with host_database(config) as (settings, database), on_host(settings, database) as setting:
        decided = plan(database, setting, person, oid)
        if not as_json:
            _print_plan(decided)
        if not yes and not click.confirm("Thaw it?"):
            click.echo("nothing was changed", err=True)
            return 1
        do(database, setting, decided)
    if as_json:
        print_json(_plan(decided))
    else:
        click.echo(escaped(f"{decided.person} is thawed at {decided.to}; the next look reads on from there"))
    return 0


def _await_end(database: "Database", ask_id: str, seconds: int) -> None:
    from gitops_bot.bootstrap.approvals import is_open

    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with database.read() as tx:
            if not is_open(tx, ask_id):
                return
        time.sleep(_POLL)


def _verify_host(
    config: Path | None, clone: Path | None, commit: str, person: str | None, at: int | None
) -> dict[str, Any]:
    from gitops_bot.bootstrap.offline import on_host
    from gitops_bot.bootstrap.verifying import verify as explain

    with host_database(config) as (settings, database):
        with database.read() as tx:
            now = tx.now
        with on_host(settings, database, clone=clone, commit=commit) as setting:
            return explain(setting, commit, person, at, now)


def _verify_files(
    policies: Path, request_file: Path, clone: Path, commit: str, person: str | None, at: int | None
) -> dict[str, Any]:
    from gitops_bot.bootstrap.clock import wall_seconds
    from gitops_bot.bootstrap.offline import from_files
    from gitops_bot.bootstrap.verifying import verify as explain

    with from_files(policies, request_file, clone, commit) as setting:
        return explain(setting, commit, person, at, wall_seconds() * 1000)


def _time(text: str) -> int:
    from gitops_bot.core.errors import Malformed
    from gitops_bot.signed.rendering import read_time

    try:
        return read_time(text)
    except Malformed as error:
        raise click.UsageError(f"--received-at: {error.message}") from None


def _status(found: dict[str, Any]) -> int:
    from gitops_bot.bootstrap.verifying import HELD, SOUND

    if found["outcome"] in SOUND:
        return 0
    if found["outcome"] == HELD:
        return _STILL_OPEN
    click.echo(escaped(f"gitops-bot: {found['outcome']}: {found['sentence']}"), err=True)
    return _REFUSED


def _print_steps(found: dict[str, Any]) -> None:
    print_members(found, ("commit", "person", "received_at"))
    for step in found["steps"]:
        mark = "ok" if step["ok"] else step["code"]
        click.echo(escaped(f"{step['step']}  {step['title']}: {mark}: {step['said']}"))
    print_members(found, ("outcome", "remedy"))


def _print_attempts(attempts: list[dict[str, Any]]) -> None:
    if not attempts:
        click.echo("no refused attempts")
    for one in attempts:
        at = when(one["received_at"])
        click.echo(escaped(f"{at}  {one['person']}  {one['commit']}  {one['code']}: {one['sentence']}"))
        if one["remedy"]:
            click.echo(escaped(f"  do: {one['remedy']}"))


def _print_ask(found: dict[str, Any]) -> None:
    print_members(found, _MEMBERS)
    if found["request"] is None:
        click.echo("the broker has not stored this ask's request yet")
    else:
        click.echo("\nrequest:")
        print_members(found["request"], tuple(found["request"]))
    click.echo("\nvotes:")
    print_rows(found["votes"], ("person", "decision", "commit", "key_kind", "key", "received_at"), empty="none yet")
    click.echo("\nrefused attempts:")
    _print_attempts(found["attempts"])
    click.echo("\nledger:")
    print_rows(found["ledger"], ("at", "kind", "principal", "channel", "reason"), empty="nothing")
    file = found["file"]
    if file is None:
        return
    click.echo(f"\nthe file of {escaped(file['person'])}, to be added as {file['path']}:")
    _print_text(file["content"])
    click.echo("\nthe commit's whole message:")
    _print_text(file["message"])
    click.echo(f"\nsha256      {file['sha256']}\nshort code  {file['short_code']}")
    click.echo("\nto sign it with git alone, in the repository that docs/signing.md sets up:")
    _print_text(file["commands"])


def _print_text(text: str) -> None:
    for line in text.splitlines():
        click.echo(f"  {escaped(line)}")


def _print_plan(decided: "Plan") -> None:
    before = decided.before
    click.echo(escaped(f"{decided.person} is {before.state.value}: {before.reason}: {before.detail}"))
    click.echo(f"read up to    {before.tip or '-'}\nseen last     {before.seen or '-'}\nread on from  {decided.to}")
    for name, commits, empty in (
        ("read before and no part of the branch any more (votes that counted stand):", decided.left, "none"),
        ("skipped, never to vote:", decided.skipped, "none"),
        ("after it, read by the next look unless refused already:", decided.ahead, "none"),
    ):
        click.echo(name)
        _print_text("\n".join(_cut(commits)) or empty)


def _cut(commits: tuple[str, ...]) -> list[str]:
    from gitops_bot.bootstrap.thawing import MOST

    return [*commits[:MOST], *(["and more"] if len(commits) > MOST else [])]


def _plan(decided: "Plan") -> dict[str, Any]:
    return {
        "person": decided.person,
        "to": decided.to,
        "root": decided.root,
        "was": {"state": decided.before.state.value, "tip": decided.before.tip, "seen": decided.before.seen},
        "left": _cut(decided.left),
        "skipped": _cut(decided.skipped),
        "ahead": _cut(decided.ahead),
    }
