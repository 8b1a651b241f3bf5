"""What every page has around it: who is signed in, how much needs them, their preferences; and how a page is rendered.

`open_page` is the one way into a page: somebody is signed in, and one read transaction is open until the page is made.
Pages decide nothing; every act is a POST to the API.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from flask import render_template, request

from gitops_bot.authority import inbox
from gitops_bot.authority.rules import Rules
from gitops_bot.authority.sessions import Person
from gitops_bot.bootstrap.workspace import Services
from gitops_bot.core.principals import PrincipalName
from gitops_bot.store import preferences
from gitops_bot.store.engine import Tx
from workspace.auth.people import page_person
from workspace.serving import services

MOST_BADGED: Final = 100


@dataclass(frozen=True, slots=True)
class Page:
    """One page for one person, over one snapshot of the rows."""

    tx: Tx
    services: Services
    rules: Rules
    person: Person

    @property
    def name(self) -> PrincipalName:
        """Who looks at the page."""
        return self.person.principal.name

    def badge(self) -> int:
        """Count what needs the person, at most 100."""
        return inbox.badge(self.tx, self.rules, self.name)

    def show(self, template: str, **shown: Any) -> str:
        """Render a template: a whole page by `base.html`, or a fragment. A page that has counted gives its `badge`."""
        return render_template(template, **self._around(shown.pop("badge", None)), **shown)

    def _around(self, counted: int | None) -> dict[str, Any]:
        # A fragment has no navigation, so that nothing is counted for it.
        badge = counted if counted is not None else 0 if wants_fragment() else self.badge()
        return {
            "person": self.person,
            "name": self.name,
            "badge": badge,
            "badge_text": badge_text(badge),
            "single_keys": preferences.single_keys(self.tx, self.name),
            "now": self.tx.now,
            "site": self.services.site,
        }


def badge_text(count: int) -> str:
    """Write a count for the badge and the title; empty when nothing needs the person (I8)."""
    if count <= 0:
        return ""
    return str(count) if count < MOST_BADGED else f"{MOST_BADGED - 1}+"


def wants_fragment() -> bool:
    """Tell whether htmx asks for a piece of a page; going back in the history it wants the whole one."""
    return request.headers.get("HX-Request") == "true" and request.headers.get("HX-History-Restore-Request") != "true"


@contextmanager
def open_page() -> Iterator[Page]:
    """Open a page for whoever is signed in; without anybody the person is sent to sign in and comes back here."""
    person = page_person()
    found = services()
    with found.database.read() as tx:
        yield Page(tx, found, found.rules, person)
