"""Queries of people's lists as values: filters, a cursor, how many; what is not exactly one is refused with its name.

What a filter may match is of a form that rows have, so that a look-up is never made for what cannot be there.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gitops_bot.api.grammar import ID, MAX_PAGE
from gitops_bot.api.members import checked, known, number
from gitops_bot.api.person.grammar import NAME, SLUG
from gitops_bot.core.asks import AskKind
from gitops_bot.core.canonical import MAX_INTEGER
from gitops_bot.core.errors import Malformed
from gitops_bot.core.verdicts import Channel

MAX_SOUGHT: Final = 200
RISKS: Final = ("low", "normal", "high")
EVENT: Final = re.compile(r"[a-z_.]{1,64}", re.ASCII)
CURSOR: Final = re.compile(r"[0-9]{1,18}(?:\.[0-9a-z]{0,26})?", re.ASCII)
VERB: Final = re.compile(r"[a-z][a-z0-9_.]{0,130}", re.ASCII)


@dataclass(frozen=True, slots=True)
class InboxQuery:
    """`GET /needs-you`: filters (None: any), the cursor of the page before, and how many."""

    agent: str | None
    verb: str | None
    kind: str | None
    risk: str | None
    channel: str | None
    text: str | None
    snoozed: bool
    before: str | None
    limit: int


@dataclass(frozen=True, slots=True)
class LedgerQuery:
    """`GET /ledger`: what to look for ('': anything; `kind` is the beginning of one), between which times (ms), below
    which place in the sealed order (None: from the newest), and how many."""

    kind: str
    ask: str
    agent: str
    principal: str
    since: int
    until: int
    before: int | None
    limit: int


def parse_inbox(query: Mapping[str, str]) -> InboxQuery:
    """Read the query of `GET /needs-you`: the filters, `before` (the cursor), `limit`.

    Raises:
        Malformed: another name, or a value that could match nothing.
    """
    known(query, ("agent", "verb", "kind", "risk", "channel", "text", "snoozed", "before", "limit"))
    return InboxQuery(
        agent=_matching(query, "agent", SLUG),
        verb=_matching(query, "verb", VERB),
        kind=_of(query, "kind", tuple(kind.value for kind in AskKind)),
        risk=_of(query, "risk", RISKS),
        channel=_of(query, "channel", tuple(channel.value for channel in Channel)),
        text=checked(query["text"], "text", MAX_SOUGHT) if query.get("text") else None,
        snoozed=_of(query, "snoozed", ("0", "1")) == "1",
        before=_matching(query, "before", ID),
        limit=_limit(query),
    )


def parse_newest(query: Mapping[str, str]) -> tuple[str | None, int]:
    """Read the query of a list by id, newest first: `before`, `limit`.

    Raises:
        Malformed: another name, or a value of a wrong form.
    """
    known(query, ("before", "limit"))
    return _matching(query, "before", ID), _limit(query)


def parse_agents(query: Mapping[str, str]) -> tuple[str, int]:
    """Read the query of a list by slug: `after`, `limit`.

    Raises:
        Malformed: another name, or a value of a wrong form.
    """
    known(query, ("after", "limit"))
    return _matching(query, "after", SLUG) or "", _limit(query)


def parse_thread(query: Mapping[str, str]) -> tuple[str, int]:
    """Read the query of a thread: `after`, a number or the `next` of the page before, and `limit`.

    Raises:
        Malformed: another name, or a value of a wrong form.
    """
    known(query, ("after", "limit"))
    return _matching(query, "after", CURSOR) or "0", _limit(query)


def parse_export(query: Mapping[str, str]) -> int:
    """Read the query of an export: `after`, a place in the sealed order.

    Raises:
        Malformed: another name, or no number.
    """
    known(query, ("after",))
    return _whole(query, "after", 0)


def parse_ledger(query: Mapping[str, str]) -> LedgerQuery:
    """Read the query of `GET /ledger`.

    Raises:
        Malformed: another name, or a value of a wrong form.
    """
    known(query, ("kind", "ask", "agent", "principal", "since", "until", "before", "limit"))
    return LedgerQuery(
        kind=_matching(query, "kind", EVENT) or "",
        ask=_matching(query, "ask", ID) or "",
        agent=_matching(query, "agent", SLUG) or "",
        principal=_matching(query, "principal", NAME) or "",
        since=_whole(query, "since", 0),
        until=_whole(query, "until", MAX_INTEGER),
        before=_whole(query, "before", 0) if query.get("before") else None,
        limit=_limit(query),
    )


def _whole(query: Mapping[str, str], name: str, absent: int) -> int:
    found = number(query[name], name) if query.get(name) else absent
    if found > MAX_INTEGER:
        raise Malformed(f"{name} is beyond every number", where="query")
    return found


def _limit(query: Mapping[str, str]) -> int:
    limit = number(query.get("limit", "50"), "limit")
    if not 1 <= limit <= MAX_PAGE:
        raise Malformed(f"limit is 1 to {MAX_PAGE}", where="query")
    return limit


def _matching(query: Mapping[str, str], name: str, form: re.Pattern[str]) -> str | None:
    value = query.get(name)
    if not value:
        return None
    if not form.fullmatch(value):
        raise Malformed(f"{name} is not of its form", where="query")
    return value


def _of(query: Mapping[str, str], name: str, values: tuple[str, ...]) -> str | None:
    value = query.get(name)
    if not value:
        return None
    if value not in values:
        raise Malformed(f"{name} is one of {', '.join(values)}", where="query")
    return value
