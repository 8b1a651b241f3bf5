"""axe-core finds nothing on any page, with rows and empty, light and dark, wide and narrow; nothing scrolls sideways.

Whatever of WCAG 2 a program can find is found by it; that keys do everything and that targets are large enough is for
`test_layout` and `test_answering`.
"""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.browser_filled import Filled, fill
from tests.browser_house import House
from tests.browser_stage import Seat, faults, take_seat, until

WORDS = "The canary is **green** for two hours.\n\n- no error\n- `p95` is 12 ms\n\n> as [agreed](https://example.org/)"
PAGES = (
    *("/needs-you", "/needs-you?ask={question}", "/needs-you?ask={approval}", "/needs-you?ask={high}"),
    *(
        "/needs-you?ask={gated}",
        "/needs-you?q=nothing-fits",
        "/needs-you?snoozed=1",
        "/asks/{ended}",
        "/asks/{expired}",
    ),
    *("/agents", "/agents/agent-1", "/agents/loop-1", "/captures", "/captures/{capture}", "/signed", "/backlog"),
    *(
        "/ledger",
        "/ledger?check=0",
        "/ledger?kind=nonsense",
        "/people",
        "/enrol",
        "/enrol/second",
        "/sign-in",
        "/shell",
    ),
    *("/shell?code=ABCDEFGH", "/nowhere"),
)


@pytest.fixture(scope="module")
def filled(house: House) -> Filled:
    """Rows for the pages."""
    return fill(house, WORDS)


@pytest.fixture(scope="module")
def window(chromium: Browser, house: House, filled: Filled) -> Iterator[Seat]:
    """One window of Bob's, who may do most; the gated request is published, so that its card has all of its parts."""
    made = take_seat(chromium, house).come_in("bob")
    card = f"/asks/{filled.gated}"
    until(lambda: "The request as stored" in made.open(card).page.content(), "the broker publishes the request")
    yield made
    made.context.close()


@pytest.mark.parametrize("path", PAGES)
def test_a_page_has_no_fault(window: Seat, filled: Filled, path: str) -> None:
    """axe-core has nothing to say about the page, however it is looked at."""
    window.open(path.format(**{name: getattr(filled, name) for name in filled.__dataclass_fields__}))
    expect(window.page.locator("main")).to_be_visible()
    assert faults(window) == []


def test_the_list_of_keys_has_no_fault(window: Seat) -> None:
    """The dialog of keys is held to the same."""
    window.open("/needs-you").live()
    window.press("?")
    expect(window.page.get_by_role("dialog", name="Keyboard")).to_be_visible()
    assert faults(window) == []


def test_a_batch_that_is_armed_has_no_fault(window: Seat, house: House) -> None:
    """Marked rows, their list, and the armed button are held to the same."""
    ask = house.request("service.restart", service="armed")
    window.open("/needs-you").live()
    window.row(ask).locator(".mark").click()
    window.page.get_by_role("button", name="Approve all").click()
    expect(window.page.get_by_role("button", name="Sign and approve")).to_be_visible()
    assert faults(window) == []
    window.press("Escape")


def test_what_is_unfolded_and_refused_has_no_fault(window: Seat, house: House) -> None:
    """Unfolded parts of a card, a refusal on it and a hold are held to the same."""
    ask = house.request("service.delete", service="unfolded")
    card = window.at_card(ask)
    card.locator("details").evaluate_all(
        "all => all.forEach((one) => { one.removeAttribute('name'); one.open = true; })"
    )
    card.get_by_role("button", name="Deny").click()
    expect(card.get_by_text("Say why in a sentence")).to_be_visible()
    assert faults(window) == []


def test_settled_cards_have_no_fault(window: Seat, house: House) -> None:
    """A card that was approved, with its effect, and one that was denied, with its reason, are held to the same."""
    for key, state in (("a", "APPROVED"), ("d", "DENIED")):
        ask = house.request("service.deploy", service=f"settled-{key}", region="eu-west")
        card = window.at_card(ask)
        window.press(key)
        if key == "d":
            window.page.keyboard.type("No.")
            window.press("Control+Enter")
        expect(card).to_have_attribute("data-state", state)
        assert faults(window) == []


def test_axe_finds_what_is_wrong(window: Seat) -> None:
    """The twin of all the above: a page with a fault in it is found to have one."""
    window.open("/needs-you")
    window.page.evaluate("() => document.querySelector('main').append(document.createElement('button'))")
    assert any(fault.startswith("button-name") for fault in window.violations())
