"""What a forge keeps is what it was: every record comes back equal, through tables of either depth."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitops_bot.sandbox.apps import Registration
from gitops_bot.sandbox.checks import Check
from gitops_bot.sandbox.hooks import Delivery, Hook
from gitops_bot.sandbox.kept import drop, entries, put, read, shown
from gitops_bot.sandbox.model import Model
from gitops_bot.sandbox.records import (
    Account,
    AccountType,
    App,
    Comment,
    Edit,
    Pull,
    Repository,
    Review,
    Role,
    Session,
    Thread,
)
from gitops_bot.sandbox.teams import Membership, Team

HOOK = Hook(9, 501, "http://127.0.0.1:9/", "secret", ("issue_comment",), True, 5)
VALUES = [
    Account(1, "alice", AccountType.USER, 5),
    Session(1, App(7, "app"), None, 7),
    Repository(501, 1, "judge", "main", True, 5),
    Thread(3, 501, 1, 1, "t", None, 5, 6, pull=Pull(4, "head", "main", "0" * 40, "1" * 40, True, 7)),
    Comment(5, 501, 1, 1, "\ud800 \x00 …", 5, 6, (Edit(1, 5, "before"),), "outdated", True, App(7, "app")),
    Review(6, 501, 1, 1, "\ud800", "APPROVED", "0" * 40, 5),
    Delivery(1, "guid", HOOK, "ping", None, {"X-Signature": "s"}, b"\x00\xff", 5, answered=({"A": "b"}, "kept")),
    Check(
        1, 501, App(7, "app"), "n", "0" * 40, "", "queued", None, None, (None, "s", None), ({"label": "x"},), 1, None
    ),
    Registration(App(7, "app"), 2001, "-----BEGIN"),
    Team(9, 50, "Keepers"),
    Membership.PENDING,
    Role.WRITE,
    True,
    7,
    "text",
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_value_comes_back_equal_and_of_its_type(value: object) -> None:
    again = read(json.loads(json.dumps(shown(value))))
    assert again == value
    assert type(again) is type(value)


def test_values_are_told_apart_from_what_only_looks_like_one() -> None:
    """A header named as a mark of ours is a header."""
    delivery = Delivery(1, "g", HOOK, "ping", None, {"record": "Account", "has": "x", "word": "Role"}, b"", 5)
    assert read(json.loads(json.dumps(shown(delivery)))) == delivery


NAMES = st.sampled_from(["record", "has", "word", "is", "bytes", "map", "x"])
PLAIN = st.none() | st.booleans() | st.integers() | st.text()


@given(st.recursive(PLAIN, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner)))
def test_whatever_a_line_holds_reading_raises_nothing_else(value: Any) -> None:
    try:
        read(value)
    except (KeyError, TypeError, ValueError, AttributeError):
        return


def test_every_table_of_a_model_is_filled_from_the_entries_of_another() -> None:
    one, other = Model(), Model()
    put(one.tables(), ("accounts", 1), VALUES[0])
    put(one.tables(), ("grants", (501, 1)), Role.WRITE)
    put(one.tables(), ("reactions", 5, (1, "eyes")), 7)
    put(one.tables(), ("reactions", 5, (1, "rocket")), 8)
    one.ids.take()
    for path, value in entries(one.tables()):
        put(other.tables(), path, value)
    assert other.tables() == one.tables()
    assert other.ids.take() == one.ids.take()
    drop(other.tables(), ("reactions", 5, (1, "eyes")))
    drop(other.tables(), ("reactions", 6, (1, "eyes")))
    assert other.tables()["reactions"] == {5: {(1, "rocket"): 8}}
