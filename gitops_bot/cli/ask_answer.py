"""`gitops-bot ask answer`: a person's answer, over HTTP, with the credential of `gitops-bot login` and nothing else.

A plain question is answered at once. A bound ask is answered on its page, where a passkey asserts it: the command opens
that and waits. A gated one is refused by the workspace, in words that say where authority lives.
"""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from gitops_bot.cli.ask_shown import print_ask
from gitops_bot.cli.listing import json_option
from gitops_bot.cli.remote import STILL_OPEN, checked_id, person_login, say_where
from gitops_bot.cli.terminal import escaped
from gitops_bot.core.errors import Reason, Refusal, refuse

if TYPE_CHECKING:
    from gitops_bot.api.client import Client

MOST_POLL: Final = 30
_ENDED: Final[Mapping[str, Reason]] = {"EXPIRED": Reason.EXPIRED, "WITHDRAWN": Reason.WITHDRAWN}


@click.command()
@click.argument("ask_id", metavar="ID")
@click.option("--option", metavar="OPTION", help="The option's id, as `ask show` prints it: o1, o2, …")
@click.option("--text", metavar="TEXT", help="An answer in words, or a comment beside the option.")
@click.option("--key", "idempotency_key", metavar="KEY", help="The same key is the same answer, however often sent.")
@click.option("--open", "opens", is_flag=True, help="Open the page of a bound ask in your browser.")
@click.option(
    "--wait",
    type=click.IntRange(0, 3600),
    default=0,
    metavar="SECONDS",
    help="Wait so long for a bound ask to be answered on its page; exits 3 when it is still open.",
)
@click.option("--url", metavar="URL", help="The workspace's address  [where this shell is logged in].")
@json_option
def answer(
    ask_id: str,
    option: str | None,
    text: str | None,
    idempotency_key: str | None,
    opens: bool,
    wait: int,
    url: str | None,
    as_json: bool,
) -> int:
    """Answer an ask as the person who logged in with this shell.

    A plain question is answered at once. An ask that is bound to an action is answered on its page, where your passkey
    signs it: the page is printed, --open opens it and --wait waits for it. Signed commits alone answer a gated ask; it
    is refused here, with the command that signs. No agent's token answers anything.

    Exits 4 when the answer is refused, 3 when the ask is open still.

    \b
    Example:
      gitops-bot login --url http://localhost:8480
      gitops-bot ask list --needs-you
      gitops-bot ask answer 01j... --option o1 --text "cheaper"
      gitops-bot ask answer 01j... --option approve --open --wait 120
    """
    from gitops_bot.api.client import Client

    if option is None and text is None:
        raise click.UsageError("give --option or --text")
    login = person_login(url)
    if login is None:
        # The token of an agent would not do either: it is not even sent.
        detail = "A person answers: `gitops-bot login --url URL`, confirmed by them in the workspace."
        raise Refusal(refuse(Reason.NOT_AUTHORISED, detail))
    client = Client(login.url, login.credential)
    shown = client.get(f"/asks/{checked_id(ask_id)}")
    if shown.get("kind") == "approval":
        _lead(shown, f"{login.url}/asks/{ask_id}", option, opens=opens)
        shown = _wait(client, ask_id, shown, wait)
        if shown.get("state") == "OPEN" and not wait:
            return STILL_OPEN
        return print_ask(shown, as_json, waited=True)
    body = {"option": option, "text": text, "idempotency_key": idempotency_key, **_binding(shown)}
    try:
        done = client.post(f"/asks/{ask_id}/answer", body)
    except Refusal as refused:
        if refused.refused.reason is Reason.GATED:
            say_where(shown, err=True)
        raise
    return print_ask(done, as_json, waited=False)


def _binding(shown: Mapping[str, Any]) -> dict[str, Any]:
    bound = shown.get("binding")
    return dict(bound) if isinstance(bound, dict) else {}


def _lead(shown: Mapping[str, Any], page: str, option: str | None, *, opens: bool) -> None:
    """Lead to the page of a bound ask, where its passkey is asked for."""
    state = str(shown.get("state"))
    if state != "OPEN":
        detail = f"It ended as {state}, by {shown.get('ended_by') or 'nobody'}."
        raise Refusal(refuse(_ENDED.get(state, Reason.ALREADY_SETTLED), detail))
    offered = [str(one.get("id")) for one in shown.get("options") or () if isinstance(one, dict)]
    if option not in offered:
        raise Refusal(refuse(Reason.UNKNOWN_OPTION if option else Reason.EMPTY, f"It offers {' and '.join(offered)}."))
    click.echo(escaped(f"It is bound to an action, which your passkey signs. Choose {option} at:"), err=True)
    click.echo(escaped(page), err=True)
    if opens:
        import webbrowser

        if not webbrowser.open(page):
            click.echo("no browser could be opened; open the address yourself", err=True)


def _wait(client: "Client", ask_id: str, shown: dict[str, Any], wait: int) -> dict[str, Any]:
    """Look until the ask ended or so many seconds are over; gives it as it was seen last."""
    end = time.monotonic() + wait
    while shown.get("state") == "OPEN" and (left := end - time.monotonic()) > 0:
        seconds = min(MOST_POLL, max(1, round(left)))
        shown = client.get(f"/asks/{ask_id}", {"wait": seconds}, patience=seconds)
    return shown
