"""A list of ids in one statement: any length, on both engines, every id found once and no other."""

import pytest
from sqlalchemy import delete, insert, select

from gitops_bot.store import lists
from gitops_bot.store.engine import Database
from gitops_bot.store.lists import LENGTHS, Listed
from gitops_bot.store.roles import Role
from gitops_bot.store.work_tables import due
from tests.store_fixtures import FreshDatabase

SET = insert(due)
GET = Listed(lambda among: select(due.c.key).where(among(due.c.key)).order_by(due.c.key))
DROP = Listed(lambda among: delete(due).where(among(due.c.key)))
KEYS = [f"k{number:05}" for number in range(LENGTHS[-1] + 1)]


@pytest.fixture
def opened(database: FreshDatabase) -> Database:
    opened = database.open(Role.BROKER)
    with opened.write() as tx:
        tx.execute(SET, [{"duty": "d", "key": key, "due_at": 1} for key in [*KEYS, "another"]])
    return opened


@pytest.mark.parametrize("length", sorted({0, *LENGTHS, *(one + 1 for one in LENGTHS)}))
def test_a_list_of_any_length_finds_each_of_its_ids_once(opened: Database, length: int) -> None:
    """At each length that SQLite has a statement for, and one beyond; twice, as Core and as the driver run it."""
    with opened.read() as tx:
        for _ in range(2):
            assert [row.key for row in lists.rows(tx, GET, KEYS[:length])] == KEYS[:length]


def test_ids_that_no_row_has_are_left_out_whatever_is_in_them(opened: Database) -> None:
    """An id is a value, never a part of the statement or of an array's notation."""
    with opened.read() as tx:
        hostile = ['"', "{}", "NULL", "a,b", "x') OR ('1'='1", "\\", ""]
        assert [row.key for row in lists.rows(tx, GET, [*hostile, KEYS[3]])] == [KEYS[3]]


def test_a_change_reaches_all_of_a_list_and_nothing_else(opened: Database) -> None:
    """A list longer than one statement takes is changed in parts."""
    with opened.write() as tx:
        lists.change(tx, DROP, KEYS)
    with opened.read() as tx:
        assert [row.key for row in lists.rows(tx, GET, [*KEYS[:5], "another"])] == ["another"]
