"""Statements that are sent together do what they do one after the other, and fail as one; on both engines."""

import pytest
from sqlalchemy import bindparam, delete, insert, select
from sqlalchemy.exc import IntegrityError

from gitops_bot.store.bulk import insert_all, inserting
from gitops_bot.store.engine import Database
from gitops_bot.store.roles import Role
from gitops_bot.store.work_tables import due
from tests.store_fixtures import FreshDatabase

SET = insert(due)
MANY = inserting(due, "duty", "key", "due_at")
GET = select(due.c.key).where(due.c.duty == bindparam("of")).order_by(due.c.key)
DROP = delete(due).where(due.c.key == bindparam("named"))


def one(key: str) -> dict[str, str | int]:
    return {"duty": "d", "key": key, "due_at": 1}


@pytest.fixture
def opened(database: FreshDatabase) -> Database:
    return database.open(Role.BROKER)


def keys(opened: Database) -> list[str]:
    with opened.read() as tx:
        return [row.key for row in tx.execute(GET, {"of": "d"})]


def test_all_that_is_sent_together_is_done_in_its_order(opened: Database) -> None:
    """At the first run of a statement and at later ones, with one row, with some, and with what sees those before."""
    for _ in range(3):
        with opened.write() as tx:
            with tx.together():
                tx.execute(SET, one("a"))
                insert_all(tx, MANY, [one("b")])
                insert_all(tx, MANY, [one("c"), one("d")])
                tx.execute(DROP, [{"named": "b"}, {"named": "c"}])
            assert [row.key for row in tx.execute(GET, {"of": "d"})] == ["a", "d"]
            tx.execute(DROP, [{"named": "a"}, {"named": "d"}])
    assert keys(opened) == []


@pytest.mark.parametrize("runs", [0, 3])
def test_a_violation_is_core_s_error_and_nothing_of_the_transaction_stands(opened: Database, runs: int) -> None:
    """Whatever came after it in the block; the connection serves the next transaction."""
    for run in range(runs):
        with opened.write() as tx, tx.together():
            tx.execute(SET, one(f"before{run}"))
    before = keys(opened)
    with pytest.raises(IntegrityError), opened.write() as tx:
        tx.execute(SET, one("first"))
        with tx.together():
            tx.execute(SET, one("a"))
            tx.execute(SET, one("a"))
            tx.execute(SET, one("b"))
    assert keys(opened) == before
    with opened.write() as tx, tx.together():
        tx.execute(SET, one("after"))
    assert keys(opened) == ["after", *before]


def test_nothing_is_asked_for_within_the_block(opened: Database) -> None:
    """Rows are there when all was sent, and not before; so a statement that gives some is a bug of ours."""
    for _ in range(2):
        with pytest.raises(RuntimeError, match="asked for"), opened.write() as tx, tx.together():
            tx.execute(SET, one("a"))
            tx.execute(GET, {"of": "d"})
    assert keys(opened) == []
