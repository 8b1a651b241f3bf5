"""Claiming 1,000 due rows of 1,000,000, in one transaction, beside 1,000 claims of one row in the same run.

Bound: under 100 ms on both engines. SQLite is a file on this disk, each commit synced; PostgreSQL is the test cluster,
which syncs none. On both, a quarter of the rows is another duty's, and twice as many rows are due as are claimed.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from sqlalchemy import make_url, text

from benchmarks.machine import median, timed
from gitops_bot.store import due, schema
from gitops_bot.store.engine import Database
from gitops_bot.store.roles import Role
from tests.postgres import postgres_superuser_url
from tests.store_fixtures import Cluster, FreshDatabase

ROWS: Final = 1_000_000
AT_ONCE: Final = 1_000
ROUNDS: Final = 7
BOUND_MS: Final = 100.0
LEASE_MS: Final = 60_000

_DUE: Final = (ROUNDS + 1) * AT_ONCE * 2  # of those, the claimed and as many again
_NUMBERS: Final = {
    "sqlite": "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < :rows)",
    "postgresql": "WITH n(i) AS (SELECT * FROM generate_series(0, :rows - 1))",
}
# Scattered over the table, as rows are that came in over time.
_FILL: Final = (
    "{numbers} INSERT INTO due (duty, key, due_at) SELECT CASE WHEN i % 4 = 3 THEN 'other' ELSE 'bench' END, "
    "'key-' || i, CASE WHEN (CAST(i AS bigint) * 7919) % :rows < :due THEN :now - 1 - i "
    "ELSE :now + 86400000 + i END FROM n"
)


@contextmanager
def sqlite() -> Iterator[FreshDatabase]:
    """Give a migrated database file on this machine's disk."""
    with tempfile.TemporaryDirectory(prefix="gitops-bot-bench-") as folder:
        fresh = FreshDatabase("sqlite", f"sqlite:///{Path(folder) / 'bench.db'}")
        schema.upgrade(fresh.open(Role.OWNER).engine)
        yield fresh
        fresh.close()


@contextmanager
def postgresql() -> Iterator[FreshDatabase]:
    """Give a migrated database on the test cluster."""
    cluster = Cluster(make_url(postgres_superuser_url()))
    fresh = cluster.clone()
    yield fresh
    fresh.close()
    cluster.release(fresh)
    cluster.close()


def fill(owner: Database) -> None:
    """Write the rows, and let the planner know of them as autovacuum would."""
    with owner.write() as tx:
        statement = text(_FILL.format(numbers=_NUMBERS[owner.dialect]))
        tx.execute(statement, {"rows": ROWS, "due": _DUE, "now": tx.now})
    if owner.dialect == "postgresql":
        with owner.write() as tx:
            tx.execute(text("ANALYZE due"))


def claim(broker: Database, limit: int) -> None:
    """Claim once and see that as many rows came."""
    with broker.write() as tx:
        claimed = due.claim(tx, "bench", limit, LEASE_MS)
    assert len(claimed) == limit, len(claimed)


def measure(fresh: FreshDatabase) -> bool:
    """Print both sides and tell whether the bound holds."""
    fill(fresh.open(Role.OWNER))
    broker = fresh.open(Role.BROKER)
    claim(broker, 1)  # the statement is compiled
    at_once = [timed(lambda: claim(broker, AT_ONCE)) for _ in range(ROUNDS)]
    one_by_one = timed(lambda: [claim(broker, 1) for _ in range(AT_ONCE)])
    held = median(at_once) < BOUND_MS
    print(
        f"  {fresh.kind}: {AT_ONCE} of {ROWS} rows at once {median(at_once):.1f} ms (median of {ROUNDS}, worst "
        f"{max(at_once):.1f}; bound {BOUND_MS:.0f}: {'holds' if held else 'BROKEN'}); {AT_ONCE} claims of one row "
        f"{one_by_one:.0f} ms; ratio {median(at_once) / one_by_one:.3f}",
        flush=True,
    )
    return held


def main() -> bool:
    """Measure on both engines."""
    with sqlite() as fresh:
        held = measure(fresh)
    with postgresql() as fresh:
        return measure(fresh) and held
