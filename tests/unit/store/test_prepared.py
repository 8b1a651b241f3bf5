"""A statement that the driver runs by itself gives, refuses and tells what Core's run of it does, on every engine."""

from typing import Any

import pytest
from sqlalchemy import bindparam, delete, event, insert, select, update
from sqlalchemy.exc import IntegrityError, StatementError

from gitops_bot.store.engine import Database
from gitops_bot.store.roles import Role
from gitops_bot.store.statements import insert_or_ignore
from gitops_bot.store.tables import claims
from gitops_bot.store.work_tables import due
from tests.store_fixtures import FreshDatabase
from tests.store_rows import row

SET = insert(due)
GET = select(due.c.key, due.c.due_at).where(due.c.duty == bindparam("of")).order_by(due.c.key)
MOVE = update(due).where(due.c.duty == bindparam("of")).values(due_at=bindparam("at")).returning(due.c.key)
DROP = delete(due).where(due.c.key == bindparam("named"))
CLAIM = insert_or_ignore(claims, ("channel", "source"))
EVIDENCE = select(claims.c.evidence).where(claims.c.source == bindparam("of"))


@pytest.fixture
def opened(database: FreshDatabase) -> Database:
    return database.open(Role.BROKER)


def test_every_run_gives_what_the_first_gave(opened: Database) -> None:
    with opened.write() as tx:
        for number in range(3):
            tx.execute(SET, {"duty": "d", "key": f"k{number}", "due_at": number})
        rounds = [[(found.key, found.due_at) for found in tx.execute(GET, {"of": "d"})] for _ in range(3)]
        assert rounds == [[("k0", 0), ("k1", 1), ("k2", 2)]] * 3
        assert [tx.execute(GET, {"of": "x"}).one_or_none() for _ in range(3)] == [None] * 3
        for _ in range(3):
            assert sorted(tx.execute(MOVE, {"of": "d", "at": 9}).scalars()) == ["k0", "k1", "k2"]
        dropped = [tx.execute(DROP, {"named": f"k{number}"}).rowcount for number in (0, 1, 1, 2)]
        assert dropped == [1, 1, 0, 1]


def test_bytes_and_counts_of_an_insert_are_kept(opened: Database) -> None:
    with opened.write() as tx:
        for number in (1, 2, 3):
            values = row(claims, id=f"c{number}", source=f"s{number}", evidence=b"\x00\xff")
            counts = [tx.execute(CLAIM[tx.dialect], values).rowcount for _ in range(2)]
            assert counts == [1, 0]
            assert bytes(tx.execute(EVIDENCE, {"of": f"s{number}"}).scalar_one()) == b"\x00\xff"


def test_a_value_that_is_missing_is_refused_at_every_run(opened: Database) -> None:
    for _ in range(3):
        with pytest.raises(StatementError), opened.read() as tx:
            tx.execute(GET, {})
    with opened.read() as tx:
        assert tx.execute(GET, {"of": "d"}).all() == []


def test_a_violated_constraint_is_core_s_error_at_every_run(opened: Database) -> None:
    values = {"duty": "d", "key": "k", "due_at": 1}
    with opened.write() as tx:
        tx.execute(SET, values)
    for _ in range(3):
        with pytest.raises(IntegrityError), opened.write() as tx:
            tx.execute(SET, values)


def test_who_listens_for_statements_hears_them(opened: Database) -> None:
    heard: list[str] = []

    def listen(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        heard.append(statement)

    event.listen(opened.engine, "before_cursor_execute", listen)
    with opened.read() as tx:
        for _ in range(3):
            tx.execute(GET, {"of": "d"}).all()
    assert len([statement for statement in heard if "FROM due" in statement]) == 3


def test_a_statement_that_is_built_for_one_use_is_not_kept(opened: Database) -> None:
    before = len(opened._shelf._known)  # one shelf serves all databases of a process
    with opened.read() as tx:
        for number in range(50):
            tx.execute(select(due.c.key).where(due.c.due_at == number)).all()
    assert len(opened._shelf._known) - before < 10
