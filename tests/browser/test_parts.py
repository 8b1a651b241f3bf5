"""Pages beside the inbox follow what happens, and lead on to what they began."""

import pytest
from playwright.sync_api import expect

from tests.browser_house import House
from tests.browser_stage import Seat, until

pytestmark = pytest.mark.xdist_group("browser parts")


def test_a_thread_shows_what_comes_while_it_is_open(alice: Seat, house: House) -> None:
    """An ask and a message of the agent appear by themselves; what somebody is writing stays theirs."""
    alice.open("/agents/agent-1").live()
    field = alice.page.get_by_label("Message to agent-1")
    field.fill("I am still writing")
    house.question("Did this come by itself?")
    thread = alice.page.locator('[data-live-part="thread"]')
    expect(thread).to_contain_text("Did this come by itself?")
    house.agent().post("/agents/agent-1/messages", {"text": "And this, too."})
    expect(thread).to_contain_text("And this, too.")
    expect(field).to_have_value("I am still writing")


def test_asked_again_from_the_backlog_the_new_card_is_shown(alice: Seat, house: House) -> None:
    """Lifecycle 44 on the page: the button opens the ask that it made."""
    ask = house.question("Once more?", expires_in="1s")
    until(lambda: house.state(ask) == "EXPIRED", "the ask expires")
    alice.open("/backlog")
    alice.page.get_by_role("button", name="Ask it again").first.click()
    alice.page.wait_for_url("**/asks/*")
    expect(alice.page.locator("#card")).to_have_attribute("data-state", "OPEN")
    assert ask not in alice.page.url


def test_eight_tabs_share_one_stream_and_the_next_one_takes_it_over(alice: Seat, house: House) -> None:
    """Browsers open six connections to an origin over HTTP/1.1; tabs hear of what changes through one of them, and when
    the tab that holds it goes away another goes on."""
    alice.open("/needs-you").live()
    begun = _streams(alice)
    tabs = [alice.second_window() for _ in range(7)]
    for tab in tabs:
        alice.live(tab)
    assert _streams(alice) == begun
    alice.page.goto("about:blank")
    ask = house.question("Seen in every tab?")
    for tab in tabs:
        expect(tab.locator(f"#row-{ask}")).to_have_count(1)
    assert _streams(alice) == begun + 1


def _streams(alice: Seat) -> int:
    return len([url for url in alice.requests if "/api/v1/events" in url])
