"""The inbox: what it shows, what it counts, what its address says, and that nothing an agent wrote acts in it."""

import re
from urllib.parse import parse_qs, urlsplit

import pytest

from gitops_bot.store import agents
from gitops_bot.store.states import AgentState, RunState
from tests.decisions import Stage
from tests.harmless import assert_harmless, read_page
from tests.unit.workspace.pages.conftest import Desk
from tests.unit.workspace.pages.rows import HOSTILE, Filled
from workspace.pages.choosing import Chosen, choose
from workspace.pages.inbox import PAGE

MARKER = "m4rk3r"
HTMX = {"HX-Request": "true"}


@pytest.fixture
def stage(desk: Desk) -> Stage:
    return Stage(desk.broker, desk.workplace.services.rules)


def title_of(html: str) -> str:
    found = re.search(r"<title>(.*?)</title>", html)
    assert found is not None
    return found[1]


def rows_of(html: str) -> list[str]:
    return re.findall(r'<li class="ask[^>]* data-ask="([0-9a-z]{26})"', html)


def test_an_empty_inbox_says_what_the_agents_do(desk: Desk) -> None:
    page = read_page(desk.page("/needs-you"))
    assert "Nothing needs you" in page.text
    assert "shell:" in page.text
    assert "other:" in page.text


def test_an_empty_inbox_without_agents_says_that_there_are_none(desk: Desk) -> None:
    with desk.broker.write() as tx:
        for agent in desk.workplace.agents.values():
            agents.set_state(tx, agent.id, AgentState.RETIRED, None)
    assert "There is no agent yet" in read_page(desk.page("/needs-you")).text


def test_rows_are_newest_first_and_counted_in_badge_and_title(desk: Desk, stage: Stage) -> None:
    asked = [stage.question().id, stage.ask().id, stage.question().id]
    html = desk.page("/needs-you")
    assert rows_of(html) == asked[::-1]
    assert title_of(html).startswith("(3) Needs you")
    assert "<span data-badge-count>3</span>" in html


def test_every_page_has_the_count_in_its_title(desk: Desk, stage: Stage) -> None:
    assert not title_of(desk.page("/agents")).startswith("(")
    stage.question()
    assert title_of(desk.page("/agents")).startswith("(1) ")
    assert desk.alice.get("/needs-you/badge").get_data(as_text=True) == "1"


def test_only_what_blocks_badges(desk: Desk, stage: Stage) -> None:
    """I8: an agent that goes on meanwhile asks in the inbox, and does not count; one that waits does."""
    agent = stage.agent()
    stage.question(agent=agent, run=stage.run(agent, state=RunState.LIVE))
    html = desk.page("/needs-you")
    assert len(rows_of(html)) == 1
    assert not title_of(html).startswith("(")
    stage.question(agent=stage.agent("waiting"))
    assert title_of(desk.page("/needs-you")).startswith("(1) ")


def test_a_row_shows_who_what_why_and_until_when(desk: Desk, stage: Stage) -> None:
    stage.ask()
    text = read_page(desk.page("/needs-you")).text
    for part in ("agent-1", "release.cut", "the agent waits", "just now", "left", "workspace", "2 votes missing"):
        assert part in text


def test_nothing_of_an_agent_acts_in_the_list(desk: Desk, filled: Filled) -> None:
    page = assert_harmless(desk.page("/needs-you"))
    assert "<script>alert(1)</script>" in page.text, "the twin: it is shown as text"
    assert not [one for one in page.all("img") if not one["src"].startswith("/static/")]


def test_a_marker_of_an_agent_is_in_no_attribute_that_acts(desk: Desk, stage: Stage) -> None:
    agent = stage.agent(MARKER)
    words = {"text": f"{MARKER} question", "why": f"{MARKER} why", "labels": [f"{MARKER} one", "two"]}
    stage.ask(agent, verb=None, params=None, **words)
    stage.ask(agent, params={MARKER: MARKER}, text=MARKER, why=MARKER)
    page = assert_harmless(desk.page("/needs-you"))
    assert MARKER in page.text
    for tag, attributes in page.elements:
        holding = {name for name, value in attributes.items() if MARKER in value}
        # The slug is of a form of ours, and offered as a value to filter by.
        assert not holding or (tag, holding) == ("option", {"value"}), (tag, holding)


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("", {"question", "release", "capture", "gated", "other"}),
        ("?kind=question", {"question", "other"}),
        ("?kind=gated", {"gated"}),
        ("?verb=release.cut", {"release"}),
        ("?agent=agent-2", {"other"}),
        ("?risk=high", {"gated"}),
        ("?channel=signed", {"gated"}),
        ("?q=needle", {"other"}),
        ("?q=NEEDLE&agent=agent-2&kind=question", {"other"}),
        ("?q=nothing-like-it", set()),
        ("?kind=nonsense&risk=99", {"question", "release", "capture", "gated", "other"}),
        ("?snoozed=1", set()),
    ],
)
def test_filters_in_the_address_narrow_the_list(desk: Desk, stage: Stage, query: str, wanted: set[str]) -> None:
    asked = {
        "question": stage.question().id,
        "release": stage.ask().id,
        "capture": stage.ask(verb="capture.approve", params={"trace_id": "t", "regime": {}}).id,
        "gated": stage.ask(
            verb="payments.transfer",
            params={"amount_minor": 100, "currency": "EUR", "to": "DE89370400440532013000"},
        ).id,
        "other": stage.question(agent=stage.agent("agent-2"), why="the needle").id,
    }
    html = desk.page(f"/needs-you{query}")
    assert set(rows_of(html)) == {asked[name] for name in wanted}
    fragment = desk.alice.get(f"/needs-you/list{query}", headers=HTMX).get_data(as_text=True)
    assert rows_of(fragment) == rows_of(html)
    assert "<html" not in fragment


def test_the_form_shows_the_filters_of_the_address(desk: Desk, stage: Stage) -> None:
    stage.question()
    html = desk.page("/needs-you?kind=question&risk=low&q=%22%3E%3Cb%3E&agent=a&snoozed=1")
    page = assert_harmless(html)
    assert {"id": "q", "name": "q", "value": '"><b>'}.items() <= next(
        x for x in page.all("input") if x.get("id") == "q"
    ).items()
    assert '<option value="question" selected>' in html
    assert '<option value="low" selected>' in html
    assert any(one.get("name") == "snoozed" and "checked" in one for one in page.all("input"))
    assert "Nothing fits this filter" in page.text


def test_choices_survive_the_address() -> None:
    chosen = Chosen(
        q='ä&"=', agent="a-1", verb="release.cut", kind="approval", risk="high", channel="forge", snoozed=True
    )
    again = choose({name: values[0] for name, values in parse_qs(urlsplit(chosen.query()).query).items()})
    assert again == chosen
    assert chosen.count == 6
    assert choose({}).query() == ""


def test_choosing_a_filter_moves_the_address(desk: Desk, stage: Stage) -> None:
    stage.question()
    asked = {**HTMX, "HX-Trigger-Name": "filters"}
    response = desk.alice.get("/needs-you/list?kind=question&agent=", headers=asked)
    assert response.headers["HX-Replace-Url"] == "/needs-you?kind=question"
    assert "HX-Replace-Url" not in desk.alice.get("/needs-you/list?kind=question", headers=HTMX).headers


def test_a_long_inbox_goes_on_by_cursor(desk: Desk, stage: Stage) -> None:
    agent = stage.agent()
    asked = [stage.ask(agent, params={"version": str(number)}).id for number in range(PAGE + 3)]
    html = desk.page("/needs-you?verb=release.cut")
    assert rows_of(html) == asked[:2:-1]
    more = next(one for one in read_page(html).all("a") if one.get("hx-swap") == "outerHTML")
    assert parse_qs(urlsplit(more["href"]).query) == {"verb": ["release.cut"], "before": [asked[3]]}
    assert rows_of(desk.page(more["href"])) == asked[2::-1]
    rest = desk.alice.get(more["hx-get"], headers=HTMX).get_data(as_text=True)
    assert rows_of(rest) == asked[2::-1]
    assert "<ol" not in rest


def test_the_open_ask_is_in_the_address(desk: Desk, stage: Stage) -> None:
    ask = stage.question()
    html = desk.page(f"/needs-you?ask={ask.id}&kind=question")
    assert f'data-card="{ask.id}"' in html
    assert 'aria-current="true"' in html
    assert 'href="/needs-you?kind=question" data-back-link' in html
    assert "data-card" not in desk.page(f"/needs-you?ask={'0' * 26}")
    assert "data-card" not in desk.page("/needs-you?ask=../../etc")


@pytest.mark.parametrize("path", ["/needs-you", "/needs-you/list", "/needs-you/badge"])
def test_nobody_sees_an_inbox_without_signing_in(desk: Desk, path: str) -> None:
    response = desk.stranger.get(path)
    assert response.status_code == 303
    assert response.headers["Location"].startswith("/sign-in?next=")


def test_only_rows_that_a_batch_may_hold_can_be_marked(desk: Desk, stage: Stage) -> None:
    bound, asked = stage.ask().id, stage.question().id
    html = desk.page("/needs-you")
    marked = {
        row.split('data-ask="')[1][:26] for row in html.split("<li ")[1:] if "data-mark" in row and "data-ask" in row
    }
    assert marked == {bound}
    assert asked not in marked


def test_what_an_agent_is_called_is_no_markup(desk: Desk, filled: Filled) -> None:
    assert HOSTILE not in desk.page("/needs-you")
