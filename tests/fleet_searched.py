"""A search over rows for what must never be in a fleet, in words of its own: it shares no statement with the repairs.

What a person decided stands in exactly one capsule, or waits untold for an agent that will be dispatched; who is not
due, does not run, waits for no person and does not rest by its own rule sleeps for ever.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from sqlalchemy import select

from gitops_bot.store.engine import Database, Tx
from gitops_bot.store.fleet_tables import capsule_items, dispatches, fleet_agents
from gitops_bot.store.tables import agents, asks, runs

VERDICTS = ("APPROVED", "DENIED", "ANSWERED")


def _rows(tx: Tx, table: Any, only: Sequence[str]) -> list[Any]:
    of = table.c.id if table is agents else table.c.agent
    return list(tx.execute(select(table).where(of.in_(only)) if only else select(table)).all())


def sleeps_forever(database: Database, only: Sequence[str] = ()) -> list[str]:
    """Name every agent of the fleet (`only`: of some, by id) that nothing will ever wake though something should, with
    why."""
    with database.read() as tx:
        standing, known = _rows(tx, fleet_agents, only), {row.id: row for row in _rows(tx, agents, only)}
        all_runs, all_asks = _rows(tx, runs, only), _rows(tx, asks, only)
        untold = [row for row in _rows(tx, capsule_items, only) if row.run is None]
        held = {(row.run, row.version) for row in _rows(tx, dispatches, only) if row.ended_at is None}
    is_open = {row.run for row in all_asks if row.state == "OPEN"}
    found: list[str] = []
    for row in standing:
        agent, own = known[row.agent], [run for run in all_runs if run.agent == row.agent and run.kind == "agent"]
        live = [run for run in own if run.state == "live"]
        if agent.state == "retired":
            continue
        found += [f"{agent.slug}: live without a body" for run in live if (run.id, run.version) not in held]
        parked = [run for run in own if run.state == "parked"]
        found += [
            f"{agent.slug}: parked for nothing" for run in parked if run.id not in is_open and run.id != row.again
        ]
        if row.resting or row.due_at is not None or live:
            continue
        waits = [ask for ask in all_asks if ask.agent == row.agent and ask.state == "OPEN"]
        news = [item for item in untold if item.agent == row.agent]
        alone = row.policy in ("continuous", "scheduled") and row.outcome != "BLOCKED"
        if not waits and (news or alone or row.again is not None):
            found.append(f"{agent.slug}: nothing wakes it")
        elif any(item.kind == "message" for item in news):
            found.append(f"{agent.slug}: a message waits, and nothing wakes it")
    return found


def told_wrongly(database: Database, only: Sequence[str] = ()) -> list[str]:
    """Name every ask of a fleet agent that a person decided and that is told in no capsule or in several, or that is
    told though nobody decided it."""
    with database.read() as tx:
        told = {row.id for row in _rows(tx, agents, only) if row.kind == "agent" and row.state != "retired"}
        decided = {row.id: row.state for row in _rows(tx, asks, only) if row.agent in told}
        items = Counter(row.ref for row in _rows(tx, capsule_items, only) if row.kind == "ask" and row.run is not None)
        capsules: dict[str, dict[int, str]] = {}
        for row in _rows(tx, dispatches, only):
            capsules.setdefault(row.run, {})[row.version] = row.capsule
    found: list[str] = []
    for ask, state in decided.items():
        within = [run for run, texts in capsules.items() if f"state: {state}" in texts[1] and ask in texts[1]]
        wanted = int(state != "OPEN")
        if (items[ask], len(within)) != (wanted, wanted):
            found.append(f"{ask} {state}: consumed {items[ask]} times, in the capsules of {within}")
    found += [f"{run}: told otherwise when dispatched again" for run, texts in capsules.items() if _differ(texts)]
    return found


def _differ(texts: dict[int, str]) -> bool:
    return len(set(texts.values())) > 1
