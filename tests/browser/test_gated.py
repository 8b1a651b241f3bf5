"""A gated ask is shown whole and answered nowhere in the workspace: not by its card, nor by hand from the page."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser_house import House
from tests.browser_stage import Seat

TO = "DE89370400440532013000"


def transfer(house: House, cents: int) -> str:
    """Have the agent ask for a transfer that nobody asked for before."""
    return house.request("payments.transfer", amount_minor=cents, currency="EUR", to=TO, why="Invoice 12 is due.")


def bound(seat: Seat, ask: str, **more: Any) -> dict[str, Any]:
    """Give the body of an answer that names exactly what the page shows."""
    row = seat.row(ask)
    return {
        "option": "approve",
        "action_hash": row.get_attribute("data-hash"),
        "policy": row.get_attribute("data-policy"),
        "run_version": int(row.get_attribute("data-version") or 0),
        **more,
    }


def test_a_gated_card_has_no_control_but_to_stop_it(seat: Callable[..., Seat], house: House) -> None:
    """Not even a voter of it finds anything that answers: only holding, and copying. A bound card has its buttons."""
    ask = transfer(house, 125_000)
    other = house.request("service.deploy", service="web", region="eu-west")
    bob = seat().come_in("bob")
    card = bob.at_card(ask)
    names = [text.split("\n")[0].strip() for text in card.get_by_role("button").all_inner_texts()]
    assert {name for name in names if not name.startswith("Copy")} == {"Hold it"}
    actions = card.locator("form").evaluate_all("forms => forms.map((form) => form.getAttribute('action'))")
    assert actions == [f"/api/v1/asks/{ask}/hold"]
    expect(bob.row(ask).locator("[data-mark]")).to_have_count(0)
    assert bob.at_card(other).get_by_role("button", name="Approve").count() == 1


def test_keys_answer_nothing_on_a_gated_card(seat: Callable[..., Seat], house: House) -> None:
    """a and d on a focused gated card say that they answer nothing; h goes to the hold, which is all that there is."""
    ask = transfer(house, 126_000)
    bob = seat().come_in("bob")
    card = bob.at_card(ask)
    for key in "ad":
        bob.press(key)
        expect(bob.page.get_by_text("There is nothing here that this key answers.")).to_be_visible()
    expect(card).to_have_attribute("data-state", "OPEN")
    assert house.state(ask) == "OPEN"
    bob.press("h")
    expect(card.get_by_label("Hours, at most 72")).to_be_focused()


def test_an_answer_by_hand_is_refused_as_gated(seat: Callable[..., Seat], house: House) -> None:
    """A request made by hand from the page, with its token and the right hashes, is refused; nothing is minted."""
    ask = transfer(house, 127_000)
    bob = seat().come_in("bob")
    bob.at_card(ask)
    body = bound(bob, ask)
    for path, sent in (
        (f"/asks/{ask}/statement", body),
        (f"/asks/{ask}/answer", body),
        ("/answers/statement", {"answers": [{"ask": ask, **body}]}),
    ):
        answer = bob.send(path, sent)
        assert (path, answer.get("reason")) == (path, "gated")
        assert answer["status"] in (403, 409, 422)
    assert house.state(ask) == "OPEN"
    bob.page.reload()
    expect(bob.card(ask).get_by_text("No grant was minted. It takes")).to_be_visible()
    assert house.ledger("grant.minted") == []


def test_an_answer_by_hand_to_a_plain_question_counts(seat: Callable[..., Seat], house: House) -> None:
    """The same hand-made request answers what may be answered here: the refusal is of the gate, not of the hand."""
    ask = house.question("By hand?", "yes", "no")
    bob = seat().come_in("bob")
    bob.at_card(ask)
    assert bob.send(f"/asks/{ask}/answer", bound(bob, ask, option="o1"))["status"] == 200
    assert house.state(ask) == "ANSWERED"


def test_the_card_gives_exact_commands(seat: Callable[..., Seat], house: House) -> None:
    """The command to sign, the branches, and the very file that would be signed stand on the card, to be copied."""
    ask = transfer(house, 128_000)
    bob = seat().come_in("bob")
    bob.context.grant_permissions(["clipboard-read", "clipboard-write"])
    card = bob.at_card(ask)
    command = f"gitops-bot approval sign {ask}"
    expect(card.locator('pre[aria-label="command to sign"]')).to_have_text(command)
    card.get_by_role("button", name="Copy command to sign").click()
    expect(bob.page.locator("[data-toast]")).to_have_text("Copied.")
    assert bob.page.evaluate("() => navigator.clipboard.readText()") == command
    for branch in ("requests", "approvals/bob", "approvals/carol"):
        expect(card.get_by_text(f"refs/heads/gated/demo/{branch}", exact=True).first).to_be_visible()
    approve = card.locator('[data-part="file-approve"]')
    approve.locator("summary").click()
    shown = approve.locator('pre[aria-label="file to approve"]').inner_text()
    assert ask in shown
    assert "128000" in shown or re.search(r"sha256:[0-9a-f]{64}", shown)


def test_the_card_says_where_authority_lives(seat: Callable[..., Seat], house: House) -> None:
    """That only signed commits count, who is missing, and that this is no wall around a shell is said in words."""
    ask = transfer(house, 129_000)
    card = seat().come_in("bob").at_card(ask)
    expect(card.get_by_text("No grant was minted. It takes the signatures that are still missing.")).to_be_visible()
    expect(card.get_by_text("only commits that people sign with their own keys do")).to_be_visible()
    expect(card.get_by_text("not a wall around an owner who has a shell")).to_be_visible()
    expect(card.get_by_text("2 approvals, from")).to_be_visible()


@pytest.mark.parametrize("path", ["/signed", "/needs-you", "/asks/{ask}"])
def test_no_page_but_the_card_offers_to_act_on_it(seat: Callable[..., Seat], house: House, path: str) -> None:
    """No form of any page that shows a gated ask goes to an answer of it."""
    ask = transfer(house, 130_000 + len(path))
    alice = seat().come_in("alice").open(path.format(ask=ask))
    expect(alice.page.get_by_text(re.compile("Transfer 1,300")).first).to_be_visible()
    actions = alice.page.locator("form").evaluate_all("forms => forms.map((form) => form.getAttribute('action') || '')")
    assert [action for action in actions if "answer" in action or "statement" in action] == []
    house.agent().post(f"/asks/{ask}/cancel", {"reason": "enough seen"})
