"""The turns of a fleet agent as people read them: why each began, how long it took, what it came to, what it was told
and what it said.

What a body said is kept as it comes while the turn runs; a settled turn keeps what landed of it, in the agent's thread.
Of the thread only the newest lines are looked through for those of a turn.
"""

import re
from dataclasses import dataclass
from typing import Final

from gitops_bot.authority.shown import AgentText
from gitops_bot.authority.threads_read import ThreadItem, item_of
from gitops_bot.core.texts import storable
from gitops_bot.store import dispatches, page_rows, turn_rows
from gitops_bot.store.agents import Agent
from gitops_bot.store.engine import Tx
from gitops_bot.store.turn_rows import TurnRow

MOST: Final = 100
VERSION: Final = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)
MOST_TEXT: Final = 65_536
"""Characters of what a body said that a page shows, from the end."""
LOOKED: Final = 500
"""So many of the newest lines of a thread are looked through for those of one turn."""
_END: Final = 2**53 - 1


@dataclass(frozen=True, slots=True)
class Turns:
    """Turns newest first, and the time before which the next page goes on (None at the end)."""

    rows: tuple[TurnRow, ...]
    next: int | None


@dataclass(frozen=True, slots=True)
class TurnShown:
    """One turn: its capsule, what its body said so far (None once it is settled), how many characters of that were left
    out at its beginning, and the lines of the thread that are of its run."""

    row: TurnRow
    capsule: str
    text: AgentText | None
    cut: int
    lines: tuple[ThreadItem, ...]


def turns_page(tx: Tx, agent: Agent, before: int | None, limit: int) -> Turns:
    """Read an agent's turns that began before a time (ms; None: the newest)."""
    wanted = min(max(1, limit), MOST)
    found = turn_rows.turns_of(tx, agent.id, before, wanted + 1)
    shown = tuple(found[:wanted])
    return Turns(shown, shown[-1].started_at if len(found) > wanted else None)


def turn_shown(tx: Tx, agent: Agent, run: str, version: int | None = None) -> TurnShown | None:
    """Read one turn of an agent, the last one of the run without a version; None where it has no such turn."""
    row = turn_rows.turn(tx, storable(run), version)
    if row is None or row.agent != agent.id:
        return None
    stored = dispatches.get(tx, row.run, row.version)
    assert stored is not None
    said = None if row.ended_at is not None else dispatches.text(tx, row.run, row.version)
    found = page_rows.messages_of(tx, agent.id, _END, LOOKED)
    lines = tuple(item_of(agent, one) for one in reversed(found) if one.run == row.run)
    text = None if said is None else AgentText(said[-MOST_TEXT:], agent.slug)
    return TurnShown(row, stored.capsule, text, max(0, len(said or "") - MOST_TEXT), lines)
