"""The agents by the two groups of their status (I8), and the thread of each. What a person writes into a thread is a
message: it answers nothing, and the page says so.
"""

from typing import Final

from flask import Blueprint, abort, request

from gitops_bot.authority.agents import SLUG
from gitops_bot.authority.agents_read import agent_shown, agents_page
from gitops_bot.authority.threads_read import parse_cursor, thread
from gitops_bot.core.errors import Malformed
from gitops_bot.core.principals import PrincipalKind, PrincipalName
from gitops_bot.policy.model import Policy
from workspace.pages.frame import open_page

agents: Final = Blueprint("agents", __name__)

LINES: Final = 50
AGENTS: Final = 50


@agents.get("/agents")
def every() -> str:
    """List the agents: who needs a person, then everybody else."""
    after = request.args.get("after", "")
    after = after if SLUG.fullmatch(after) else ""
    with open_page() as page:
        found = agents_page(page.tx, page.rules, after, AGENTS)
        return page.show(
            "agents/list.html",
            needing=[row for row in found.rows if row.needs_person],
            fine=[row for row in found.rows if not row.needs_person],
            after=after,
            next=found.next,
            services=_services_of(page.rules.policy, page.name),
        )


@agents.get("/agents/<slug>")
def one(slug: str) -> str:
    """Show an agent and its thread, the newest lines, or those before a cursor."""
    before = request.args.get("before") or None
    with open_page() as page:
        row = agent_shown(page.tx, page.rules, slug) if SLUG.fullmatch(slug) else None
        if row is None:
            abort(404)
        said = thread(page.tx, page.rules, row.agent, before if _is_cursor(before) else None, LINES)
        return page.show("agents/thread.html", row=row, agent=row.agent, said_so_far=said)


def _is_cursor(text: str | None) -> bool:
    try:
        parse_cursor(text or "")
    except Malformed:
        return False
    return True


def _services_of(policy: Policy, person: PrincipalName) -> list[PrincipalName]:
    """Name the services that a person may add agents for: their own and nobody's; none with a role of its own."""
    return [
        name
        for name, one in sorted(policy.people.items())
        if one.principal.kind is PrincipalKind.SERVICE
        and one.principal.role is None
        and one.principal.owner in (None, person)
    ]
