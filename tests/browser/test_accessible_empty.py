"""axe-core finds nothing on the pages of a house in which nothing happened yet, and they say what comes."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.browser_house import House
from tests.browser_stage import Seat, faults, take_seat

PAGES = {
    "/needs-you": "Nothing needs you",
    "/agents": "Need a person",
    "/agents/agent-1": "Nothing was said yet",
    "/captures": "No captures yet",
    "/signed": "None. An agent opens one",
    "/backlog": "The backlog is empty",
    "/ledger?kind=vote.": "Nothing here fits",
    "/people": "This is your only one",
}
ALONE = {"/sign-in": "Sign in", "/enrol": "Add a passkey with a code", "/sign-in?next=/agents": "Sign in"}


@pytest.fixture(scope="module")
def window(chromium: Browser, house: House) -> Iterator[Seat]:
    """One window of Alice's."""
    made = take_seat(chromium, house).come_in("alice")
    yield made
    made.context.close()


@pytest.mark.parametrize("path", PAGES)
def test_an_empty_page_has_no_fault(window: Seat, path: str) -> None:
    """An empty page says so in words, and axe-core has nothing to say about it."""
    window.open(path)
    expect(window.page.get_by_text(PAGES[path]).first).to_be_visible()
    assert faults(window) == []


@pytest.mark.parametrize("path", ALONE)
def test_a_page_for_nobody_has_no_fault(chromium: Browser, house: House, path: str) -> None:
    """The pages before signing in are held to the same."""
    stranger = take_seat(chromium, house).open(path)
    expect(stranger.page.get_by_role("heading", name=ALONE[path]).first).to_be_visible()
    assert faults(stranger) == []
    stranger.context.close()
