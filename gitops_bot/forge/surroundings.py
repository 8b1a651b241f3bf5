"""What stands around a repository on the forge, for `gitops-bot doctor`: its webhooks, and an App's, with what they
delivered, and the rules of a branch. Nothing is changed, and nothing of the broker decides by it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from gitops_bot.forge import answers
from gitops_bot.forge.transport import Answer, Transport

APP_LOG: Final = "/app/hook/deliveries"
"""Where the deliveries to an App's webhook are listed, to the App by its JWT."""
LOOKED_AT: Final = 30
"""So many of the last deliveries are looked at."""


@dataclass(frozen=True, slots=True)
class Hook:
    """A webhook of a repository, or an App's (its number is 0). It sends JSON, and signs it, only where it says so."""

    id: int
    url: str
    active: bool
    events: frozenset[str]
    json: bool
    signed: bool
    tls_checked: bool


@dataclass(frozen=True, slots=True)
class Delivered:
    """The last deliveries of a webhook: how many were looked at and how many failed, and whether the newest did."""

    looked: int
    failed: int
    newest_failed: bool


def hooks(wire: Transport, repository: str) -> tuple[Hook, ...]:
    """List a repository's webhooks, the first hundred.

    Raises:
        Unavailable: the forge does not answer, or (refused) not to this token.
    """
    answer = wire.send("GET", f"/repos/{quote(repository)}/hooks", query={"per_page": 100})
    return tuple(_hook(row) for row in _rows(answer))


def app_hook(wire: Transport) -> Hook | None:
    """Read an App's webhook by its JWT; None where it has no address.

    Raises:
        Unavailable: the forge does not answer, or (refused) does not know the App.
    """
    config = wire.send("GET", "/app/hook/config").data
    if not isinstance(config, dict) or not isinstance(config.get("url"), str):
        return None
    told = wire.send("GET", "/app").data
    events = told.get("events") if isinstance(told, dict) else None
    return _hook({"active": True, "config": config, "events": events})


def log_of(repository: str, hook: int) -> str:
    """Give where the deliveries of a repository's webhook are listed."""
    return f"/repos/{quote(repository)}/hooks/{hook:d}/deliveries"


def delivered(wire: Transport, log: str) -> Delivered:
    """Look at the last deliveries in a log; those that are still on their way do not count.

    Raises:
        Unavailable: as `hooks`.
    """
    rows = _rows(wire.send("GET", log, query={"per_page": LOOKED_AT}))
    codes = [row.get("status_code") for row in rows if row.get("status") != "pending"]
    wrong = [not (isinstance(code, int) and 200 <= code < 300) for code in codes]
    return Delivered(len(wrong), sum(wrong), bool(wrong) and wrong[0])


def branch_rules(wire: Transport, repository: str, branch: str) -> frozenset[str]:
    """Give the kinds of the rules that hold on a branch, which need not exist.

    Raises:
        Unavailable: as `hooks`.
    """
    path = f"/repos/{quote(repository)}/rules/branches/{quote(branch, safe='')}"
    rows = _rows(wire.send("GET", path, query={"per_page": 100}))
    return frozenset(kind for kind in (row.get("type") for row in rows) if isinstance(kind, str))


def _rows(answer: Answer) -> list[Mapping[str, Any]]:
    return [row for row in answers.rows(answer.data) if isinstance(row, dict)]


def _hook(row: Mapping[str, Any]) -> Hook:
    config, events = row.get("config"), row.get("events")
    held = config if isinstance(config, dict) else {}
    return Hook(
        id=row["id"] if isinstance(row.get("id"), int) else 0,
        url=str(held.get("url", "")),
        active=row.get("active") is True,
        events=frozenset(one for one in events if isinstance(one, str)) if isinstance(events, list) else frozenset(),
        json=held.get("content_type") == "json",
        signed=bool(held.get("secret")),
        tls_checked=str(held.get("insecure_ssl", "0")) == "0",
    )
