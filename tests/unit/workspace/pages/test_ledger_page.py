"""The ledger as a page: filters in the address, pages by cursor, a check of the chain, and what is taken away."""

import importlib
import json

import pytest
from sqlalchemy import text

from tests.unit.workspace.pages.conftest import Desk
from tests.unit.workspace.pages.reading import read
from tests.unit.workspace.pages.rows import Filled, seal


def _numbers(page: str) -> list[int]:
    rows = [line for line in page.splitlines() if '<th scope="row"><span title="sha256:' in line]
    return [int(line.split("</span>")[0].rsplit(">", 1)[1]) for line in rows]


def test_the_newest_entries_come_first(desk: Desk, filled: Filled) -> None:
    numbers = _numbers(desk.page("/ledger"))
    assert len(numbers) > 5
    assert numbers == sorted(numbers, reverse=True)


def test_a_filter_narrows(desk: Desk, filled: Filled) -> None:
    everything = len(_numbers(desk.page("/ledger")))
    for filters in ("kind=ask.", "kind=ask.opened", "principal=bob", "agent=tuner", f"ask={filled.approval}"):
        assert 0 < len(_numbers(desk.page(f"/ledger?{filters}"))) < everything, filters


def test_a_day_narrows(desk: Desk, filled: Filled) -> None:
    assert _numbers(desk.page("/ledger?since=2020-01-01")) == _numbers(desk.page("/ledger"))
    assert _numbers(desk.page("/ledger?until=2020-01-01")) == []
    assert "Nothing here fits" in desk.page("/ledger?until=2020-01-01")


def test_a_filter_that_is_none_is_named_and_shows_no_other_entries(desk: Desk, filled: Filled) -> None:
    empty = ("kind=x", "agent=nobody", "agent=No%20Body", "principal=%3Cscript%3E", "ask=1", "ask=%00")
    for wrong in (*empty, "since=31.12.2026", "until=2026-13-01"):
        page = desk.page(f"/ledger?{wrong}")
        assert 'role="alert"' in page, wrong
        assert wrong not in empty or _numbers(page) == [], wrong


def test_pages_follow_each_other_without_a_gap(desk: Desk, filled: Filled, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.import_module("workspace.pages.ledger"), "ROWS", 4)
    seen: list[int] = []
    path = "/ledger?principal="
    while path:
        page = desk.page(path)
        seen += _numbers(page)
        after = [one.attributes["href"] for one in read(page).every("a") if "before=" in one.attributes.get("href", "")]
        path = after[0] if after else ""
    assert seen == list(range(seen[0], 0, -1))


def test_a_cursor_that_is_none_begins_at_the_newest(desk: Desk, filled: Filled) -> None:
    for wrong in ("x", "-1", "1e3", "9" * 30):
        assert _numbers(desk.page(f"/ledger?before={wrong}")) == _numbers(desk.page("/ledger"))


def test_a_chain_that_holds_is_said_to_and_one_that_does_not_is_said_not_to(desk: Desk, filled: Filled) -> None:
    assert "none is missing" in desk.page("/ledger?check=0")
    with desk.owner.engine.begin() as connection:
        for name in connection.execute(text("SELECT name FROM sqlite_master WHERE type = 'trigger'")).scalars().all():
            connection.execute(text(f'DROP TRIGGER "{name}"'))
        connection.execute(text("UPDATE ledger SET principal = 'mallory' WHERE id = 3"))
    page = desk.page("/ledger?check=0")
    assert "The chain does not hold" in page
    assert "gitops-bot ledger verify --anchors" in page


def test_the_export_is_every_sealed_entry_as_a_line(desk: Desk, filled: Filled) -> None:
    seal(desk.broker)
    response = desk.open("/ledger/export")
    assert response.status_code == 200
    assert response.content_type == "application/x-ndjson; charset=utf-8"
    assert response.headers["Content-Disposition"] == 'attachment; filename="ledger.jsonl"'
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    lines = [json.loads(line) for line in response.get_data().splitlines()]
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
    assert set(lines[0]) == {"seq", "hash", "entry"}
    assert len(desk.open("/ledger/export?after=3").get_data().splitlines()) == len(lines) - 3


def test_the_export_is_for_people_who_are_signed_in(desk: Desk, filled: Filled) -> None:
    assert desk.open("/ledger/export", desk.stranger).status_code == 303
