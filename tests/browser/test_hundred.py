"""A full inbox is cleared by keyboard alone."""

from playwright.sync_api import expect

from tests.browser_house import House
from tests.browser_stage import Seat

QUESTIONS = 30
SINGLES = 10
BATCHES = 3
IN_BATCH = 20


def test_a_hundred_asks_are_cleared_by_keyboard(alice: Seat, house: House) -> None:
    """One hundred open asks, questions, approvals, high risk three batches: nothing but keys, and none stays open."""
    bound = [house.request("service.deploy", service="d" * n, region=region)
             for region in ("eu-west", "us-east") for n in range(1, BATCHES * IN_BATCH // 2 + 1)]  # fmt: skip
    single = [house.request("service.delete", service="s" * n) for n in range(1, SINGLES + 1)]
    asked = [house.question(f"Question {n}?", "yes", "no", slug="agent-2") for n in range(QUESTIONS)]
    assert len(bound) + len(single) + len(asked) == 100
    alice.open("/needs-you").live()
    expect(alice.page.locator("[data-badge-count]")).to_have_text("99+")

    alice.press("j", "Enter")
    for ask in [*reversed(asked), *reversed(single)]:
        card = alice.card(ask)
        expect(card).to_be_focused()
        if ask in asked:
            alice.press("1", "Enter")
        else:
            alice.press("a", "y")
        expect(card).not_to_have_attribute("data-state", "OPEN")
        alice.press("j")

    for left in range(BATCHES, 0, -1):
        alice.press("g", "n")
        alice.page.wait_for_url("**/needs-you")
        expect(alice.page.locator("[data-badge-count]")).to_have_text(str(left * IN_BATCH))
        alice.press(*["j", "x"] * IN_BATCH)
        expect(alice.page.get_by_role("heading", name=f"{IN_BATCH} × service.deploy")).to_be_visible()
        alice.press("a", "Enter")
        expect(alice.page.get_by_text(f"{IN_BATCH} of {IN_BATCH} answered.")).to_be_visible()

    alice.press("g", "n")
    expect(alice.page.get_by_text("Nothing needs you").first).to_be_visible()
    expect(alice.page).to_have_title("Needs you · ops")
    states = {house.state(ask) for ask in (*bound, *single)} | {house.state(ask, "agent-2") for ask in asked}
    assert states == {"APPROVED", "ANSWERED"}
