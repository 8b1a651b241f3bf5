"""Each page beside the inbox: with rows and without, with hostile words in every field, and changing nothing."""

import pytest

from tests.unit.workspace.pages.conftest import Desk
from tests.unit.workspace.pages.rows import Filled

PAGES = ("/people", "/agents", "/captures", "/signed", "/backlog", "/ledger", "/enrol/second", "/shell")


@pytest.mark.parametrize("path", PAGES)
def test_a_page_without_rows_says_what_to_do(desk: Desk, path: str) -> None:
    assert "<h1" in desk.page(path)


@pytest.mark.parametrize("path", PAGES)
def test_a_page_with_rows_shows_them(desk: Desk, filled: Filled, path: str) -> None:
    assert "<h1" in desk.page(path)


def test_one(desk: Desk, filled: Filled) -> None:
    desk.page("/agents/tuner")
    desk.page(f"/captures/{filled.capture}")
    desk.page("/ledger?check=0")
