"""The tick: in every open lane, agents that are due get a run and a body, as many as there are free slots.

A run is opened in one transaction with its capsule, its dispatch and what it consumed; only then does its body start,
so that a process killed between the two leaves a lease that runs out. A look that finds nothing takes no turn at the
database. Bodies, their leases and their end are `bodies`' work, lost ones the reconciler's.
"""

from collections.abc import Collection, Sequence
from typing import Final

from gitops_bot.core.errors import Fact, Unavailable
from gitops_bot.core.ledger import Entry, EventKind
from gitops_bot.fleet import prompting
from gitops_bot.fleet.bodies import Bodies
from gitops_bot.store import due_agents, ledger
from gitops_bot.store.due_agents import Lane, Opened, Opening
from gitops_bot.store.engine import Database, Tx
from gitops_bot.store.states import HarnessKind

IDLE_SECONDS: Final = 1.0
"""Polling each second is the truth; hints only shorten it."""


class Tick:
    """The duty that starts agents; implements `ports.Duty`. `slots` is of one lane, over all brokers; `lease` in ms."""

    name = "tick"

    def __init__(
        self,
        database: Database,
        bodies: Bodies,
        *,
        holder: str,
        slots: int,
        lease: int,
        keeping: Collection[HarnessKind] = (),
    ) -> None:
        self._database, self._bodies = database, bodies
        self._holder, self._slots, self._lease, self._keeping = holder, slots, lease, keeping

    def step(self) -> float:
        """Start what is due in each lane, and keep the leases of what runs. Gives the seconds until more may be due."""
        try:
            with self._database.read() as tx:
                lanes, now = due_agents.overview(tx), tx.now
            ready = [one.id for one in lanes if one.is_ripe and one.opens_at <= now and one.running < self._slots]
            started = sum(self._start(lane) for lane in ready)
            wait = self._bodies.watch()
        except Unavailable:
            return IDLE_SECONDS
        return 0.0 if started else min(wait, IDLE_SECONDS, *(_until(lane, now) for lane in lanes))

    def _start(self, lane: str) -> int:
        with self._database.write() as tx:
            opened = dispatch(tx, lane, self._slots, self._holder, self._lease, self._keeping)
        for one in opened:
            self._bodies.start(one)
        return len(opened)


def _until(lane: Lane, now: int) -> float:
    """Give the seconds until a lane opens or an agent in it is due; what is due already waits for a slot, and a body
    that ends rings."""
    times = [*([lane.next_at] if lane.next_at is not None else []), *([lane.opens_at] if lane.is_ripe else [])]
    return min([(at - now) / 1_000 for at in times if at > now], default=IDLE_SECONDS)


def dispatch(
    tx: Tx, lane: str, slots: int, holder: str, lease: int, keeping: Collection[HarnessKind] = ()
) -> list[Opened]:
    """Open the runs of the agents of one lane that are due, as many as its slots take; no body starts."""
    claimed = due_agents.claim(tx, lane, slots)
    if not claimed:
        return []
    openings = prompting.openings(tx, claimed, keeping)
    opened = due_agents.open_runs(tx, openings, holder, lease)
    ledger.append(tx, *_entries(tx, openings))
    return opened


def _entries(tx: Tx, openings: Sequence[Opening]) -> list[Entry]:
    entries: list[Entry] = []
    for one in openings:
        facts: dict[str, Fact] = {
            "slug": one.claimed.agent.slug,
            "version": one.version,
            "lane": one.claimed.setup.lane,
            "wake": one.claimed.reason,
            "told": len(one.told),
        }
        entries.append(Entry(EventKind.RUN_DISPATCHED, tx.now, run=one.run, agent=one.claimed.agent.id, facts=facts))
    return entries
