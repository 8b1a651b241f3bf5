"""What can be done with an ask other than answering it: each from its card, each with an end that is seen."""

from collections.abc import Callable

from playwright.sync_api import expect

from tests.browser_house import House
from tests.browser_stage import Seat


def test_somebody_takes_an_ask(alice: Seat, house: House) -> None:
    """Who takes an ask is on its card; it stays open and can still be answered."""
    ask = house.question("Who looks at this?")
    card = alice.at_card(ask)
    card.get_by_role("button", name="I take this").click()
    expect(card.get_by_role("button", name="Taken by alice")).to_be_visible()
    assert house.state(ask) == "OPEN"


def test_an_ask_is_delegated_with_the_passkey(alice: Seat, seat: Callable[..., Seat], house: House) -> None:
    """Delegating is confirmed by the authenticator, and the other one sees it; unverified, nothing is done."""
    ask = house.question("Could somebody else say?", "yes", "no")
    card = alice.at_card(ask)
    alice.verify(False)
    card.get_by_text("Delegate", exact=True).first.click()
    card.get_by_label("To", exact=True).select_option("bob")
    card.get_by_role("button", name="Delegate").click()
    expect(card.get_by_text("Nothing was done; try again.")).to_be_visible()
    assert house.ledger("ask.delegated") == []
    alice.verify(True)
    card.get_by_role("button", name="Delegate").click()
    expect(alice.page.get_by_text("Delegated.").first).to_be_visible()
    bob = seat().come_in("bob")
    expect(bob.at_card(ask).get_by_role("button", name="Taken by bob")).to_be_visible()
    assert [row["ask"] for row in house.ledger("ask.delegated")] == [ask]


def test_a_snoozed_ask_leaves_the_list_by_keyboard_and_stays_open(alice: Seat, house: House) -> None:
    """h and Enter snooze the open card: its row leaves this list, not the world; the filter shows it still."""
    ask = house.question("Later?")
    alice.at_card(ask)
    expect(alice.row(ask)).to_be_visible()
    alice.press("h")
    expect(alice.page.get_by_role("button", name="1 hour")).to_be_focused()
    alice.press("Enter")
    expect(alice.row(ask)).to_have_count(0)
    assert house.state(ask) == "OPEN"
    alice.open("/needs-you?snoozed=1")
    expect(alice.row(ask)).to_be_visible()


def test_the_owner_withdraws_an_ask(alice: Seat, house: House) -> None:
    """Withdrawing takes two presses, ends the ask as withdrawn, never as denied, and keeps the reason."""
    ask = house.request("service.deploy", service="web", region="eu-west")
    card = alice.at_card(ask)
    card.locator("summary", has_text="Withdraw").click()
    card.get_by_label("Why", exact=True).last.fill("The agent asked too early.")
    card.get_by_role("button", name="Withdraw it").click()
    expect(card.get_by_role("button", name="Press again to withdraw")).to_be_visible()
    assert house.state(ask) == "OPEN"
    card.get_by_role("button", name="Press again to withdraw").click()
    expect(card).to_have_attribute("data-state", "WITHDRAWN")
    expect(card.locator("[data-outcome]")).to_contain_text("The agent asked too early.")
    assert house.state(ask) == "WITHDRAWN"


def test_who_does_not_own_it_cannot_withdraw_a_bound_ask(seat: Callable[..., Seat], house: House) -> None:
    """Bob may vote and may not withdraw: no control for it, and a request by hand is refused; his vote counts."""
    ask = house.request("service.deploy", service="owned", region="eu-west")
    bob = seat().come_in("bob")
    card = bob.at_card(ask)
    expect(card.get_by_role("button", name="Approve")).to_be_visible()
    expect(card.locator("summary", has_text="Withdraw")).to_have_count(0)
    assert bob.send(f"/asks/{ask}/cancel", {"reason": "mine?"})["status"] == 403
    assert house.state(ask) == "OPEN"
    card.focus()
    bob.press("a")
    expect(card).to_have_attribute("data-state", "APPROVED")


def test_anybody_holds_a_gated_ask(alice: Seat, house: House) -> None:
    """A hold on a gated card is told with its end and its words, and decides nothing."""
    to = "DE89370400440532013000"
    ask = house.request("payments.transfer", amount_minor=125_000, currency="EUR", to=to)
    card = alice.at_card(ask)
    card.get_by_label("Why", exact=True).first.fill("Call the payee first.")
    card.get_by_role("button", name="Hold it").click()
    expect(card.get_by_text("Held by alice")).to_be_visible()
    expect(card.get_by_text("Call the payee first.")).to_be_visible()
    assert house.state(ask) == "OPEN"


def test_a_hold_is_seventy_two_hours_at_most(alice: Seat, house: House) -> None:
    """The page refuses to send a longer hold and the API refuses one by hand; 72 hours are fine."""
    to = "DE89370400440532013111"
    ask = house.request("payments.transfer", amount_minor=1_000, currency="EUR", to=to)
    card = alice.at_card(ask)
    hours = card.get_by_label("Hours, at most 72")
    hours.fill("73")
    card.get_by_role("button", name="Hold it").click()
    assert hours.evaluate("field => !field.validity.valid")
    assert alice.send(f"/asks/{ask}/hold", {"lasts": "73h"})["status"] in (400, 422)
    expect(card.get_by_text("Held by alice")).to_have_count(0)
    hours.fill("72")
    card.get_by_role("button", name="Hold it").click()
    expect(card.get_by_text("Held by alice")).to_be_visible()
