"""Windows of people for browser tests: real Chromium, passkeys by a virtual authenticator.

A `Seat` is one person's browser window in a `House`. The authenticator is Chromium's own (WebAuthn over the DevTools
protocol), so that the ceremonies are those of a browser. A seat keeps what would be wrong on any page: an error in the
console, a dialog, a request that leaves the origin.
"""

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from playwright.sync_api import Browser, BrowserContext, Locator, Page, ViewportSize, expect

from tests.browser_house import ROOT, House

CHROMIUM: Final = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), "chromium"
)
FLAGS: Final = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)
AXE: Final = ROOT / "tests" / "node" / "node_modules" / "axe-core" / "axe.min.js"
WIDE: Final[ViewportSize] = {"width": 1280, "height": 900}
NARROW: Final[ViewportSize] = {"width": 390, "height": 844}
SCHEMES: Final[tuple[Literal["light", "dark"], ...]] = ("light", "dark")
PATIENCE: Final = 30_000
"""Milliseconds that a test waits for what must come."""


@dataclass(repr=False)
class Seat:
    """One person's window. `person` is set where the house keeps its keys for the next window; `wrong` collects what no
    page may do, `requests` every address that was asked for."""

    house: House
    context: BrowserContext
    page: Page
    authenticator: str
    devtools: Any
    person: str = ""
    wrong: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def open(self, path: str) -> "Seat":
        """Go to a page of the workspace."""
        self.page.goto(f"{self.house.origin}{path}")
        return self

    def enrol(self, person: str) -> "Seat":
        """Come in as somebody by a code of the host, with this window's authenticator."""
        self.open("/enrol")
        self.page.get_by_label("Code").fill(self.house.code(person))
        self.page.get_by_label("Name of this key").fill("laptop")
        self.page.get_by_role("button", name="Create the passkey").click()
        self.page.wait_for_url("**/enrol/second")
        return self

    def sign_in(self, person: str) -> "Seat":
        """Come in with the passkey that somebody enrolled before, here or in another window of the house."""
        for credential in self.house.passkeys.get(person, []):
            given = {"authenticatorId": self.authenticator, "credential": credential}
            self.devtools.send("WebAuthn.addCredential", given)
        self.open("/sign-in")
        self.page.get_by_role("button", name="Sign in with a passkey").click()
        self.page.wait_for_url("**/needs-you")
        self.person = person
        return self

    def come_in(self, person: str) -> "Seat":
        """Be somebody, at what needs them: enrolled the first time, signed in after it."""
        if person in self.house.passkeys:
            return self.sign_in(person)
        self.enrol(person)
        self.person = person
        self.keep()
        return self.open("/needs-you")

    def keep(self) -> None:
        """Let the house remember this window's keys, with their counters, for the next window of the person."""
        if self.person:
            self.house.passkeys[self.person] = self.credentials() or self.house.passkeys.get(self.person, [])

    def credentials(self) -> list[dict[str, Any]]:
        """Give the authenticator's credentials."""
        found = self.devtools.send("WebAuthn.getCredentials", {"authenticatorId": self.authenticator})
        return list(found["credentials"])

    def forget(self) -> None:
        """Let the authenticator lose its keys."""
        self.devtools.send("WebAuthn.clearCredentials", {"authenticatorId": self.authenticator})

    def verify(self, whether: bool) -> None:
        """Let the authenticator recognise its user from now on, or fail to."""
        self.devtools.send(
            "WebAuthn.setUserVerified", {"authenticatorId": self.authenticator, "isUserVerified": whether}
        )

    def second_window(self) -> Page:
        """Open another window of the same browser, at the same page."""
        page = self.context.new_page()
        watch(page, self)
        page.goto(self.page.url)
        return page

    def at_card(self, ask: str) -> Locator:
        """Open an ask beside the list; gives its card, which has the focus."""
        self.open(f"/needs-you?ask={ask}")
        self.live()
        return self.card(ask)

    def card(self, ask: str, page: Page | None = None) -> Locator:
        """Give the card of an ask."""
        return (page or self.page).locator(f'#card[data-card="{ask}"]')

    def row(self, ask: str) -> Locator:
        """Give the row of an ask in the list."""
        return self.page.locator(f"#row-{ask}")

    def live(self, page: Page | None = None) -> None:
        """Wait until the page hears of what changes."""
        expect((page or self.page).locator('[data-live="on"]')).to_have_count(1)

    def press(self, *keys: str) -> None:
        """Press keys, one after the other."""
        for key in keys:
            self.page.keyboard.press(key)

    def send(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Send a change from the page by hand, with its token, past the page's own script; status and document."""
        script = """async ([path, body]) => {
          const response = await fetch('/api/v1' + path, {
            method: 'POST',
            headers: {'Content-Type': 'application/json',
                      'X-CSRF-Token': document.querySelector('meta[name="csrf"]').content},
            body: JSON.stringify(body),
          });
          return {status: response.status, ...(await response.json())};
        }"""
        return dict(self.page.evaluate(script, [path, body]))

    def violations(self) -> list[str]:
        """Have axe-core look at the page; what it finds wrong, in one line each."""
        if not self.page.evaluate("() => 'axe' in window"):
            self.page.evaluate(AXE.read_text("utf-8"))
        result = self.page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
        return [
            f"{one['id']}: {one['help']} ({node['html'][:160]})"
            for one in result["violations"]
            for node in one["nodes"]
        ]


def take_seat(browser: Browser, house: House, **options: Any) -> Seat:
    """Open a window: a browser profile of its own with an authenticator of its own."""
    context = browser.new_context(**{"viewport": WIDE, "reduced_motion": "reduce", **options})
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    devtools, authenticator = authenticate(context, page)
    made = Seat(house, context, page, authenticator, devtools)
    watch(page, made)
    return made


def watch(page: Page, seat: Seat) -> None:
    """Let a seat hear what goes wrong on a page, and what it asks for."""

    def said(message: Any) -> None:
        # That an answer was refused is a line of the browser's own, and no error of the page.
        if message.type == "error" and not message.text.startswith("Failed to load resource"):
            seat.wrong.append(f"console: {message.text}")

    def asked(dialog: Any) -> None:
        seat.wrong.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    page.on("console", said)
    page.on("dialog", asked)
    page.on("pageerror", lambda error: seat.wrong.append(f"error: {error}"))
    page.on("request", lambda request: seat.requests.append(request.url))


def authenticate(context: BrowserContext, page: Page) -> tuple[Any, str]:
    """Give a window an authenticator that verifies its user and answers by itself."""
    devtools = context.new_cdp_session(page)
    devtools.send("WebAuthn.enable")
    options = {
        "protocol": "ctap2",
        "transport": "internal",
        "hasResidentKey": True,
        "hasUserVerification": True,
        "isUserVerified": True,
        "automaticPresenceSimulation": True,
    }
    made = devtools.send("WebAuthn.addVirtualAuthenticator", {"options": options})
    return devtools, str(made["authenticatorId"])


def faults(seat: Seat) -> list[str]:
    """Look at the page that is open in light and dark, wide and narrow."""
    found = []
    for name, viewport in (("wide", WIDE), ("narrow", NARROW)):
        seat.page.set_viewport_size(viewport)
        wider = seat.page.evaluate("() => document.documentElement.scrollWidth - window.innerWidth")
        if wider > 0:
            found.append(f"{name}: {wider} px wider than the window")
        for scheme in SCHEMES:
            seat.page.emulate_media(color_scheme=scheme)
            found += [f"{name}, {scheme}: {fault}" for fault in seat.violations()]
    seat.page.set_viewport_size(WIDE)
    return found


def until(true: Callable[[], bool], what: str) -> None:
    """Wait until a condition outside of the browser holds."""
    end = time.monotonic() + PATIENCE / 1000
    while not true():
        assert time.monotonic() < end, what
        time.sleep(0.05)
