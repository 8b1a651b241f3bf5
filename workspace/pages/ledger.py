"""The ledger to look something up, to check and to take away. The filters are the address; each page costs the same."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Final
from urllib.parse import urlencode

from flask import Blueprint, Response, request

from gitops_bot.api.grammar import ID
from gitops_bot.authority.agents import SLUG
from gitops_bot.authority.ledger_read import LedgerRow, check_piece, export_lines, ledger_page
from gitops_bot.bootstrap.showing import anchors
from gitops_bot.core.ledger import EventKind
from gitops_bot.store import agents
from gitops_bot.store.engine import Tx
from gitops_bot.store.ledger_pages import END, Narrowed
from workspace.auth.people import page_person
from workspace.pages.frame import open_page
from workspace.serving import services

ledger: Final = Blueprint("ledger", __name__)

ROWS: Final = 50
DAY: Final = 86_400_000
NAMES: Final = ("kind", "ask", "agent", "principal", "since", "until")
_PLACE: Final = re.compile(r"[0-9]{1,18}", re.ASCII)
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_KIND: Final = re.compile(r"[a-z_]{1,32}\.[a-z_]{0,32}", re.ASCII)
_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,31}", re.ASCII)
_NOBODY: Final = "-"
"""No id and no name; what is narrowed to it is empty."""


@dataclass(frozen=True, slots=True)
class Filters:
    """What somebody looks for, as they wrote it ('': anything), and what of it is of no use, in words."""

    given: Mapping[str, str]
    narrowed: Narrowed
    faults: tuple[str, ...]

    @property
    def query(self) -> str:
        """The filters as a query string; '' without any."""
        return urlencode({name: value for name, value in self.given.items() if value})


@ledger.get("/ledger")
def entries() -> str:
    """Show entries, newest first; with `check` a piece of the chain is re-computed as well."""
    with open_page() as page:
        filters = read_filters(page.tx, request.args)
        found = ledger_page(page.tx, filters.narrowed, place(request.args.get("before")), ROWS)
        start = place(request.args.get("check"))
        return page.show(
            "history/ledger.html",
            filters=filters,
            found=found,
            slugs=_slugs(page.tx, found.rows),
            kinds=_kinds(),
            principals=sorted(page.rules.policy.people),
            checked=None if start is None else check_piece(page.tx, start),
            anchors=() if start is None else anchors(page.services, page.tx),
            before=request.args.get("before"),
        )


@ledger.get("/ledger/export")
def export() -> Response:
    """Give every sealed entry as a line of JSON, in sealed order, after a place where one is named."""
    page_person()
    lines = export_lines(services().database, place(request.args.get("after")) or 0)
    response = Response(lines, content_type="application/x-ndjson; charset=utf-8")
    response.headers["Content-Disposition"] = 'attachment; filename="ledger.jsonl"'
    return response


def read_filters(tx: Tx, query: Mapping[str, str]) -> Filters:
    """Read the filters of an address; what is none narrows to nothing and is named."""
    given = {name: query.get(name, "").strip() for name in NAMES}
    faults: list[str] = []

    def fitting(name: str, form: re.Pattern[str], called: str) -> str:
        value = given[name]
        if not value or form.fullmatch(value):
            return value
        faults.append(f"That is no {called}.")
        return _NOBODY

    agent = fitting("agent", SLUG, "name of an agent")
    if agent not in ("", _NOBODY):
        known = agents.by_slug(tx, agent)
        if known is None:
            faults.append("There is no agent of that name.")
        agent = _NOBODY if known is None else known.id
    narrowed = Narrowed(
        kind=fitting("kind", _KIND, "kind of event"),
        ask=fitting("ask", ID, "id of an ask: it has 26 letters and digits"),
        agent=agent,
        principal=fitting("principal", _NAME, "name of the policy"),
        since=_day(given["since"], faults, 0),
        until=_day(given["until"], faults, END - DAY) + DAY,
    )
    return Filters(given, narrowed, tuple(faults))


def place(text: str | None) -> int | None:
    """Read a place in the sealed order; None for what is none."""
    return int(text) if text and _PLACE.fullmatch(text) else None


def _day(text: str, faults: list[str], otherwise: int) -> int:
    """Read a day as its first millisecond in UTC."""
    if not text:
        return otherwise
    try:
        if not _DATE.fullmatch(text):
            raise ValueError
        return int(datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC).timestamp()) * 1000
    except ValueError:
        faults.append("A day is written as 2026-12-31.")
        return otherwise


def _kinds() -> list[tuple[str, list[str]]]:
    """List the kinds of events by what they are about."""
    ordered = sorted(kind.value for kind in EventKind)
    return [(family, list(found)) for family, found in groupby(ordered, lambda kind: kind.partition(".")[0])]


def _slugs(tx: Tx, rows: tuple[LedgerRow, ...]) -> dict[str, str]:
    found = {row.agent for row in rows if row.agent is not None}
    return {one: known.slug for one in found if (known := agents.get(tx, one)) is not None}
