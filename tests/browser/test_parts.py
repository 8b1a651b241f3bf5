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
