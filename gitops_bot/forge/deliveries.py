"""What a webhook of a repository or an App could not deliver, and asking the forge for it again, which never does so by
itself.

A delivery that is sent again keeps its id, so a receiver knows it. Reading and asking need a token that may administer
webhooks, or an App's JWT for its own; without one every answer here is a refusal (`Unavailable.refused`).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from gitops_bot.forge import answers
from gitops_bot.forge.surroundings import APP_LOG, app_hook, hooks, log_of
from gitops_bot.forge.transport import Answer, Transport

PER_PAGE: Final = 100
MOST_PAGES: Final = 10
"""A log that is longer is read no further back."""
MOST_ATTEMPTS: Final = 3
"""What failed so often is left to the poll."""


_NEXT: Final = re.compile(r'[?&]cursor=([A-Za-z0-9_.-]{1,200})(?:&[^>]*)?>; *rel="next"', re.ASCII)


@dataclass(frozen=True, slots=True)
class Asked:
    """A delivery that was asked for again; an App's has no repository and no number of a webhook."""

    repository: str | None
    hook: int | None
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


def failed(wire: Transport, log: str, since: int) -> tuple[Failed, ...]:
    """List what stands in a log as not delivered since a time (ms by the forge's clock), oldest first.

    Raises:
        Unavailable: the forge does not answer, or (refused) not to this token.
    """
    by_guid: dict[str, list[Mapping[str, Any]]] = {}
    for row in _rows(wire, log, since):
        if isinstance(row.get("guid"), str):
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
        log = log_of(repository, hook.id)
        for one in _sent_again(wire, log, since, most - len(asked)):
            asked.append(Asked(repository, hook.id, one.id, one.guid, one.event))
    return tuple(asked)


def ask_app_again(wire: Transport, address: str, since: int, most: int) -> tuple[Asked, ...]:
    """Ask for what an App's webhook to an address failed to deliver since a time, by the App's JWT; so many at most.

    Raises:
        Unavailable: the forge does not answer, or (refused) does not know the App.
    """
    hook = app_hook(wire)
    if hook is None or hook.url.rstrip("/") != address:
        return ()
    return tuple(Asked(None, None, one.id, one.guid, one.event) for one in _sent_again(wire, APP_LOG, since, most))


def _sent_again(wire: Transport, log: str, since: int, most: int) -> Iterator[Failed]:
    for one in failed(wire, log, since)[: max(0, most)]:
        wire.send("POST", f"{log}/{one.id:d}/attempts")
        yield one


def _rows(wire: Transport, log: str, since: int) -> Iterator[Mapping[str, Any]]:
    """Read a log back to a time, newest first, page by page."""
    query: dict[str, str | int] = {"per_page": PER_PAGE}
    for _ in range(MOST_PAGES):
        answer = wire.send("GET", log, query=query)
        found = [row for row in answers.rows(answer.data) if isinstance(row, dict)]
        yield from found
        cursor = _cursor(answer)
        if not found or cursor is None or _moment(found[-1]) < since:
            return
        query["cursor"] = cursor


def _cursor(answer: Answer) -> str | None:
    """Give where the next page begins (GitHub REST, repository webhooks: `cursor` of the Link header)."""
    found = _NEXT.search(answer.headers.get("link", ""))
    return None if found is None else found[1]


def _is_failed(row: Mapping[str, Any]) -> bool:
    code = row.get("status_code")
    answered = isinstance(code, int) and 200 <= code < 300
    return isinstance(row.get("id"), int) and row.get("status") != "pending" and not answered


def _moment(row: Mapping[str, Any]) -> int:
    try:
        return int(datetime.fromisoformat(str(row.get("delivered_at"))).timestamp() * 1000)
    except (ValueError, OverflowError):
        return 0
