"""`gitops-bot init`: a repository gets a working set-up, each file explained, and the list of what to click."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from gitops_bot.cli.listing import json_option, print_json
from gitops_bot.cli.terminal import escaped
from gitops_bot.core.errors import Malformed, Unavailable

if TYPE_CHECKING:
    from gitops_bot.bootstrap.initial.choices import Account
    from gitops_bot.bootstrap.initial.setting_up import Made
    from gitops_bot.bootstrap.initial.steps import Step

T = TypeVar("T")


@click.command()
@click.option("--repository", metavar="OWNER/NAME", help="The repository (default: what git's remote origin names).")
@click.option("--dir", "folder", type=click.Path(path_type=Path), default=Path(), help="Its folder (default: here).")
@click.option("--me", metavar="LOGIN", help="Your login on the forge: the first person of the policy.")
@click.option("--app/--token", default=False, help="Act as a GitHub App, or by a token (default).")
@click.option("--origin", default="", metavar="URL", help="How browsers and webhooks reach the workspace.")
@click.option("--api-url", default="", metavar="URL", help="The forge's API (default: github.com's).")
@click.option("--force", is_flag=True, help="Replace files that differ, instead of keeping them.")
@click.option("--dry-run", is_flag=True, help="Say what would be written, and write nothing.")
@json_option
def init(
    repository: str | None,
    folder: Path,
    me: str | None,
    app: bool,
    origin: str,
    api_url: str,
    force: bool,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Write settings, policy, workflow, code owners, App manifest and ruleset into a git repository, and say what to
    click.

    A second run changes nothing. A file that differs is shown and kept, or with --force shown and then replaced; code
    owners and .gitignore only get lines added. No secret is asked for, read or written. Who you are is looked up by
    --me; without it the policy holds a placeholder, which `gitops-bot doctor` names.

    \b
    Example:
      gitops-bot init --repository acme/ops --me alice --origin https://approvals.example.org
      gitops-bot doctor
    """
    from gitops_bot.bootstrap.initial import choices, setting_up, steps, tree

    api = _valid(choices.checked_api, api_url, "--api-url") if api_url else choices.PUBLIC_API
    named = _valid(choices.checked_repository, repository, "--repository") if repository is not None else None
    reached = _valid(choices.checked_origin, origin, "--origin") if origin else ""
    login = _valid(choices.checked_login, me, "--me") if me is not None else None
    top = tree.top_of(folder)
    account, warning = _account(api, login)
    chosen = choices.Choices(named or choices.origin_repository(top), api, app, reached, account)
    prospect = setting_up.look(chosen, top, force=force)
    todo = steps.steps(chosen)
    if as_json:
        if not dry_run:
            setting_up.write(prospect)
        print_json(_document(chosen.repository, dry_run, prospect.made, todo, warning))
        return 0
    # Shown first: what cannot be shown is not overwritten.
    _show(top, chosen.repository, dry_run, prospect.made, todo, warning)
    sys.stdout.flush()
    if not dry_run:
        setting_up.write(prospect)
    return 0


def _valid(check: Callable[[str], T], text: str, option: str) -> T:
    try:
        return check(text)
    except Malformed as error:
        raise click.BadParameter(error.message, param_hint=option) from None


def _account(api_url: str, login: str | None) -> "tuple[Account | None, str]":
    from gitops_bot.bootstrap.initial.choices import Account
    from gitops_bot.forge.public import account

    if login is None:
        return None, ""
    try:
        number, name = account(api_url, login)
    except Unavailable as error:
        return None, f"{error}; the policy holds a placeholder for you"
    return Account(number, name), ""


def _document(
    repository: str, dry: bool, made: "Sequence[Made]", todo: "tuple[Step, ...]", warning: str
) -> dict[str, object]:
    return {
        "ok": True,
        "repository": repository,
        "dry_run": dry,
        "warning": warning or None,
        "files": [
            {"path": one.path, "what": one.what, "outcome": one.outcome.value, "difference": one.difference or None}
            for one in made
        ],
        "steps": [{"do": one.do, "address": one.address or None, "commands": list(one.commands)} for one in todo],
    }


def _show(
    top: Path, repository: str, dry: bool, made: "Sequence[Made]", todo: "tuple[Step, ...]", warning: str
) -> None:
    from gitops_bot.bootstrap.initial.setting_up import Outcome

    click.echo(escaped(f"{repository} in {top}{', as it would be (--dry-run)' if dry else ''}"))
    if warning:
        click.echo(escaped(f"note: {warning}"), err=True)
    for one in made:
        click.echo(escaped(f"  {one.outcome.value.ljust(9)}  {one.path}: {one.what}"))
        for line in one.difference.splitlines():
            click.echo(escaped(f"      {line}"))
    if all(one.outcome is Outcome.UNCHANGED for one in made):
        click.echo("nothing changed")
    if any(one.outcome is Outcome.KEPT and one.difference for one in made):
        click.echo("what differs was kept; --force replaces it")
    click.echo("\nwhat is left to do, in this order:")
    for number, step in enumerate(todo, start=1):
        click.echo(escaped(f"{number:2}. {step.do}"))
        for line in (step.address, *(f"$ {command}" for command in step.commands)):
            if line:
                click.echo(escaped(f"      {line}"))
