"""What a repository's webhook could not deliver, and asking the forge for it again; the forge never does by itself.

A delivery that is sent again keeps its id, so a receiver knows it. Reading and asking need a token that may administer
webhooks; without one every answer here is a refusal (`Unavailable.refused`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from urllib.parse import quote

from gitops_bot.forge import answers
from gitops_bot.forge.surroundings import hooks
from gitops_bot.forge.transport import Transport

MOST_LOOKED_AT: Final = 100
MOST_ATTEMPTS: Final = 3
"""What failed so often is left to the poll."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A delivery that was asked for again."""

    repository: str
    hook: int
    delivery: int
    guid: str
    event: str


@dataclass(frozen=True, slots=True)
class Failed:
    """A delivery of which every attempt so far failed; `id` is the newest attempt, `at` its time in ms."""

    id: int
    guid: str
    event: str
    at: int


def failed(wire: Transport, repository: str, hook: int, since: int) -> tuple[Failed, ...]:
    """List what a webhook failed to deliver since a time (ms by the forge's clock), oldest first.

    Raises:
        Unavailable: the forge does not answer, or (refused) not to this token.
    """
    path = f"/repos/{quote(repository)}/hooks/{hook:d}/deliveries"
    by_guid: dict[str, list[Mapping[str, Any]]] = {}
    for row in answers.rows(wire.send("GET", path, query={"per_page": MOST_LOOKED_AT}).data):
        if isinstance(row, dict) and isinstance(row.get("guid"), str):
            by_guid.setdefault(row["guid"], []).append(row)
    found = [
        Failed(attempts[0]["id"], guid, str(attempts[0].get("event"))[:64], _moment(attempts[0]))
        for guid, attempts in by_guid.items()
        if len(attempts) < MOST_ATTEMPTS and all(_is_failed(row) for row in attempts)
    ]
    return tuple(sorted((one for one in found if one.at >= since), key=lambda one: (one.at, one.id)))


def ask_again(wire: Transport, repository: str, address: str, since: int, most: int) -> tuple[Asked, ...]:
    """Ask for what the webhooks to an address failed to deliver since a time, so many at most; what was asked for.

    Raises:
        Unavailable: the forge does not answer, or (refused) not to this token.
    """
    asked: list[Asked] = []
    for hook in hooks(wire, repository):
        if hook.url.rstrip("/") != address or not hook.active:
            continue
        for one in failed(wire, repository, hook.id, since)[: most - len(asked)]:
            path = f"/repos/{quote(repository)}/hooks/{hook.id:d}/deliveries/{one.id:d}/attempts"
            wire.send("POST", path)
            asked.append(Asked(repository, hook.id, one.id, one.guid, one.event))
    return tuple(asked)


def _is_failed(row: Mapping[str, Any]) -> bool:
    code = row.get("status_code")
    answered = isinstance(code, int) and 200 <= code < 300
    return isinstance(row.get("id"), int) and row.get("status") != "pending" and not answered


def _moment(row: Mapping[str, Any]) -> int:
    try:
        return int(datetime.fromisoformat(str(row.get("delivered_at"))).timestamp() * 1000)
    except (ValueError, OverflowError):
        return 0
