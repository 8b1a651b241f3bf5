"""A token is good once, and is remembered for as long as it could be used."""

from gitops_bot.store import used_tokens
from gitops_bot.store.roles import Role
from gitops_bot.store.work_tables import used_tokens as table
from tests.store_fixtures import FreshDatabase


def test_a_token_is_used_once(database: FreshDatabase) -> None:
    opened = database.open(Role.WORKSPACE)
    with opened.write() as tx:
        assert used_tokens.use(tx, "a", tx.now + 1_000)
        assert not used_tokens.use(tx, "a", tx.now + 1_000)
        assert used_tokens.use(tx, "b", tx.now + 1_000)
    with opened.write() as tx:
        assert not used_tokens.use(tx, "a", tx.now + 99_000)


def test_ids_of_ended_tokens_are_forgotten(database: FreshDatabase) -> None:
    opened = database.open(Role.WORKSPACE)
    with opened.write() as tx:
        assert used_tokens.use(tx, "ended", tx.now - 1)
        assert used_tokens.use(tx, "lives", tx.now + 60_000)
    with opened.write() as tx:
        used_tokens.use(tx, "next", tx.now + 60_000)
        assert {row.id for row in tx.execute(table.select())} == {"lives", "next"}
