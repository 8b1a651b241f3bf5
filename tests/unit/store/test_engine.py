"""Transactions of the store, on each engine."""

from gitops_bot.store.roles import Role
from tests.store_fixtures import FreshDatabase


def test_opens(database: FreshDatabase) -> None:
    for role in Role:
        with database.open(role).write() as tx:
            assert tx.now > 1_600_000_000_000
