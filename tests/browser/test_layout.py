"""The inbox on screens of every width, in light and dark, with targets that a thumb hits, and keys that stay quiet."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.browser_house import House
from tests.browser_stage import NARROW, Seat

SMALL = """() => {
  const seen = (one) => one.checkVisibility({visibilityProperty: true, opacityProperty: true});
  const inText = (one) => one.tagName === 'A' && getComputedStyle(one).display === 'inline';
  const all = document.querySelectorAll('a[href], button, input:not([type=hidden]), select, textarea, summary');
  const small = [];
  for (const one of all) {
    if (!seen(one) || inText(one) || one.matches('.skip')) continue;
    const target = one.matches('[type=checkbox], [type=radio]') ? one.closest('label') || one : one;
    const box = target.getBoundingClientRect();
    if (box.height < 44 || box.width < 44) small.push(`${one.outerHTML.slice(0, 120)} ${box.width} x ${box.height}`);
  }
  return [all.length, small];
}"""


def test_a_narrow_screen_shows_the_list_then_the_card_then_the_list(seat: Callable[..., Seat], house: House) -> None:
    """On 390 px the list fills the screen, an ask opens over it, and both ways back lead to the list again."""
    ask = house.question("Does it fit?", "yes", "no")
    alice = seat(viewport=NARROW, has_touch=True, is_mobile=True).come_in("alice")
    page = alice.page
    for back in ("link", "browser"):
        expect(alice.row(ask)).to_be_visible()
        alice.row(ask).locator(".ask-link").tap()
        expect(alice.card(ask)).to_be_visible()
        expect(alice.row(ask)).to_be_hidden()
        expect(page).to_have_url(re.compile(ask))
        assert page.evaluate("() => document.documentElement.scrollWidth <= window.innerWidth")
        if back == "link":
            page.get_by_role("link", name="← Needs you").tap()
        else:
            page.go_back()
        expect(alice.card(ask)).to_have_count(0)
        expect(alice.row(ask)).to_be_visible()
    alice.row(ask).locator(".ask-link").tap()
    alice.card(ask).get_by_text("yes", exact=True).tap()
    alice.card(ask).get_by_role("button", name="Send answer").tap()
    expect(alice.card(ask)).to_have_attribute("data-state", "ANSWERED")


@pytest.mark.parametrize("viewport", [{"width": 1280, "height": 900}, {"width": 820, "height": 1000}, dict(NARROW)])
def test_every_target_is_44_px(seat: Callable[..., Seat], house: House, viewport: dict[str, int]) -> None:
    """Whatever can be pressed in the inbox, with each kind of card open and unfolded, is at least 44 px each way."""
    asks = [
        house.question("Large enough?", "yes", "no"),
        house.request("service.deploy", service="web", region="eu-west", why=str(viewport["width"])),
        house.request("payments.transfer", amount_minor=1_000 + viewport["width"], currency="EUR", to="D" * 20),
    ]
    alice = seat(viewport=viewport).come_in("alice")
    for path in ("/needs-you", *(f"/needs-you?ask={ask}" for ask in asks)):
        alice.open(path)
        unfold = "all => all.forEach((one) => { one.removeAttribute('name'); one.open = true; })"
        alice.page.locator("details").evaluate_all(unfold)
        count, small = alice.page.evaluate(SMALL)
        assert count > 8
        assert (path, small) == (path, [])
    for ask in asks:
        house.agent().post(f"/asks/{ask}/cancel", {"reason": "measured"})


def test_a_small_target_is_found(alice: Seat) -> None:
    """The twin of the measure: a button of 20 px is found to be too small."""
    alice.page.evaluate("() => { document.querySelector('main').innerHTML = '<button>x</button>'; }")
    alice.page.locator("main button").evaluate("(one) => { one.style.minHeight = '20px'; one.style.padding = '0'; }")
    assert len(alice.page.evaluate(SMALL)[1]) == 1


def test_dark_and_light_follow_the_system(alice: Seat) -> None:
    """The page takes the scheme of the system, at once, without a switch: dark ground in the dark, light in light."""
    sums = []
    for scheme in ("light", "dark", "light"):
        alice.page.emulate_media(color_scheme=scheme)
        ground = alice.page.evaluate("() => getComputedStyle(document.body).backgroundColor")
        sums.append(sum(int(part) for part in re.findall(r"\d+", ground)[:3]))
    assert sums[0] == sums[2] > 600
    assert sums[1] < 120


def test_single_keys_can_be_switched_off(alice: Seat, house: House) -> None:
    """Off, a on a card does nothing, now and after loading again, and the buttons still act; on again, it approves."""
    ask = house.request("service.deploy", service="quiet", region="eu-west")
    card = alice.at_card(ask)
    alice.press("?")
    switch = alice.page.get_by_role("dialog").get_by_role("checkbox", name="Single keys act")
    switch.uncheck()
    expect(alice.page.locator("body")).to_have_attribute("data-single-keys", "off")
    alice.page.get_by_role("button", name="Close").click()
    for _ in range(2):
        card.focus()
        alice.press("a", "j", "?")
        expect(alice.page.get_by_role("dialog")).to_have_count(0)
        expect(card).to_be_focused()
        alice.page.reload()
        expect(alice.page.locator("body")).to_have_attribute("data-single-keys", "off")
    assert house.state(ask) == "OPEN"
    alice.page.get_by_role("button", name="Keyboard").click()
    switch.check()
    expect(alice.page.locator("body")).to_have_attribute("data-single-keys", "on")
    alice.page.get_by_role("button", name="Close").click()
    card.focus()
    alice.press("a")
    expect(card).to_have_attribute("data-state", "APPROVED")


def test_keys_never_fire_in_a_field(alice: Seat, house: House) -> None:
    """Letters typed into the search, the comment and a select are letters, whatever card is open; outside they act."""
    ask = house.request("service.deploy", service="typed", region="eu-west")
    card = alice.at_card(ask)
    letters = "adjkxuhc?g1y"
    for field in (alice.page.get_by_role("searchbox"), card.locator("textarea")):
        field.focus()
        alice.page.keyboard.type(letters)
        expect(field).to_have_value(letters)
        expect(field).to_be_focused()
        field.fill("")
    card.locator("summary", has_text="Delegate").click()
    card.get_by_label("To", exact=True).focus()
    alice.page.keyboard.type("ad")
    expect(card).to_have_attribute("data-state", "OPEN")
    assert house.state(ask) == "OPEN"
    card.focus()
    alice.press("Control+a", "Alt+d")
    assert house.state(ask) == "OPEN"
    alice.press("a")
    expect(card).to_have_attribute("data-state", "APPROVED")


def test_chords_help_and_search_go_where_they_say(alice: Seat) -> None:
    """g and a letter go to each page, ? lists the keys and Escape closes them, / searches."""
    alice.live()
    for letter, path in {"a": "agents", "c": "captures", "s": "signed", "b": "backlog", "l": "ledger"}.items():
        alice.press("g", letter)
        alice.page.wait_for_url(f"**/{path}")
        alice.live()
    alice.press("g", "p")
    alice.page.wait_for_url("**/people")
    alice.press("g", "n")
    alice.page.wait_for_url("**/needs-you")
    alice.press("?")
    expect(alice.page.get_by_role("dialog", name="Keyboard")).to_be_visible()
    alice.press("Escape")
    expect(alice.page.get_by_role("dialog")).to_have_count(0)
    alice.press("/")
    expect(alice.page.get_by_role("searchbox")).to_be_focused()


def test_filters_are_in_the_address(alice: Seat, house: House) -> None:
    """A filter narrows the list, stands in the address, and holds when the page is loaded again."""
    wanted = house.request("service.delete", service="filtered")
    other = house.question("Filtered away?")
    alice.open("/needs-you").live()
    alice.page.locator("summary", has_text="Filter").click()
    alice.page.get_by_label("Risk").select_option("high")
    expect(alice.row(other)).to_have_count(0)
    expect(alice.row(wanted)).to_be_visible()
    expect(alice.page).to_have_url(re.compile("risk=high"))
    alice.page.reload()
    expect(alice.row(wanted)).to_be_visible()
    expect(alice.row(other)).to_have_count(0)
