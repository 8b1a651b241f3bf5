"""`gitops-bot login`: a credential of a person for this shell, confirmed by them in the workspace."""

import sys
import time
from typing import TYPE_CHECKING, Any

import click

from gitops_bot.cli.remote import address_of, connect_person
from gitops_bot.cli.terminal import escaped
from gitops_bot.core.errors import Reason, Refusal

if TYPE_CHECKING:
    from gitops_bot.api.client import Client

_POLL = 2.0


@click.command()
@click.option("--url", metavar="URL", help="The workspace's address  [$GITOPS_BOT_URL].")
@click.option("--out", is_flag=True, help="End the credential of this shell instead, here and at the workspace.")
@click.option("--label", metavar="TEXT", help="What you call this shell  [its user and host].")
def login(url: str | None, out: bool, label: str | None) -> None:
    """Let this shell act as you: it shows a code, you confirm it in the workspace with a passkey, it gets a credential.

    The credential goes into a file of your own (0600, below $XDG_STATE_HOME/gitops-bot/logins) and counts as a session
    of yours: it ends with --out, under People and keys in the workspace, with the passkey that confirmed it, or after
    [workspace] lasts. It answers plain questions; an ask that is bound to an action opens its page for the passkey.

    \b
    Example:
      gitops-bot login --url http://localhost:8480
      gitops-bot ask answer 01j... --option o1
      gitops-bot login --out

    Exits 4 when nobody confirms the code in its time.
    """
    if out:
        _leave(url)
        return
    from gitops_bot.api.client import Client
    from gitops_bot.bootstrap.shell_logins import Login, keep

    address = address_of(url)
    client = Client(address, "")
    begun = client.post("/auth/shells/begin", {"label": (label or _here())[:60]})
    click.echo(escaped(f"Open {begun.get('url')} in your browser and confirm this code there:"))
    click.echo(f"\n    {escaped(str(begun.get('code')))}\n")
    credential = _wait(client, str(begun.get("secret")), _lasts(begun))
    shown = Client(address, credential).get("/auth/session")
    file = keep(Login(address, str(shown.get("person")), int(shown["session"]["expires_at"]), credential))
    click.echo(
        escaped(f"Logged in as {shown.get('person')}. The credential is in {file}; `gitops-bot login --out` ends it.")
    )


def _leave(url: str | None) -> None:
    from gitops_bot.bootstrap.shell_logins import find, forget

    found = find(url)
    if found is None:
        click.echo("This shell is logged in nowhere.", err=True)
        return
    try:
        connect_person(found.url).post("/auth/sign-out")
    except Refusal as error:
        # It had ended there already.
        if error.refused.reason is not Reason.NOT_AUTHORISED:
            raise
    forget(found.url)
    click.echo(escaped(f"Logged out of {found.url}."))


def _here() -> str:
    import getpass
    import socket

    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "somebody"
    return f"{user} on {socket.gethostname()}"


def _lasts(begun: dict[str, Any]) -> float:
    """Give for how many seconds the code may be confirmed, by this machine's clock; half an hour at most."""
    from gitops_bot.bootstrap.clock import wall_seconds

    until = begun.get("expires_at")
    return min(1800.0, max(0.0, until / 1000 - wall_seconds())) if isinstance(until, int) else 600.0


def _wait(client: "Client", secret: str, lasts: float) -> str:
    """Ask until somebody confirmed the code; the workspace says when its time is over."""
    begun = time.monotonic()
    try:
        while True:
            try:
                taken = client.post("/auth/shells/take", {"secret": secret})
            except Refusal as error:
                if error.refused.reason is not Reason.RATE_LIMITED:
                    raise
                taken = {}
            credential = taken.get("credential")
            if isinstance(credential, str):
                return credential
            _tell(lasts - (time.monotonic() - begun))
            time.sleep(_POLL)
    finally:
        _tell(None)


def _tell(left: float | None) -> None:
    """Say on a terminal how long the code may still be confirmed."""
    if not sys.stderr.isatty():
        return
    if left is None:
        click.echo("\r\x1b[K", nl=False, err=True)
    else:
        minutes, seconds = divmod(max(0, round(left)), 60)
        click.echo(f"\rwaiting for you to confirm it, {minutes}:{seconds:02} left ", nl=False, err=True)
