"""The card of an ask: made of the action, the agent's words apart; what a person may do on it, and how it ended."""

from dataclasses import replace

import pytest

from gitops_bot.authority import handling
from gitops_bot.authority.rules import AskLimits
from gitops_bot.authority.shown import Card, SignedFile
from gitops_bot.bootstrap.showing import show
from gitops_bot.bootstrap.workspace import Services
from gitops_bot.core.asks import Ask
from gitops_bot.core.principals import PrincipalName
from gitops_bot.core.verdicts import Channel
from gitops_bot.store.engine import Tx
from tests.decisions import Stage
from tests.harmless import Page, assert_harmless, read_page
from tests.policy_bundles import GONE
from tests.unit.workspace.pages.conftest import Desk
from tests.unit.workspace.pages.rows import HOSTILE, Filled
from workspace.pages import cards

HTMX = {"HX-Request": "true"}
TRANSFER = {"amount_minor": 1250, "currency": "EUR", "to": "DE89370400440532013000"}


@pytest.fixture
def stage(desk: Desk) -> Stage:
    return Stage(desk.broker, desk.workplace.services.rules)


def card_of(desk: Desk, ask: Ask | str) -> Page:
    return assert_harmless(desk.page(f"/asks/{ask if isinstance(ask, str) else ask.id}"))


def acts_of(page: Page) -> set[str]:
    """Name what the forms of a card do; the keyboard's sheet is on every page."""
    paths = {one["action"] for one in page.all("form") if "action" in one}
    return {path.rpartition("/")[2] for path in paths if path.startswith("/api/v1/asks/")}


def transfer(stage: Stage) -> Ask:
    return stage.ask(stage.agent("payer"), verb="payments.transfer", params=TRANSFER, text="Pay it", why="due")


@pytest.mark.parametrize("which", ["question", "approval", "gated", "expired"])
def test_nothing_that_an_agent_wrote_acts_on_a_card(desk: Desk, filled: Filled, which: str) -> None:
    page = card_of(desk, getattr(filled, which))
    assert "<script>alert(1)</script>" in page.text, "the twin: it is shown as text"
    assert HOSTILE not in desk.page(f"/asks/{getattr(filled, which)}")
    fragment = desk.alice.get(f"/asks/{getattr(filled, which)}/card", headers=HTMX).get_data(as_text=True)
    assert_harmless(fragment)
    assert "<html" not in fragment


def test_a_marker_in_every_field_of_an_agent_is_text_and_no_attribute(desk: Desk, stage: Stage) -> None:
    marker = "m4rk3r"
    words = f"**{marker}** [{marker}](/x) ![{marker}](https://{marker}.example/p.png)"
    asked = stage.ask(verb=None, params=None, text=words, why=words, labels=[words, marker])
    bound = stage.ask(params={marker: marker}, text=words, why=words)
    for ask in (asked, bound):
        page = card_of(desk, ask)
        assert page.text.count(marker) >= 4
        for tag, attributes in page.elements:
            holding = {name for name, value in attributes.items() if marker in value}
            # The JSON of a parameter, in printable ASCII of ours.
            assert not holding or (tag, holding) == ("code", {"title"}), (tag, attributes)


def test_htmx_attributes_in_markdown_are_words(desk: Desk, stage: Stage) -> None:
    words = "<div hx-get=/api/v1/x hx-trigger=load data-hx-post=/y>look</div>"
    page = card_of(desk, stage.ask(verb=None, params=None, text=words, why=words))
    assert words in page.text
    outer = [attributes for tag, attributes in page.elements if tag == "div" and attributes.get("class") == "text"]
    assert outer
    assert all("hx-disable" in attributes for attributes in outer)


def test_a_remote_image_is_not_loaded(desk: Desk, stage: Stage) -> None:
    page = card_of(desk, stage.ask(verb=None, params=None, text="![plot](https://spy.example/p.png)"))
    assert all(one["src"].startswith("/static/") for one in page.all("img"))
    assert "[image: plot] https://spy.example/p.png" in page.text


def test_the_agents_words_stand_apart_under_its_name(desk: Desk, stage: Stage) -> None:
    text = card_of(desk, stage.ask(text="Please", why="tests pass")).text
    assert "agent-1 wrote Please" in text
    assert "agent-1, to say why, wrote tests pass" in text
    assert "These are claims of the agent" in text


def test_the_card_shows_the_action_beside_the_last_approved_one(desk: Desk, stage: Stage) -> None:
    before = stage.ask(params={"version": "1.0", "notes": "old", "same": 1})
    stage.answer(before, "bob", "approve")
    stage.answer(before, "carol", "approve")
    html = desk.page(f"/asks/{stage.ask(params={'version': '2.0', 'extra': True, 'same': 1}).id}")
    text = read_page(html).text
    assert "3 values differ" in text
    assert html.count('<tr class="changed">') == 3
    for part in ("2.0 changed 1.0", "extra true changed not there", "notes not there changed old", "same 1 the same"):
        assert part in text
    assert f"/asks/{before.id}" in html


def test_an_approval_is_bound_and_takes_a_comment(desk: Desk, stage: Stage) -> None:
    ask = stage.ask()
    html = desk.page(f"/asks/{ask.id}")
    page = assert_harmless(html)
    form = next(one for one in page.all("form") if one.get("action") == f"/api/v1/asks/{ask.id}/answer")
    assert form["data-bound"] == "yes"
    hidden = {one["name"]: one["value"] for one in page.all("input") if one.get("type") == "hidden"}
    binding = ask.binding
    assert hidden == {
        "action_hash": binding.action_hash, "policy": binding.policy, "run_version": str(binding.run_version)
    }  # fmt: skip
    assert {one["value"] for one in page.all("button") if one.get("name") == "option"} == {"approve", "deny"}
    assert [one for one in page.all("textarea") if one["name"] == "text"]
    assert acts_of(page) >= {"answer", "snooze", "delegate", "cancel"}
    assert "hold" not in acts_of(page)


def test_high_risk_is_armed_first_and_normal_is_not(desk: Desk, stage: Stage) -> None:
    ask = stage.ask()
    assert not _armed(card_of(desk, ask))
    high = {"people/alice/passkey": GONE, "verbs/release.cut/risk": "high"}
    object.__setattr__(desk.workplace.services, "decided_by", stage.under(high).rules)
    assert _armed(card_of(desk, ask)) == {"approve", "deny"}


def _armed(page: Page) -> set[str]:
    return {one["value"] for one in page.all("button") if one.get("name") == "option" and "data-armed" in one}


def test_a_question_offers_options_by_digit_and_free_text(desk: Desk, stage: Stage) -> None:
    page = card_of(desk, stage.question(["left", "right"]))
    digits = {one["value"]: one["data-digit"] for one in page.all("input") if one.get("type") == "radio"}
    assert digits == {"o1": "1", "o2": "2"}
    form = next(one for one in page.all("form") if one.get("action", "").endswith("/answer"))
    assert form["data-bound"] == "no"
    assert [one for one in page.all("textarea") if one["name"] == "text"]


def test_a_gated_card_has_no_control_but_to_stop_it(desk: Desk, stage: Stage) -> None:
    ask = transfer(stage)
    page = card_of(desk, ask)
    assert acts_of(page) == {"hold", "cancel"}
    assert not [one for one in page.all("button") if one.get("name") == "option" or "data-key" in one]
    assert not page.all("textarea")
    hours = next(one for one in page.all("input") if one.get("name") == "lasts")
    assert (hours["max"], hours["data-type"]) == ("72", "hours")
    for part in ("No grant was minted", f"gitops-bot approval sign {ask.id}", "signed commits", "Transfer 12.50 EUR"):
        assert part in page.text
    assert acts_of(card_of(desk, stage.ask())) >= {"answer"}, "the twin: an ask that is not gated has the form"


def test_somebody_elses_gated_card_can_only_be_held(desk: Desk, stage: Stage) -> None:
    bob = desk.workplace.person("bob")
    html = bob.get(f"/asks/{transfer(stage).id}", headers={"Accept": "text/html"}).get_data(as_text=True)
    assert acts_of(read_page(html)) == {"hold"}


def test_the_exact_files_and_commands_are_there_to_copy(
    desk: Desk, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = transfer(stage)
    file = SignedFile(
        person=PrincipalName("bob"),
        decision="approve",
        path="approvals/x/bob.approve.1",
        file_text='{"file": "<exact>"}',
        message_text="Approve <this>",
        sha256="a" * 64,
        short_code="abc-def",
        command=f"gitops-bot approval sign {ask.id}",
        by_hand="git commit -S",
        begin="git init",
    )

    def shown(services: Services, tx: Tx, ask_id: str, person: PrincipalName | None) -> Card | None:
        found = show(services, tx, ask_id, person)
        assert found is not None
        assert found.gated is not None
        return replace(found, gated=replace(found.gated, files=(file,), request='{"request": 1}'))

    monkeypatch.setattr(cards, "show", shown)
    page = card_of(desk, ask)
    for part in (
        file.file_text,
        file.message_text,
        file.sha256,
        file.short_code,
        file.by_hand,
        file.begin,
        '"request"',
    ):
        assert part in page.text
    assert "The exact files that bob would sign" in page.text
    names = [one["aria-label"] for one in page.all("pre")]
    assert len(names) == len(set(names)) == 7


def test_refused_attempts_are_shown_with_reasons(desk: Desk, stage: Stage) -> None:
    ask = transfer(stage)
    stage.answer(ask, "bob", "approve")
    text = card_of(desk, ask).text
    assert "Refused attempts" in text
    assert "bob through workspace" in text
    assert "gated" in text


def test_a_hold_is_shown_with_its_words(desk: Desk, stage: Stage) -> None:
    ask = transfer(stage)
    with desk.broker.write() as tx:
        handling.hold(tx, stage.rules, PrincipalName("bob"), ask.id, 3_600_000, "wait for the audit")
    text = card_of(desk, ask).text
    assert "Held by bob" in text
    assert "wait for the audit" in text


def test_who_voted_and_who_is_missing(desk: Desk, stage: Stage) -> None:
    ask = stage.ask()
    stage.answer(ask, "bob", "approve", "fine by me")
    text = card_of(desk, ask).text
    assert "1 approval, from alice, carol" in text
    assert "bob approve through workspace" in text
    assert "bob wrote fine by me" in text


def test_a_verdict_says_who_when_through_what_and_how_long_it_took(desk: Desk, stage: Stage) -> None:
    ask = stage.ask()
    stage.answer(ask, "bob", "deny", "not now", channel=Channel.WORKSPACE)
    page = card_of(desk, ask)
    assert "answer" not in acts_of(page)
    for part in ("Denied", "bob · just now · through workspace", "after it was asked", "not now"):
        assert part in page.text


def test_the_last_denial_of_the_same_action_is_shown(desk: Desk, stage: Stage) -> None:
    first = stage.ask(params={"version": "3.0"})
    stage.answer(first, "bob", "deny", "too early")
    rules = desk.workplace.services.rules
    again = replace(stage, rules=replace(rules, limits=AskLimits(repeat_after=0)))
    page = card_of(desk, again.ask(params={"version": "3.0"}))
    assert "bob denied this very action before" in page.text
    assert "too early" in page.text


def test_somebody_who_may_not_answer_is_told_why(desk: Desk, stage: Stage) -> None:
    ask = stage.ask(verb="capture.approve", params={"trace_id": "t", "regime": {}})
    carol = desk.workplace.person("carol")
    html = carol.get(f"/asks/{ask.id}", headers={"Accept": "text/html"}).get_data(as_text=True)
    page = read_page(html)
    assert "answer" not in acts_of(page)
    assert "The policy does not let this person do that." in page.text
    assert "Have one of the people do it whom the policy lets; the card of an ask names them." in page.text


def test_a_settled_ask_is_a_row_that_says_so(desk: Desk, stage: Stage) -> None:
    ask = stage.ask()
    row = desk.alice.get(f"/asks/{ask.id}/row", headers=HTMX).get_data(as_text=True)
    assert "settled" not in row
    assert "data-mark" in row
    stage.answer(ask, "bob", "deny")
    row = desk.alice.get(f"/asks/{ask.id}/row?verb=release.cut", headers=HTMX).get_data(as_text=True)
    assert 'class="ask settled"' in row
    assert "Denied. By bob." in read_page(row).text
    assert "data-mark" not in row
    assert f'href="/needs-you?verb=release.cut&amp;ask={ask.id}"' in row


@pytest.mark.parametrize("path", ["", "/card", "/row"])
@pytest.mark.parametrize("name", ["0" * 26, "x", "..%2f..%2fetc", "%00"])
def test_what_is_no_ask_is_not_found(desk: Desk, name: str, path: str) -> None:
    assert desk.alice.get(f"/asks/{name}{path}").status_code == 404


@pytest.mark.parametrize("path", ["", "/card", "/row"])
def test_nobody_sees_a_card_without_signing_in(desk: Desk, stage: Stage, path: str) -> None:
    response = desk.stranger.get(f"/asks/{stage.question().id}{path}")
    assert response.status_code == 303
    assert response.headers["Location"].startswith("/sign-in?next=")
