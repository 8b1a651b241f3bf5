"""The pictures of the README are taken by this suite, of the real pages: into docs/images with
`GITOPS_BOT_TEST_SCREENSHOTS=1`, else into a folder of the test's, and those that are kept are checked to be there."""

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Browser, ViewportSize, expect

from tests.browser_house import ROOT, House, running
from tests.browser_stage import NARROW, SCHEMES, Seat, take_seat

IMAGES: Final = ROOT / "docs" / "images"
MOST: Final = 200_000
DESK: Final[ViewportSize] = {"width": 1280, "height": 860}
TALL: Final[ViewportSize] = {"width": 1280, "height": 1044}
SIZES: Final = {"inbox": DESK, "card": DESK, "gated": TALL, "thread": DESK, "narrow": NARROW}
TAKING: Final = os.environ.get("GITOPS_BOT_TEST_SCREENSHOTS") == "1"
TO: Final = "DE89370400440532013000"


def size_of(image: Path) -> tuple[int, int]:
    """Read a PNG's width and height from its first chunk."""
    head = image.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", head[16:24])
    return width, height


@pytest.fixture
def busy() -> Iterator[House]:
    """A house in the middle of a day's work."""
    agents = {"releases": "agent-1", "tuner": "agent-1", "accounts": "agent-2"}
    with running(agents, name="acme") as house:
        yield house


def test_pictures_are_taken(chromium: Browser, busy: House, tmp_path: Path) -> None:
    """Take every picture anew, light and dark."""
    into = IMAGES if TAKING else tmp_path
    first = busy.request("service.deploy", slug="releases", service="checkout", region="us-east", why="As last week.")
    alice = take_seat(chromium, busy, viewport=DESK).come_in("alice")
    alice.at_card(first)
    alice.press("a")
    expect(alice.card(first)).to_have_attribute("data-state", "APPROVED")
    shots = asked(busy)
    take_seat(chromium, busy, viewport=DESK).come_in("bob").context.close()
    say(alice, "Keep to the frozen regime until the night is over; the cluster is full.")
    into.mkdir(parents=True, exist_ok=True)
    paths = {
        "inbox": f"/needs-you?ask={shots['question']}",
        "card": f"/asks/{shots['deploy']}",
        "gated": f"/asks/{shots['transfer']}",
        "thread": "/agents/tuner",
        "narrow": "/needs-you",
    }
    for name, path in paths.items():
        alice.page.set_viewport_size(SIZES[name])
        for scheme in SCHEMES:
            alice.page.emulate_media(color_scheme=scheme)
            alice.open(path).live()
            alice.page.evaluate("() => { document.activeElement.blur(); window.scrollTo(0, 0); }")
            image = into / f"{name}-{scheme}.png"
            alice.page.screenshot(path=image, animations="disabled")
            assert size_of(image) == (SIZES[name]["width"], SIZES[name]["height"])
    alice.context.close()


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", SIZES)
def test_a_picture_is_there(name: str, scheme: str) -> None:
    """Each picture that the README shows is a PNG of its size, small enough to be fetched by everybody who reads it."""
    image = IMAGES / f"{name}-{scheme}.png"
    size = SIZES[name]
    assert size_of(image) == (size["width"], size["height"])
    assert image.stat().st_size <= MOST


def test_the_readme_shows_them() -> None:
    """Every picture is shown, in light and dark, with words for who does not see it; and no other is named."""
    readme = (ROOT / "README.md").read_text("utf-8")
    for name in SIZES:
        for scheme in SCHEMES:
            assert f"docs/images/{name}-{scheme}.png" in readme
    assert readme.count("docs/images/") == 2 * len(SIZES)
    assert readme.count('alt="') >= len(SIZES)


def asked(house: House) -> dict[str, str]:
    """Have the agents ask what they ask on such a day."""
    tuner = "The regime with 48 requests at once scores 96.2, the old one 94.8. What shall I do with the last hours?"
    return {
        "transfer": house.request(
            "payments.transfer", slug="accounts", amount_minor=125_000, currency="EUR", to=TO,
            why="Invoice 2041 of the printers. It matches order 773, which carol placed.",
        ),
        "delete": house.request("service.delete", slug="releases", service="checkout-one", why="No traffic at all."),
        "restart": house.request("service.restart", slug="releases", service="mailer", why="It leaks 40 MB an hour."),
        "question": house.question(
            tuner, "Measure at 64 requests at once", "Repeat 48 to be sure", "Stop here", slug="tuner",
            why="About three GPU hours are left of what I was given.",
        ),
        "deploy": house.request(
            "service.deploy", slug="releases", service="checkout", region="eu-west",
            why="Build 1.8.2 ran on the canary for 2 h:\n\n- no error in 40,000 requests\n- `p95` 12 ms",
        ),
    }  # fmt: skip


def say(seat: Seat, words: str) -> None:
    """Write to an agent on its page."""
    seat.open("/agents/tuner")
    seat.page.get_by_label("Message to tuner").fill(words)
    seat.page.get_by_role("button", name="Send the message").click()
    expect(seat.page.locator("ol.thread").get_by_text(words)).to_be_visible()
