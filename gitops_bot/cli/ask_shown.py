"""How an ask is printed: its members, who voted, what it came to, and where an open gated one is answered."""

from typing import Any

from gitops_bot.cli.listing import print_json, print_members, print_rows
from gitops_bot.cli.remote import STILL_OPEN, say_where
from gitops_bot.cli.terminal import escaped

_MEMBERS = (
    "id", "kind", "state", "verb", "summary", "text", "options", "why", "candidates", "action", "requester", "owner",
    "opened_at", "expires_at", "due_at", "ended_at", "ended_by", "end_reason", "superseded_by", "binding",
)  # fmt: skip


def print_ask(document: dict[str, Any], as_json: bool, *, waited: bool) -> int:
    """Print one ask; give the exit status, 3 when it was waited for and is open still."""
    if as_json:
        print_json(document)
    else:
        print_members(document, _MEMBERS)
        _print_decision(document)
    return STILL_OPEN if waited and document.get("state") == "OPEN" else 0


def _print_decision(document: dict[str, Any]) -> None:
    print_rows(document["votes"], ("principal", "decision", "option", "text", "channel", "at"), empty="no votes")
    if document.get("verdict"):
        print_members(document["verdict"], ("state", "option", "text", "by", "at"))
    elif document.get("signed") and document.get("state") == "OPEN":
        say_where(document, err=False)
    elif document.get("state") == "OPEN":
        print_members(document["quorum"], ("refused", "detail", "missing", "may_still", "undeclared"))


def id_of(document: dict[str, Any]) -> str:
    """Give an ask's id as a terminal may show it."""
    return escaped(str(document.get("id")))
