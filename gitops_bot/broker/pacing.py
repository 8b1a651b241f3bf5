"""How fast the broker writes to the forge: below the limits on new content, with a third kept for what verdicts cause.

What was admitted is counted in one row, by ten seconds and by minutes, so that a restart or a second broker forgets
nothing (GitHub REST, rate limits: 80 a minute and 500 an hour). A lane in which something urgent waits may use the
whole budget, so that an answer never queues behind chatter on its own pull request.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gitops_bot.store import outbox, settings, turns
from gitops_bot.store.engine import Tx
from gitops_bot.store.outbox import StoredEffect

CURSOR: Final = "forge:writes"
A_MINUTE: Final = 80
AN_HOUR: Final = 500

URGENT: Final = frozenset({"forge.react", "forge.status", "forge.supersede", "forge.close", "forge.record"})
"""What follows from a decision. Drafts and replies are not: there may be any number of them."""
COSTS: Final[Mapping[str, int]] = {"forge.open_draft": 3, "forge.record": 2}
"""Writes of one effect, where there are several."""


@dataclass(frozen=True, slots=True)
class Window:
    """A sliding window in slices: how long it is and how fine it is counted (ms), and how much fits."""

    name: str
    slice_ms: int
    slices: int
    most: int


WINDOWS: Final = (Window("minute", 10_000, 6, A_MINUTE), Window("hour", 60_000, 60, AN_HOUR))


def admit(tx: Tx, effect: StoredEffect) -> int:
    """Count an effect in and give 0, or give the ms until there may be room for it."""
    turns.take(tx, CURSOR)
    stored = settings.cursor(tx, CURSOR)
    counts: dict[str, dict[str, int]] = {} if stored is None else json.loads(stored)
    cost = COSTS.get(effect.kind, 1)
    urgent = effect.kind in URGENT or not URGENT.isdisjoint(outbox.kinds_in_lane(tx, effect.lane))
    kept: dict[str, dict[str, int]] = {}
    for window in WINDOWS:
        now = tx.now // window.slice_ms
        # One slice more than the window holds: the oldest is over only in part.
        slices = {at: n for at, n in counts.get(window.name, {}).items() if now - window.slices <= int(at) <= now}
        room = window.most if urgent else window.most * 2 // 3
        if sum(slices.values()) + cost > room:
            oldest = min(map(int, slices))
            return max(1_000, (oldest + window.slices + 1) * window.slice_ms - tx.now)
        slices[str(now)] = slices.get(str(now), 0) + cost
        kept[window.name] = slices
    settings.set_cursor(tx, CURSOR, json.dumps(kept))
    return 0
