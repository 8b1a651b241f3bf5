"""A connection that died in the pool costs nobody a refusal; one that dies at work is told as the outside's."""

import pytest
from sqlalchemy import make_url, text

from gitops_bot.core.errors import Unavailable
from gitops_bot.store.roles import Role
from tests.store_fixtures import Cluster, FreshDatabase

pytestmark = pytest.mark.postgresql


def cut(cluster: Cluster, fresh: FreshDatabase) -> None:
    """End every session of a database from the server's side, as a restart does."""
    name = make_url(fresh.owner_url).database
    cluster.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")


def test_a_connection_that_died_in_the_pool_is_replaced(cluster: Cluster, postgresql_database: FreshDatabase) -> None:
    database = postgresql_database.open(Role.BROKER)
    with database.read() as first, database.read() as second:
        assert second.now >= first.now
    cut(cluster, postgresql_database)
    with database.write() as tx:
        assert tx.execute(text("SELECT 1")).scalar_one() == 1
    with database.read() as first, database.read() as second:
        assert second.now >= first.now


def test_a_connection_that_dies_at_work_is_unavailable(cluster: Cluster, postgresql_database: FreshDatabase) -> None:
    database = postgresql_database.open(Role.BROKER)
    with pytest.raises(Unavailable), database.write() as tx:
        cut(cluster, postgresql_database)
        tx.execute(text("SELECT 1"))
    with database.write() as tx:
        assert tx.execute(text("SELECT 1")).scalar_one() == 1
