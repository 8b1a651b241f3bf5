"""A tick over fleets of 10,000, 100,000 and 1,000,000 agents of which 1,000 are due, in one run, on both engines.

One tick is what a broker does when slots are free: it looks at the lanes, claims the due agents, opens their runs with
capsule, token and ledger entry, and commits. Bodies are not started. Bound: under 250 ms at every size; that it goes by
the number due and not by the fleet's size shows in the ratio of the largest to the smallest. SQLite is a file on this
disk, each commit synced; PostgreSQL is the test cluster, which syncs none.
"""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final

from sqlalchemy import text

from benchmarks.bench_claim import postgresql, sqlite
from benchmarks.machine import median
from gitops_bot.fleet.tick import dispatch
from gitops_bot.store import due_agents
from gitops_bot.store.engine import Database
from gitops_bot.store.roles import Role
from tests.store_fixtures import FreshDatabase

SIZES: Final = (10_000, 100_000, 1_000_000)
DUE: Final = 1_000
ROUNDS: Final = 5
BOUND_MS: Final = 250.0
LANE: Final = "command:bench"
_NUMBERS: Final = {
    "sqlite": "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < :rows)",
    "postgresql": "WITH n(i) AS (SELECT * FROM generate_series(0, :rows - 1))",
}
_PADDED: Final = {"sqlite": "printf('%010d', i)", "postgresql": "lpad(i::text, 10, '0')"}
_AGENTS: Final = (
    "{numbers} INSERT INTO agents (id, slug, kind, principal, owner, purpose, state, created_at) "
    "SELECT 'a' || {padded}, 's' || {padded}, 'agent', 'agent', 'alice', 'to be measured', 'active', :now FROM n"
)
# Those that are due lie scattered over the fleet, as agents do that were woken by people.
_FLEET: Final = (
    "{numbers} INSERT INTO fleet_agents (agent, harness, command, folder, lane, policy, wake_on, turn_limit, resting, "
    "due_at, due_reason, wake_seq, idle, errors) SELECT 'a' || {padded}, 'command', '[\"true\"]', '/', :lane, "
    "'continuous', 'any', 60000, 0, CASE WHEN (CAST(i AS bigint) * 7919) % :rows < :due THEN :now - 1 - i "
    "ELSE :now + 86400000 + i END, 'soon', 0, 0, 0 FROM n"
)


def fill(owner: Database, size: int) -> None:
    """Write a fleet in which every round finds 1,000 due agents, and let the planner know of it."""
    numbers, padded = _NUMBERS[owner.dialect], _PADDED[owner.dialect]
    with owner.write() as tx:
        values = {"rows": size, "now": tx.now}
        tx.execute(text(_AGENTS.format(numbers=numbers, padded=padded)), values)
        tx.execute(text("INSERT INTO lanes (id, opens_at, closings) VALUES (:lane, 0, 0)"), {"lane": LANE})
        due = (ROUNDS + 1) * DUE
        fleet = text(_FLEET.format(numbers=numbers, padded=padded))
        tx.execute(fleet, {**values, "lane": LANE, "due": due})
    _analyze(owner)


def _analyze(owner: Database) -> None:
    if owner.dialect == "postgresql":
        with owner.write() as tx:
            tx.execute(text("ANALYZE"))


def tick(broker: Database) -> None:
    """Tick once and see that every due agent within the slots got its run."""
    with broker.read() as tx:
        (lane,) = due_agents.overview(tx)
    assert lane.is_ripe
    with broker.write() as tx:
        opened = dispatch(tx, LANE, DUE, "bench", 30_000)
    assert len(opened) == DUE, len(opened)


def settle(owner: Database) -> None:
    """End what was started, so that the slots are free again."""
    with owner.write() as tx:
        tx.execute(text("UPDATE runs SET state = 'ended', ended_at = 1, outcome = 'WORK_DONE' WHERE state = 'live'"))
        tx.execute(text("UPDATE dispatches SET ended_at = 1 WHERE ended_at IS NULL"))
    _analyze(owner)


def measure(fresh: FreshDatabase, size: int) -> tuple[float, float]:
    """Give the median of a tick in ms, and of the processor time of this process in it."""
    owner, broker = fresh.open(Role.OWNER), fresh.open(Role.BROKER)
    fill(owner, size)
    took, worked = [], []
    for _ in range(ROUNDS + 1):
        began, cpu = time.perf_counter(), time.process_time()
        tick(broker)
        took.append((time.perf_counter() - began) * 1_000)
        worked.append((time.process_time() - cpu) * 1_000)
        settle(owner)
    # The first one compiles the statements.
    return median(took[1:]), median(worked[1:])


def main() -> bool:
    """Print each engine at each size and tell whether the bound holds."""
    held = True
    engines: tuple[Callable[[], AbstractContextManager[FreshDatabase]], ...] = (sqlite, postgresql)
    for engine in engines:
        found: dict[int, float] = {}
        for size in SIZES:
            with engine() as fresh:
                found[size], cpu = measure(fresh, size)
                took = f"tick {found[size]:6.1f} ms (own processor {cpu:.0f})"
                print(f"  {fresh.kind:11} {size:>9,} agents, {DUE:,} due: {took}", flush=True)
        slowest, ratio = max(found.values()), found[SIZES[-1]] / found[SIZES[0]]
        is_held = slowest < BOUND_MS
        held &= is_held
        verdict = "holds" if is_held else "BROKEN"
        times = f"{SIZES[-1] // SIZES[0]} times the fleet takes {ratio:.2f} times as long"
        print(f"    {times}; bound {BOUND_MS:.0f} ms: {verdict}", flush=True)
    return held
