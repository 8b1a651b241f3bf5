"""Several bound asks of one verb are answered under one signature over their ordered list, and each is reported."""

import json

from playwright.sync_api import Page, expect

from tests.browser_house import House
from tests.browser_stage import Seat


def mark(seat: Seat, ask: str) -> None:
    """Mark the row of an ask with the pointer."""
    seat.row(ask).locator(".mark").click()


def sent(page: Page) -> list[dict[str, object]]:
    """Collect what the page sends as batches from now on."""
    found: list[dict[str, object]] = []

    def asked(request: object) -> None:
        if request.url.endswith("/api/v1/answers"):  # type: ignore[attr-defined]  # a Request of Playwright's
            found.append(json.loads(request.post_data))  # type: ignore[attr-defined]  # the same

    page.on("request", asked)
    return found


def test_a_batch_is_marked_armed_confirmed_and_reported_by_keyboard(alice: Seat, house: House) -> None:
    """x marks, a arms, Enter confirms; one press of the passkey signs the list in order, and each item says its end."""
    asks = [house.request("service.deploy", service=f"batch-{letter}", region="eu-west") for letter in "abc"]
    alice.open("/needs-you").live()
    requests = sent(alice.page)
    before = alice.credentials()[0]["signCount"]
    alice.press("j", "x", "j", "x", "j", "x")
    bar = alice.page.locator("[data-batch]")
    expect(bar.get_by_role("heading", name="3 × service.deploy")).to_be_visible()
    items = bar.locator("[data-batch-items] li")
    expect(items).to_contain_text([f"Deploy batch-{letter} in eu-west" for letter in "cba"])
    alice.press("a")
    expect(bar.get_by_role("button", name="Sign and approve")).to_be_focused()
    assert [house.state(ask) for ask in asks] == ["OPEN"] * 3
    alice.press("Enter")
    expect(bar.get_by_text("3 of 3 answered.")).to_be_visible()
    expect(bar.locator('[data-outcome="done"]')).to_have_count(3)
    assert [house.state(ask) for ask in asks] == ["APPROVED"] * 3
    assert [[one["ask"] for one in batch["answers"]] for batch in requests] == [asks[::-1]]  # type: ignore[attr-defined]  # read from JSON just now
    assert alice.credentials()[0]["signCount"] == before + 1


def test_a_batch_reports_what_was_settled_meanwhile(alice: Seat, house: House) -> None:
    """Of two marked asks one is withdrawn before the signature: it alone is refused, in words; the other is decided."""
    kept = house.request("service.deploy", service="kept", region="us-east")
    gone = house.request("service.deploy", service="gone", region="us-east")
    alice.context.route("**/api/v1/events**", lambda route: route.abort())
    alice.open("/needs-you")
    for ask in (kept, gone):
        mark(alice, ask)
    bar = alice.page.locator("[data-batch]")
    bar.get_by_label("Comment for all of them").fill("After lunch.")
    alice.context.route(
        "**/api/v1/answers",
        lambda route: (house.agent().post(f"/asks/{gone}/cancel", {"reason": "never mind"}), route.continue_()),
    )
    bar.get_by_role("button", name="Approve all").click()
    alice.press("Enter")
    expect(bar.get_by_text("1 of 2 answered.")).to_be_visible()
    expect(bar.locator(f'li[data-ask="{gone}"]')).to_have_attribute("data-outcome", "refused")
    expect(bar.locator(f'li[data-ask="{kept}"]')).to_have_attribute("data-outcome", "done")
    assert (house.state(kept), house.state(gone)) == ("APPROVED", "WITHDRAWN")
    assert house.ask(kept)["verdict"]["text"] == "After lunch."


def test_high_risk_and_questions_cannot_be_marked(alice: Seat, house: House) -> None:
    """What is of high risk has no mark, and neither has a question; x on them says why. A plain approval has one."""
    high = house.request("service.delete", service="precious")
    question = house.question("Marked?")
    plain = house.request("service.deploy", service="plain", region="eu-west")
    alice.open("/needs-you").live()
    for ask, marks in ((high, 0), (question, 0), (plain, 1)):
        expect(alice.row(ask).locator("[data-mark]")).to_have_count(marks)
    alice.row(high).locator(".ask-link").focus()
    alice.press("x")
    expect(alice.page.get_by_text("This one is answered on its own")).to_be_visible()
    expect(alice.page.locator("[data-batch]")).to_be_hidden()


def test_high_risk_by_hand_is_in_no_batch(alice: Seat, house: House) -> None:
    """A batch put together by hand with an ask of high risk, or of two verbs, is refused; of one verb it starts."""
    high = house.request("service.delete", service="by-hand")
    alike = house.request("service.delete", service="by-hand-too")
    plain = house.request("service.deploy", service="by-hand", region="eu-west")
    other = house.request("service.restart", service="by-hand")
    alice.open("/needs-you").live()

    def given(ask: str) -> dict[str, object]:
        row = alice.row(ask)
        facts = {name: row.get_attribute(f"data-{name}") for name in ("hash", "policy", "version")}
        return {
            "ask": ask,
            "option": "approve",
            "action_hash": facts["hash"],
            "policy": facts["policy"],
            "run_version": int(facts["version"] or 0),
        }

    for asks in ([high, alike], [plain, other], [plain, high]):
        assert alice.send("/answers/statement", {"answers": [given(ask) for ask in asks]})["status"] in (403, 409, 422)
    assert alice.send("/answers/statement", {"answers": [given(plain)]})["status"] == 200


def test_a_second_verb_is_not_marked_beside_the_first(alice: Seat, house: House) -> None:
    """The mark of another verb springs back and says which verb the batch holds; one of the same verb stays."""
    first = house.request("service.deploy", service="one", region="eu-west")
    same = house.request("service.deploy", service="two", region="eu-west")
    other = house.request("service.restart", service="three")
    alice.open("/needs-you").live()
    mark(alice, first)
    mark(alice, other)
    expect(alice.page.get_by_text("A batch holds one verb, and this one is of service.deploy.")).to_be_visible()
    expect(alice.row(other).locator("[data-mark]")).not_to_be_checked()
    mark(alice, same)
    expect(alice.page.get_by_role("heading", name="2 × service.deploy")).to_be_visible()


def test_a_batch_holds_twenty(alice: Seat, house: House) -> None:
    """The twenty-first mark springs back; twenty are named one by one."""
    asks = [house.request("service.deploy", service=f"many-{'x' * n}", region="us-east") for n in range(1, 22)]
    alice.open("/needs-you?agent=agent-1&q=many").live()
    for ask in asks:
        alice.row(ask).locator("[data-mark]").check(force=True) if ask != asks[-1] else mark(alice, ask)
    expect(alice.page.get_by_text("A batch holds at most 20.")).to_be_visible()
    expect(alice.row(asks[-1]).locator("[data-mark]")).not_to_be_checked()
    expect(alice.page.locator("[data-batch-items] li")).to_have_count(20)
    alice.page.get_by_role("button", name="Clear", exact=True).click()
    expect(alice.page.locator("[data-batch]")).to_be_hidden()
    for ask in asks:
        house.agent().post(f"/asks/{ask}/cancel", {"reason": "enough"})
