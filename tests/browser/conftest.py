"""A house for each module of tests, and windows in it; see `tests.browser_house` and `tests.browser_stage`.

Whatever a test is about, no page in it may write an error to the console, open a dialog, or ask another origin for
anything.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Playwright, expect, sync_playwright

from tests.browser_house import House, running
from tests.browser_stage import CHROMIUM, FLAGS, PATIENCE, Seat, take_seat

expect.set_options(timeout=PATIENCE)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep the tests of a module in one process, where this suite runs alone: a house is made once for each module.

    Groups of pytest-xdist 3.8 have no effect under pytest 9.2, which derives a test's id from another field.
    """
    from xdist.scheduler import LoadFileScheduling

    alone = all("tests/browser" in argument for argument in config.args)
    return LoadFileScheduling(config, log) if alone else None


@pytest.fixture(scope="session")
def playwright() -> Iterator[Playwright]:
    with sync_playwright() as started:
        yield started


@pytest.fixture(scope="session")
def chromium(playwright: Playwright) -> Iterator[Browser]:
    browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    """A house for the tests of one module."""
    with running() as made:
        yield made


@pytest.fixture
def seat(chromium: Browser, house: House) -> Iterator[Callable[..., Seat]]:
    """Make windows; each is a browser profile of its own with an authenticator of its own."""
    opened: list[Seat] = []

    def make(**options: Any) -> Seat:
        opened.append(take_seat(chromium, house, **options))
        return opened[-1]

    yield make
    for one in opened:
        one.keep()
        one.context.close()
    assert [wrong for one in opened for wrong in one.wrong] == []
    assert {url for one in opened for url in one.requests if not url.startswith(f"{house.origin}/")} == set()


@pytest.fixture
def alice(seat: Callable[..., Seat]) -> Seat:
    """Alice at what needs her: she owns the agents, answers questions and votes on what is bound."""
    return seat().come_in("alice")


@pytest.fixture
def bob(seat: Callable[..., Seat]) -> Seat:
    """Bob at what needs him: he answers questions too, and votes on what is bound and what is gated."""
    return seat().come_in("bob")
