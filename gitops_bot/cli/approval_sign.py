"""`gitops-bot approval sign` and `approval trust`: an approver's own machine, with no server and no database.

The short code and every yes are read from the terminal itself, never from standard input: a pipe cannot type them.
"""

import os
import termios
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from gitops_bot.cli.listing import json_option, print_json
from gitops_bot.cli.terminal import escaped

if TYPE_CHECKING:
    from gitops_bot.bootstrap.approver_profile import Profile

TERMINAL: Final = "/dev/tty"
_MOST_TYPED: Final = 256
_Command = TypeVar("_Command", bound=Callable[..., Any])


def _machine(command: _Command) -> _Command:
    """Add the options that say what this machine signs for; its settings file has them from the first time on."""
    file = click.Path(path_type=Path, dir_okay=False)
    for option in (
        click.option("--known-hosts", type=file, metavar="FILE", help="Host keys, for an ssh:// remote."),
        click.option("--ssh-key", type=file, metavar="FILE", help="Key to fetch and push with, for an ssh:// remote."),
        click.option("--token-file", type=file, metavar="FILE", help="Token to fetch and push with, for https://."),
        click.option("--repository", metavar="NAME", help="What the actions are about, as github.com/acme/ops."),
        click.option("--environment", metavar="NAME", help="Whose asks these are (default: production)."),
        click.option("--person", metavar="NAME", help="Who you are in the policy."),
        click.option("--remote", metavar="URL", help="The approvals repository: https://, ssh:// or file://."),
    ):
        command = option(command)
    return command


@click.command("sign")
@click.argument("ask")
@click.option("--deny", is_flag=True, help="Deny it.")
@click.option("--revoke", is_flag=True, help="Take your approval back.")
@click.option("--dry-run", is_flag=True, help="Show the file, the message and the commands; sign and remember nothing.")
@click.option("--wait", default="5m", show_default=True, metavar="TIME", help="How long to wait for the receipt.")
@_machine
@json_option
def sign(ask: str, deny: bool, revoke: bool, dry_run: bool, wait: str, as_json: bool, **machine: Any) -> int:
    """Sign your decision on ASK: the id of a gated ask, or the address of its page.

    It works from the approvals repository alone. What you sign is rendered here, from the request that the bot signed
    and the policy that this machine pins, and you type its short code at the terminal. Your key and your signing
    program come from your global git configuration; a key for approvals alone is named by
    `git config --global gitops-bot.signingKey KEY`. The first time you compare the policy, in words, with what
    `gitops-bot trust show` prints on the broker's host.

    Exits 0 when the broker took it, 3 when there is no receipt yet (the same command looks again and signs nothing
    anew), 4 with the reason when it is refused.

    \b
    Example:
      gitops-bot approval sign 01jd... --remote ssh://git@example.com/acme/approvals.git --person alice
      gitops-bot approval sign 01jd... --deny
      gitops-bot approval sign 01jd... --dry-run
    """
    from gitops_bot.core.durations import parse_duration
    from gitops_bot.core.errors import Malformed
    from gitops_bot.core.verdicts import Decision
    from gitops_bot.signed.approving.grammar import read_ask

    if deny and revoke:
        raise click.UsageError("--deny and --revoke are two decisions")
    decision = Decision.DENY if deny else Decision.REVOKE if revoke else Decision.APPROVE
    try:
        asked, seconds = read_ask(ask), parse_duration(wait, where="--wait") / 1000
    except Malformed as error:
        raise click.UsageError(str(error)) from None

    from gitops_bot.bootstrap.approver import Wish, opened

    profile, environment = _profile(machine)
    with Terminal(quiet=as_json, needed=not dry_run) as terminal, opened(profile, environment) as approver:
        done = approver.sign(Wish(asked, decision, seconds, dry_run), terminal)
    if as_json:
        print_json(done.document)
    elif not dry_run:
        _print_outcome(done.document, done.status)
    return done.status


@click.command("trust")
@click.option("--pin", "digest", metavar="DIGEST", help="Pin this bundle, once you compared its words.")
@_machine
@json_option
def trust(digest: str | None, as_json: bool, **machine: Any) -> int:
    """Show the policy that this approver's machine pins, in words to compare with the broker's host.

    The pin is made by the first `approval sign` and follows adoptions that this machine verified itself. Where it
    cannot follow, --pin DIGEST takes the digest that `gitops-bot trust show` prints on the host; compare the words with
    somebody there, over a channel that no agent writes.
    """
    from gitops_bot.bootstrap.trust import read_trust
    from gitops_bot.core.canonical import Digest
    from gitops_bot.core.words import word_lines

    profile, environment = _profile(machine)
    if digest is not None:
        if not digest.startswith("sha256:") or len(digest) != 71 or not set(digest[7:]) <= set("0123456789abcdef"):
            raise click.UsageError("DIGEST is sha256: and 64 hex digits, as `gitops-bot trust show` prints it")
        from gitops_bot.bootstrap.approver import opened

        with Terminal(quiet=as_json, needed=True) as terminal, opened(profile, environment) as approver:
            approver.pin(Digest(digest), terminal)
    found = read_trust(profile.trust_file)
    words = word_lines(found.policy_digest)
    if as_json:
        print_json(
            {
                "file": str(profile.trust_file),
                "remote": profile.remote,
                "environment": profile.environment,
                "person": profile.person,
                "epoch": found.epoch,
                "policy": {"digest": found.policy_digest, "version": found.policy_version},
                "words": " ".join(words),
            }
        )
        return 0
    click.echo(escaped(f"remote  {profile.remote}, {profile.environment}, as {profile.person}"))
    click.echo(f"policy  version {found.policy_version}, {found.policy_digest}")
    for number, line in enumerate(words):
        click.echo(f"{'words' if not number else '     '}   {line}")
    return 0


def _profile(machine: Mapping[str, Any]) -> "tuple[Profile, Mapping[str, str]]":
    from gitops_bot.bootstrap.approver_profile import read_profile
    from gitops_bot.config import person_environment

    flags = {name: str(value.absolute()) if isinstance(value, Path) else value for name, value in machine.items()}
    environment = person_environment()
    return read_profile(environment, flags), environment


def _print_outcome(document: Mapping[str, Any], status: int) -> None:
    refused = status not in (0, 3)
    said = document["outcome"]
    click.echo(escaped(f"gitops-bot: {said}" if refused else said), err=refused)
    if document.get("fix"):
        click.echo(escaped(f"  fix: {document['fix']}"), err=refused)


class Terminal:
    """The person's terminal; implements `bootstrap.approver_pin.Desk`. With `quiet` what is shown goes there, so that
    standard output holds the document alone."""

    def __init__(self, *, quiet: bool, needed: bool) -> None:
        """Remember how to show; nothing is opened yet."""
        self._quiet = quiet
        self._needed = needed
        self._handle: int | None = None

    def __enter__(self) -> "Terminal":
        from gitops_bot.core.errors import ConfigError

        if self._needed:
            try:
                self._handle = os.open(TERMINAL, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
            except OSError as error:
                fix = "sign at a terminal; nothing else may type the short code (--dry-run needs none)"
                raise ConfigError(f"there is no terminal to read from: {error.strerror}", fix=fix) from error
        return self

    def __exit__(self, *_: object) -> None:
        if self._handle is not None:
            os.close(self._handle)

    def show(self, lines: Sequence[str]) -> None:
        """Print lines, escaped."""
        text = "".join(f"{escaped(line)}\n" for line in lines)
        if not self._quiet:
            click.echo(text, nl=False)
        elif self._handle is not None:
            self._write(text)

    def confirm(self, question: str) -> bool:
        """Ask at the terminal; nothing but `yes` is a yes."""
        return self._ask(f"{escaped(question)} Type yes: ").strip().lower() == "yes"

    def code(self) -> str:
        """Read the short code from the terminal."""
        return self._ask("type the short code to sign: ")

    def _ask(self, prompt: str) -> str:
        assert self._handle is not None
        # What was typed before the question was there answers nothing.
        with suppress(termios.error):
            termios.tcflush(self._handle, termios.TCIFLUSH)
        self._write(prompt)
        typed = b""
        while not typed.endswith(b"\n") and len(typed) < _MOST_TYPED:
            more = os.read(self._handle, _MOST_TYPED)
            if not more:
                break
            typed += more
        return typed.decode("utf-8", "replace")

    def _write(self, text: str) -> None:
        assert self._handle is not None
        content = text.encode("utf-8", "replace")
        while content:
            content = content[os.write(self._handle, content) :]
