"""Who may answer and what each signs in with: the policy's people, their passkeys, and the person's own sessions,
notices and preferences.
"""

from typing import Final

from flask import Blueprint

from gitops_bot.authority.people_read import people_shown
from gitops_bot.authority.sessions import of_person
from gitops_bot.store import notices
from workspace.auth.people import unauthorized
from workspace.pages.frame import open_page

people: Final = Blueprint("people", __name__)

NOTICES: Final = 20


@people.get("/people")
def everybody() -> str:
    """Show everybody whom the policy names, the person's own keys and sessions first."""
    with open_page() as page:
        found = people_shown(page.tx, page.rules)
        mine = next((one for one in found if one.name == page.name), None)
        if mine is None:
            # A policy without this person came into force between the look at the cookie and this one.
            raise unauthorized()
        return page.show(
            "people/page.html",
            people=found,
            mine=mine,
            my_keys=[key for key in mine.passkeys if key.revoked_at is None],
            my_key=page.person.session.credential,
            sessions=of_person(page.tx, page.name),
            notices=notices.page(page.tx, page.name, NOTICES),
            unread=notices.unread(page.tx, page.name),
        )
