"""`gitops-bot trust`: what this host pinned outside the database."""

from pathlib import Path

import click

from gitops_bot.cli.host import config_option
from gitops_bot.cli.listing import json_option, print_json, print_members
from gitops_bot.cli.trust_repin import repin


@click.group()
def trust() -> None:
    """Pin the policy bundle on this host, show the pin, or pin anew.

    A bundle other than the pinned one does not start anything, whoever changed the files.
    """


@trust.command()
@config_option
@json_option
def show(config: Path | None, as_json: bool) -> None:
    """Show what this host trusts: policy digest and version, branch tips, ledger head.

    An approver's machine says the same words the first time they sign (`gitops-bot approval trust` repeats them): read
    them to each other over a channel that no agent writes.

    Exits 1 when nothing is pinned or the file is not this user's alone.
    """
    from gitops_bot.bootstrap.trust import read_trust
    from gitops_bot.config import load
    from gitops_bot.core.words import word_lines

    path = load(config).trust_file
    found = read_trust(path)
    words = word_lines(found.policy_digest)
    head = found.ledger_head
    document = {
        "file": str(path),
        "epoch": found.epoch,
        "policy": {"digest": found.policy_digest, "version": found.policy_version},
        "words": " ".join(words),
        "branch_tips": dict(found.branch_tips),
        "ledger_head": None if head is None else {"seq": head.seq, "hash": head.hash},
    }
    if as_json:
        print_json(document)
    else:
        print_members(document, tuple(name for name in document if name != "words"))
        click.echo(
            "\n".join(f"{'words' if not number else '     '}        {line}" for number, line in enumerate(words))
        )


@trust.command()
@config_option
def pin(config: Path | None) -> None:
    """Pin the bundle in the policies folder for the first time; pinning the pinned one again changes nothing.

    Look at it first. Another bundle than the pinned one is refused, with the way out.

    \b
    Example:
      gitops-bot policy check policies
      gitops-bot trust pin
    """
    from gitops_bot.bootstrap.trust import pin as pin_bundle
    from gitops_bot.config import load

    settings = load(config)
    settings.trust_file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    policy = pin_bundle(settings.policies, settings.trust_file)
    click.echo(f"pinned version {policy.version}, {policy.digest}")


trust.add_command(repin)
