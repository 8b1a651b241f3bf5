"""What an agent, a stranger's page or a link scanner can do in a person's browser: nothing."""

import json
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser_filled import Filled, fill
from tests.browser_house import House
from tests.browser_stage import Seat, take_seat

MARK = "here-it-stands"
HOSTILE = (
    f'{MARK} "><script>alert(1)</script><img src=x onerror=alert(2)> <b hx-get=/sign-in hx-trigger=load>b</b> '
    "![i](https://images.example/p.png) [x](javascript:alert(3)) <svg onload=alert(4)> {{7*7}} "
    '<form action=/api/v1/auth/sign-out method=post><button hx-post="/x" data-act>Approve</button></form>'
)
HARM = """() => [
  ...document.querySelectorAll('.said :is(script, img, svg, form, button, iframe, b, input, style, link)'),
  ...document.querySelectorAll('main script, [onerror], [onload], a[href^="javascript:"]'),
  ...document.querySelectorAll('main img:not([src^="/static/"])'),
  ...document.querySelectorAll('.text [hx-get], .text [hx-post], .text [data-act], .text [class], .text [id]'),
].map((one) => one.outerHTML.slice(0, 200))"""
PAGES = (
    *("/needs-you", "/needs-you?ask={question}", "/needs-you?ask={approval}", "/needs-you?ask={high}"),
    *("/needs-you?ask={gated}", "/asks/{ended}", "/asks/{expired}", "/agents", "/agents/agent-1", "/agents/loop-1"),
    *("/captures", "/captures/{capture}", "/signed", "/backlog", "/ledger", "/people"),
)
WITHOUT_WORDS = ("/people", "/captures")
"""Pages that show nothing of an agent's words."""


@pytest.fixture(scope="module")
def filled(house: House) -> Filled:
    """Rows in which every field that an agent controls says the same."""
    return fill(house, HOSTILE, service="hostile")


@pytest.fixture(scope="module")
def window(chromium: Browser, house: House, filled: Filled) -> Iterator[Seat]:
    """One window of Bob's that counts what the content policy stopped."""
    made = take_seat(chromium, house)
    made.context.add_init_script(
        "window.stopped = []; document.addEventListener('securitypolicyviolation', "
        "(event) => window.stopped.push(event.violatedDirective + ' ' + event.blockedURI));"
    )
    yield made.come_in("bob")
    made.context.close()


@pytest.mark.parametrize("path", PAGES)
def test_words_of_an_agent_do_nothing(window: Seat, house: House, filled: Filled, path: str) -> None:
    """A script, markup, `hx-*` and a remote image are words on every page: nothing runs, loads, or is even stopped."""
    window.open(path.format(**{name: getattr(filled, name) for name in filled.__dataclass_fields__}))
    expect(window.page.locator("main")).to_be_visible()
    window.page.wait_for_load_state("networkidle") if path == "/sign-in" else window.live()
    assert window.page.evaluate(HARM) == []
    assert window.page.evaluate("() => window.stopped") == []
    if path not in WITHOUT_WORDS:
        expect(window.page.get_by_text(MARK).first).to_be_attached()
        assert "<script>alert(1)</script>" in window.page.locator("main").inner_text()
    assert window.wrong == []
    assert [url for url in window.requests if not url.startswith(f"{house.origin}/")] == []


def test_words_of_an_agent_do_nothing_when_they_are_swapped_in(window: Seat, filled: Filled) -> None:
    """The same words in a card that htmx fetches into the page, and in the twin of the batch list, stay words."""
    window.open("/needs-you").live()
    for ask in (filled.question, filled.approval, filled.gated):
        window.row(ask).locator(".ask-link").click()
        expect(window.card(ask)).to_be_visible()
        expect(window.card(ask).get_by_text(MARK).first).to_be_visible()
        assert window.page.evaluate(HARM) == []
    window.row(filled.approval).locator(".mark").click()
    expect(window.page.locator("[data-batch-items] li")).to_have_count(1)
    assert window.page.evaluate("() => window.stopped") == []
    assert window.wrong == []


def test_an_image_is_shown_as_its_words(window: Seat, filled: Filled) -> None:
    """A remote image is told with its address, so that nobody misses it, and a plain link of the same text works."""
    window.open(f"/asks/{filled.question}")
    expect(window.page.locator(".said").get_by_text("images.example").first).to_be_visible()
    assert window.page.locator(".said img").count() == 0


def test_what_the_policy_stops_is_counted(window: Seat) -> None:
    """The twin of the counts: a script put in by hand is stopped by the content policy, and the count sees it."""
    window.open("/agents")
    window.page.evaluate("() => { const one = document.createElement('script'); one.textContent = 'window.ran = 1'; "
                         "document.body.append(one); }")  # fmt: skip
    window.page.wait_for_function("() => window.stopped.length === 1")
    assert window.page.evaluate("() => window.ran") is None
    window.wrong.clear()


def test_a_hostile_name_of_a_shell_is_words(window: Seat, house: House) -> None:
    """What a shell calls itself is shown where it is confirmed, as words."""
    begun = house.agent().post("/auth/shells/begin", {"label": '"><img src=x onerror=alert(5)>'[:60]})
    window.open(f"/shell?code={begun['code']}")
    expect(window.page.get_by_text("<img src=x onerror=alert(5)>")).to_be_visible()
    assert window.page.evaluate(HARM) == []


# ---- pages of others


class Elsewhere(BaseHTTPRequestHandler):
    """A page of another site, whose body is what the server was given."""

    def do_GET(self) -> None:
        """Give the page."""
        body = self.server.page.encode() if self.path == "/" else b"<p id=own>own</p>"  # type: ignore[attr-defined]  # set below
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def elsewhere() -> Iterator[Callable[[str], str]]:
    """Serve a page under another site's name; gives its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()

    def serve(page: str) -> str:
        server.page = page  # type: ignore[attr-defined]  # read by the handler
        return f"http://127.0.0.1:{server.server_port}/"

    yield serve
    server.shutdown()
    thread.join()
    server.server_close()


def framed(page: Page, address: str) -> str:
    """Open a page and give what stands in its frame."""
    page.goto(address)
    frame = page.frames[1]
    frame.wait_for_load_state()
    return frame.content()


def test_no_page_can_be_framed(window: Seat, house: House, elsewhere: Callable[[str], str]) -> None:
    """Another site cannot lay the inbox or the sign-in under its own page; its own page it can."""
    page = window.context.new_page()
    for path in ("/needs-you", "/sign-in"):
        shown = framed(page, elsewhere(f"<iframe src='{house.origin}{path}'></iframe>"))
        assert "Needs you" not in shown
        assert "passkey" not in shown
    assert "own" in framed(page, elsewhere("<iframe src='/own'></iframe>"))
    page.close()


def test_a_form_of_another_site_decides_nothing(window: Seat, house: House, elsewhere: Callable[[str], str]) -> None:
    """A form and a script of another site that send an answer are refused; sent from the page it counts."""
    ask = house.question("From elsewhere?", "yes", "no", slug="agent-2")
    window.at_card(ask)
    row = window.row(ask)
    facts = {name: row.get_attribute(f"data-{name}") for name in ("hash", "policy", "version")}
    target = f"{house.origin}/api/v1/asks/{ask}/answer"
    body = f'{{"option":"o1","action_hash":"{facts["hash"]}","policy":"{facts["policy"]}","run_version":1}}'
    page = window.context.new_page()
    page.goto(elsewhere(f"<form id=f method=post enctype=text/plain action='{target}'><input name=x></form>"))
    field = f"() => {{ document.querySelector('input').name = {body!r}; }}"
    page.evaluate(field)
    with page.expect_response(target) as answered:
        page.evaluate("() => document.querySelector('#f').submit()")
    page.wait_for_url(target)
    assert answered.value.status in (400, 401, 403, 415)
    page.goto(elsewhere("<p>x</p>"))
    page.evaluate(
        "([target, body]) => fetch(target, {method: 'POST', mode: 'no-cors', credentials: 'include', body})"
        ".then(() => 'sent', () => 'sent, and its answer kept from the page')",
        [target, body],
    )
    page.close()
    assert house.state(ask, "agent-2") == "OPEN"
    sent = {**json.loads(body), "run_version": int(facts["version"] or 0)}
    assert window.send(f"/asks/{ask}/answer", sent)["status"] == 200


def test_a_link_from_another_site_leads_to_the_ask(window: Seat, house: House, elsewhere: Callable[[str], str]) -> None:
    """Somebody who is signed in follows a link from a pull request or a chat to the ask, without signing in again."""
    ask = house.question("From a link?", slug="agent-2")
    page = window.context.new_page()
    page.goto(elsewhere(f"<a href='{house.origin}/asks/{ask}'>decide</a>"))
    page.get_by_role("link", name="decide").click()
    expect(page).to_have_url(f"{house.origin}/asks/{ask}")
    expect(window.card(ask, page)).to_be_visible()
    page.close()
    assert house.state(ask, "agent-2") == "OPEN"


def test_a_scanner_that_opens_every_link_decides_nothing(window: Seat, house: House, filled: Filled) -> None:
    """Every address on the inbox and on each card is opened by GET with the person's session, forms' actions too:
    nothing is decided, ended, snoozed or signed out."""
    asks = (filled.question, filled.approval, filled.high, filled.gated)
    before = [house.ask(ask) for ask in asks]
    found: set[str] = set()
    for path in ("/needs-you", "/people", "/agents/agent-1", "/backlog", *(f"/asks/{ask}" for ask in asks)):
        window.open(path)
        collect = "() => [...document.querySelectorAll('a[href], form[action]')].map((one) => one.href || one.action)"
        found |= {url for url in window.page.evaluate(collect) if url.startswith(house.origin)}
    assert len(found) > 20
    statuses = window.page.evaluate(
        "(all) => Promise.all(all.map((url) => fetch(url).then((answer) => answer.status)))", sorted(found)
    )
    assert max(statuses) < 500
    assert {re.sub(r"updated.*", "", str(one)) for one in before} == {
        re.sub(r"updated.*", "", str(house.ask(ask))) for ask in asks
    }
    window.open("/needs-you").live()
    for ask in asks:
        expect(window.row(ask)).to_be_visible()
