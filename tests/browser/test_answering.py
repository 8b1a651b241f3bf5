"""Answers are given by keyboard and by pointer, with a passkey where they are bound, and counted as they were given."""

import pytest
from playwright.sync_api import expect

from tests.browser_house import House
from tests.browser_stage import Seat


def test_a_question_is_answered_by_keyboard_alone(alice: Seat, house: House) -> None:
    """j, Enter, a digit and Enter answer a question: nobody has to touch a pointer."""
    ask = house.question("Which region shall it be?", "eu-west", "us-east")
    alice.open("/needs-you").live()
    alice.press("j", "Enter")
    expect(alice.card(ask)).to_be_focused()
    alice.press("2")
    expect(alice.page.get_by_role("radio", name="us-east")).to_be_checked()
    alice.press("Enter")
    expect(alice.card(ask)).to_have_attribute("data-state", "ANSWERED")
    expect(alice.card(ask).locator("[data-outcome]")).to_contain_text("us-east")
    answered = house.ask(ask)
    assert (answered["state"], answered["verdict"]["option"]) == ("ANSWERED", "o2")


def test_a_question_is_answered_in_words(alice: Seat, house: House) -> None:
    """c goes to the text, Ctrl+Enter sends it; the agent reads exactly what was typed."""
    ask = house.question("What shall the release be called?")
    alice.at_card(ask)
    alice.press("c")
    alice.page.keyboard.type("Quiet *Harbour*; j k a d are letters here")
    alice.press("Control+Enter")
    expect(alice.card(ask)).to_have_attribute("data-state", "ANSWERED")
    assert house.ask(ask)["verdict"]["text"] == "Quiet *Harbour*; j k a d are letters here"


def test_an_empty_answer_is_not_sent(alice: Seat, house: House) -> None:
    """Sending nothing says what is missing, and decides nothing."""
    ask = house.question("Now or later?", "now", "later")
    card = alice.at_card(ask)
    card.get_by_role("button", name="Send answer").click()
    expect(card.get_by_text("Choose an option or write an answer.")).to_be_visible()
    assert house.state(ask) == "OPEN"


def test_an_approval_is_signed_with_the_passkey(alice: Seat, house: House) -> None:
    """a on the open card asks the authenticator over this very action, and the vote is kept with what it signed."""
    ask = house.request("service.deploy", service="web", region="eu-west", why="The canary is green.")
    before = alice.credentials()[0]["signCount"]
    alice.at_card(ask)
    alice.press("a")
    expect(alice.card(ask)).to_have_attribute("data-state", "APPROVED")
    expect(alice.card(ask).locator("[data-outcome-who]")).to_contain_text("alice")
    assert house.state(ask) == "APPROVED"
    assert alice.credentials()[0]["signCount"] > before


def test_a_passkey_that_does_not_know_its_user_approves_nothing(alice: Seat, house: House) -> None:
    """Where the user is not verified, the card says so in words and stays open; verified, the same press approves."""
    ask = house.request("service.deploy", service="api", region="eu-west")
    card = alice.at_card(ask)
    alice.verify(False)
    alice.press("a")
    expect(card.locator("[data-decide] [data-answer]")).to_contain_text("Nothing was done; try again.")
    assert house.state(ask) == "OPEN"
    alice.verify(True)
    card.focus()
    alice.press("a")
    expect(card).to_have_attribute("data-state", "APPROVED")


def test_a_denial_carries_its_reason(alice: Seat, house: House) -> None:
    """d asks for a reason first; the reason that is typed is the agent's to read, and the ask is denied."""
    ask = house.request("service.deploy", service="mail", region="eu-west")
    card = alice.at_card(ask)
    alice.press("d")
    expect(card.get_by_text("Say why in a sentence")).to_be_visible()
    expect(card.locator("textarea")).to_be_focused()
    assert house.state(ask) == "OPEN"
    alice.page.keyboard.type("Not on a Friday.")
    alice.press("Control+Enter")
    expect(card).to_have_attribute("data-state", "DENIED")
    expect(card.locator("[data-outcome]")).to_contain_text("Not on a Friday.")
    assert house.state(ask) == "DENIED"


@pytest.mark.parametrize("confirming", ["Enter", "y"])
def test_high_risk_needs_a_second_key(alice: Seat, house: House, confirming: str) -> None:
    """One key only arms what is of high risk; Escape leaves it open, and the second key of a new try sends it."""
    ask = house.request("service.delete", service=f"old-{confirming.lower()}")
    card = alice.at_card(ask)
    alice.press("a")
    expect(card.get_by_role("button", name="Press again to approve")).to_be_focused()
    alice.press("Escape")
    expect(alice.page.get_by_text("Cancelled; nothing was sent.")).to_be_visible()
    expect(card.get_by_role("button", name="Approve")).to_be_visible()
    assert house.state(ask) == "OPEN"
    alice.press("a", confirming)
    expect(card).to_have_attribute("data-state", "APPROVED")
    assert house.state(ask) == "APPROVED"


def test_a_key_on_the_list_decides_nothing(alice: Seat, house: House) -> None:
    """a and d act on the focused card only: pressed on a row they say so. From the card the same key approves."""
    ask = house.request("service.deploy", service="list", region="us-east")
    card = alice.at_card(ask)
    alice.press("u")
    expect(alice.row(ask).locator(".ask-link")).to_be_focused()
    alice.press("a")
    expect(alice.page.get_by_text("Open the card first")).to_be_visible()
    assert house.state(ask) == "OPEN"
    alice.press("Enter")
    expect(card).to_be_focused()
    alice.press("a")
    expect(card).to_have_attribute("data-state", "APPROVED")
