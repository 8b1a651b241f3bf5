"""What the agents do while nothing needs the person: the lines of an empty inbox."""

from typing import Final

from gitops_bot.authority.agents_read import agents_page
from gitops_bot.core.status import AgentStatus
from workspace.pages.frame import Page
from workspace.texts import visible

MOST: Final = 5
_LOOKED: Final = 20


def doing(page: Page) -> tuple[str, ...]:
    """Say in a few lines what the agents are doing."""
    found = agents_page(page.tx, page.rules, "", _LOOKED)
    rows = [row for row in found.rows if row.status is not AgentStatus.RETIRED]
    if not rows:
        return ("There is no agent yet. As soon as one asks something that only you can settle, it stands here.",)
    lines = [f"{visible(row.agent.slug)}: {row.doing}" for row in rows[:MOST]]
    if len(rows) > MOST or found.next is not None:
        lines.append("The others stand under Agents.")
    return tuple(lines)
