"""`gitops-bot person`: what the host may do about a person at once, without anybody's signature: let them enrol a
passkey for the workspace, and stop them."""

from pathlib import Path

import click

from gitops_bot.cli.host import config_option, host_database
from gitops_bot.cli.listing import json_option, print_json, print_rows
from gitops_bot.cli.terminal import escaped

_PASSKEY = ("id", "label", "created_at", "rests_until", "used_at", "revoked_at", "revoked_by")


@click.group()
def person() -> None:
    """Let people in to the workspace, and stop their keys and accounts at once, on the broker's host only."""


@person.command()
@click.argument("name")
@config_option
@json_option
def enrol(name: str, config: Path | None, as_json: bool) -> None:
    """Print a code by which NAME enrols a passkey at the workspace: for one use, within ten minutes.

    Give it to nobody but NAME, over a way that nobody else reads. It is shown here and nowhere else; another code ends
    it. Everybody is told of the new passkey, and for a day ([workspace] passkey_rest) it answers nothing that is bound.
    This is also the only way back in for somebody who lost their passkeys.

    \b
    Example:
      gitops-bot person enrol alice
    """
    from gitops_bot.bootstrap import letting_in
    from gitops_bot.bootstrap.rules import rules_of
    from gitops_bot.bootstrap.workspace import site_of

    with host_database(config) as (settings, database):
        site = site_of(settings)
        let_in = letting_in.enrol(database, rules_of(settings, database), site, name)
    if as_json:
        print_json(
            {
                "person": let_in.person,
                "code": let_in.code,
                "url": let_in.address,
                "expires_at": let_in.expires_at,
                "passkeys": let_in.held,
            }
        )
        return
    click.echo(escaped(f"{let_in.code}   for {let_in.person}, once, within ten minutes"))
    click.echo(escaped(f"open {let_in.address} and type it there"))
    if let_in.held:
        click.echo(f"passkeys that they have already: {let_in.held}; end what is lost: gitops-bot person passkeys NAME")


@person.command("passkeys")
@click.argument("name")
@click.option("--revoke", multiple=True, metavar="ID|all", help="End this one for good, or all; can be given again.")
@config_option
@json_option
def passkeys_of(name: str, revoke: tuple[str, ...], config: Path | None, as_json: bool) -> None:
    """List the passkeys of NAME, or end some: at once, with every session that they opened.

    This only takes authority away, so it asks nobody. NAME comes back in by another code: gitops-bot person enrol NAME.

    \b
    Example:
      gitops-bot person passkeys alice
      gitops-bot person passkeys alice --revoke all
    """
    from gitops_bot.bootstrap import letting_in

    with host_database(config) as (_, database):
        ended = letting_in.revoke(database, name, revoke) if revoke else []
        held = letting_in.held(database, name)
    items = [{column: getattr(one, column) for column in _PASSKEY} for one in held]
    if as_json:
        print_json({"person": name, "revoked": [one.id for one in ended], "items": items})
        return
    print_rows(items, _PASSKEY, empty="no passkey was ever enrolled for them")


@person.command()
@click.argument("name")
@click.option("--lift", is_flag=True, help="Reinstate them instead.")
@click.option("--reason", metavar="TEXT", help="Why; it stands in the ledger.")
@config_option
@json_option
def suspend(name: str, lift: bool, reason: str | None, config: Path | None, as_json: bool) -> None:
    """Suspend NAME: from now on nothing that they sign, write or press counts, and grants that count them fall.

    This only takes authority away, so it asks nobody. Nothing is executed, approved or denied by it. With --lift they
    are reinstated; do that only once the keys that others may hold are out of the bundle (`gitops-bot policy propose`).
    A bundle that is adopted and names only other keys of theirs reinstates them by itself.

    \b
    Example:
      gitops-bot person suspend alice --reason "her laptop was stolen"
      gitops-bot person suspend alice --lift
    """
    from gitops_bot.bootstrap import suspending
    from gitops_bot.bootstrap.rules import rules_of

    with host_database(config) as (settings, database):
        policy = rules_of(settings, database).policy
        if lift:
            who = suspending.lift(database, policy, name, reason)
            done = None
        else:
            done = suspending.suspend(database, policy, name, reason)
            who = done.person
    if as_json:
        grants, unreachable = ((), ()) if done is None else (done.grants, done.unreachable)
        print_json({"person": who, "suspended": not lift, "grants": grants, "unreachable": unreachable})
        return
    click.echo(escaped(f"{who} is {'reinstated' if done is None else 'suspended'}"))
    if done is not None:
        click.echo(f"grants that count them and are judged again now: {', '.join(done.grants) or 'none'}")
        if done.unreachable:
            click.echo(escaped(f"nobody can approve until they are reinstated: {', '.join(done.unreachable)}"))
