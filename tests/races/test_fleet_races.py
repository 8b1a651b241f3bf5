"""The races of I1, I2 and I6 over all interleavings of the two transactions.

On PostgreSQL every step from every point is taken (`tests.interleaved`). On SQLite the two orders are all there are:
that nobody begins to write while a transaction is open is shown at each of its statements.
`HYPOTHESIS_PROFILE=long` stands before every statement, and not only before those where the two may meet.
"""

import fcntl
import os
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import create_engine, make_url, update

from gitops_bot.store import fleet
from gitops_bot.store.engine import Tx
from gitops_bot.store.fleet_tables import fleet_agents
from gitops_bot.store.roles import Role
from tests.fleet_stage import FleetStage
from tests.interleaved import Actor, Race, Server, explore, stepping
from tests.postgres import postgres_superuser_url
from tests.races.fleet_races import RACES, Ground
from tests.store_fixtures import FreshDatabase

EVERY = os.environ.get("HYPOTHESIS_PROFILE") == "long"
LONG = {"answer, settle, wakes on all", "expiry, settle", "withdraw, answer", "send, send"}
"""Those that meet where others do already; on PostgreSQL they are left to the long run."""


@pytest.fixture
def server(postgresql_database: FreshDatabase) -> Iterator[Server]:
    """Somebody who may see who waits for whom."""
    url = make_url(postgres_superuser_url()).set(database=make_url(postgresql_database.owner_url).database)
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    seen = Server(engine)
    yield seen
    seen.close()
    engine.dispose()


@pytest.mark.postgresql
@pytest.mark.parametrize("name", [name for name in RACES if EVERY or name not in LONG])
def test_every_interleaving_on_postgresql(
    name: str, server: Server, postgresql_database: FreshDatabase, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare = RACES[name]
    both = (postgresql_database.open(Role.BROKER), postgresql_database.open(Role.BROKER))
    stage = FleetStage(postgresql_database.open(Role.BROKER))
    with stepping():
        found = explore(server, both, lambda: prepare(stage), every=EVERY)
    with capsys.disabled():
        print(f"\n{name}: {len(found.steps)} points, {found.runs} runs, {found.waited} waits", end=" ")
    assert found.runs > 2


@pytest.mark.parametrize("turned", [False, True], ids=["in order", "turned"])
@pytest.mark.parametrize("name", RACES)
def test_both_orders_on_sqlite(name: str, turned: bool, sqlite_database: FreshDatabase) -> None:
    database = sqlite_database.open(Role.BROKER)
    race = RACES[name](FleetStage(database))
    results: dict[bool, Any] = {}
    for is_second in (turned, not turned):
        with database.write() as tx:
            results[is_second] = (race.second if is_second else race.first)(tx)
    race.check(results[False], results[True])


def may_begin_to_write(fresh: FreshDatabase) -> bool:
    """Tell whether the turn of the writers is free, without waiting for it."""
    turn = os.open(f"{fresh.path}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False
    finally:
        os.close(turn)


def test_nobody_begins_to_write_within_a_transaction_on_sqlite(sqlite_database: FreshDatabase) -> None:
    """At each statement of a settle another writer is shut out; before its begin and after its commit it is not."""
    database = sqlite_database.open(Role.BROKER)
    race: Race = RACES["answer, settle"](FleetStage(database))
    seen: list[bool] = []
    with stepping():
        actor = Actor("settle", database, race.second, lambda _: True)
        actor.thread.start()
        while actor.waits(30) and actor.state != "done":
            seen.append(may_begin_to_write(sqlite_database))
            actor.go()
    actor.thread.join(30)
    assert actor.error is None and len(seen) > 10
    assert seen[0] and not any(seen[1:]) and may_begin_to_write(sqlite_database)


def unguarded(stage: FleetStage) -> Race:
    """Settle as nobody should: look whether something woke the agent, and later write as if that still stood."""
    ground = Ground(stage)
    ground.opened()
    own = update(fleet_agents).where(fleet_agents.c.agent == ground.agent.id).values(due_at=None, due_reason=None)

    def settle(tx: Tx) -> None:
        standing = fleet.get(tx, ground.agent.id)
        if standing is not None and standing.due_at is None:
            tx.execute(own)

    def check(woken: Any, _settled: Any) -> None:
        assert woken and ground.reason() == "person"

    return Race(lambda tx: fleet.wake(tx, ground.agent.id, "person"), settle, check)


@pytest.mark.postgresql
def test_the_explorer_finds_a_lost_update(server: Server, postgresql_database: FreshDatabase) -> None:
    """The twin: where a settle takes no lock and compares nothing, some interleaving loses a person's wake."""
    both = (postgresql_database.open(Role.BROKER), postgresql_database.open(Role.BROKER))
    stage = FleetStage(postgresql_database.open(Role.BROKER))
    with stepping(), pytest.raises(AssertionError, match="on the way"):
        explore(server, both, lambda: unguarded(stage), every=False)
