"""What is settled elsewhere settles on the screen, says by whom, and takes nothing that was typed."""

from collections.abc import Callable

from playwright.sync_api import expect

from tests.browser_house import House
from tests.browser_stage import Seat


def test_a_race_that_is_lost_is_seen(alice: Seat, seat: Callable[..., Seat], house: House) -> None:
    """Bob answers while Alice types: her card settles by itself, names him, and keeps her words; his answer stands."""
    ask = house.question("Which name?")
    card = alice.at_card(ask)
    alice.press("c")
    alice.page.keyboard.type("I would call it Ada")
    bob = seat().come_in("bob")
    bob.at_card(ask)
    bob.press("c")
    bob.page.keyboard.type("Grace")
    bob.press("Control+Enter")
    expect(bob.card(ask)).to_have_attribute("data-state", "ANSWERED")
    expect(card).to_have_attribute("data-state", "ANSWERED")
    expect(card.locator("[data-outcome-who]")).to_contain_text("bob")
    expect(card.locator(".kept")).to_contain_text("What you had typed was not sent:")
    expect(card.locator(".kept pre")).to_have_text("I would call it Ada")
    expect(card.get_by_role("button", name="Send answer")).to_have_count(0)
    expect(alice.page.locator("[data-toast]")).to_contain_text("By bob.")
    assert house.ask(ask)["verdict"]["text"] == "Grace"


def test_an_answer_that_comes_too_late_is_told_so(alice: Seat, seat: Callable[..., Seat], house: House) -> None:
    """A page that hears of nothing sends an answer too late: it is refused in words, and the first answer is shown."""
    ask = house.question("Left or right?", "left", "right")
    card = alice.at_card(ask)
    alice.context.route("**/api/v1/events**", lambda route: route.abort())
    alice.page.reload()
    expect(alice.page.locator('[data-live="on"]')).to_have_count(0)
    bob = seat().come_in("bob")
    bob.at_card(ask)
    bob.press("1", "Enter")
    expect(bob.card(ask)).to_have_attribute("data-state", "ANSWERED")
    expect(card).to_have_attribute("data-state", "OPEN")
    card.get_by_role("radio", name="right").check()
    card.get_by_role("button", name="Send answer").click()
    expect(card).to_have_attribute("data-state", "ANSWERED")
    expect(card.locator("[data-outcome-who]")).to_contain_text("bob")
    expect(card.get_by_role("alert")).to_be_visible()
    assert house.ask(ask)["verdict"]["option"] == "o1"


def test_the_agent_withdraws_while_the_card_is_open(alice: Seat, house: House) -> None:
    """An ask that its agent takes back settles on the open card, and counts in the badge no more."""
    ask = house.request("service.deploy", service="web", region="eu-west")
    card = alice.at_card(ask)
    before = alice.page.title()
    house.agent().post(f"/asks/{ask}/cancel", {"reason": "found it out"})
    expect(card).to_have_attribute("data-state", "WITHDRAWN")
    expect(card.locator("[data-outcome]")).to_contain_text("found it out")
    expect(alice.page).not_to_have_title(before)


def test_a_second_window_settles_with_the_first(alice: Seat, house: House) -> None:
    """Answered in one window, the same card and its row settle in another one of the same browser."""
    ask = house.question("Both at once?", "yes", "no")
    alice.at_card(ask)
    other = alice.second_window()
    alice.live(other)
    expect(alice.card(ask, other)).to_have_attribute("data-state", "OPEN")
    alice.page.bring_to_front()
    alice.card(ask).focus()
    alice.press("1", "Enter")
    expect(alice.card(ask)).to_have_attribute("data-state", "ANSWERED")
    expect(alice.card(ask, other)).to_have_attribute("data-state", "ANSWERED")
    expect(other.locator(f"#row-{ask}.settled")).to_have_count(1)


def test_a_new_ask_appears_by_itself(alice: Seat, house: House) -> None:
    """What is asked while nobody touches the list stands in it at once; under somebody's hands it is only offered."""
    alice.open("/needs-you").live()
    first = house.question("Do you see me?")
    expect(alice.row(first)).to_be_visible()
    alice.press("j")
    second = house.question("And me?")
    offered = alice.page.get_by_role("button", name="There is something new")
    expect(offered).to_be_visible()
    expect(alice.row(second)).to_have_count(0)
    offered.click()
    expect(alice.row(second)).to_be_visible()


def test_the_badge_and_the_title_follow(alice: Seat, house: House) -> None:
    """Badge and title count what needs the person, on any page, and go down when it is answered."""
    alice.open("/agents").live()
    ask = house.question("Counted?")
    expect(alice.page.locator("[data-badge-count]")).to_have_text(str(_needed(alice)))
    count = _needed(alice)
    expect(alice.page).to_have_title(f"({count}) Agents · ops")
    house.agent().post(f"/asks/{ask}/cancel", {"reason": "done"})
    expect(alice.page).not_to_have_title(f"({count}) Agents · ops")


def test_a_page_finds_its_way_back_after_a_restart(alice: Seat, house: House) -> None:
    """With the workspace gone a page says that it reconnects; with it back it is live, and settles."""
    ask = house.question("Still there?")
    card = alice.at_card(ask)
    house.stop("workspace")
    expect(alice.page.locator('[data-live="again"]')).to_have_count(1)
    house.restart("workspace")
    alice.live()
    house.agent().post(f"/asks/{ask}/cancel", {"reason": "came back"})
    expect(card).to_have_attribute("data-state", "WITHDRAWN")


def _needed(seat: Seat) -> int:
    """Read how much needs the person, from the API."""
    return int(seat.page.evaluate("() => fetch('/needs-you/badge').then((answer) => answer.text())"))
