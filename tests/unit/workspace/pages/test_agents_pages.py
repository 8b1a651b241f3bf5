"""Agents by the two groups of their status, and threads: what is written there is a message and answers nothing."""

from gitops_bot.core.asks import AskState
from gitops_bot.core.status import AgentStatus
from gitops_bot.store import asks
from tests.unit.workspace.pages.conftest import Desk
from tests.unit.workspace.pages.rows import Filled
from workspace.pages.meanings import STATUSES


def test_only_those_who_need_a_person_stand_in_the_first_group(desk: Desk, filled: Filled) -> None:
    first, _, second = desk.page("/agents").partition("Nothing is wrong")
    assert 'href="/agents/tuner"' in first
    assert 'href="/agents/idle-one"' not in first
    assert 'href="/agents/idle-one"' in second


def test_every_status_has_its_words() -> None:
    assert set(STATUSES) == set(AgentStatus)


def test_a_message_into_a_thread_with_an_open_question_answers_nothing(desk: Desk, filled: Filled) -> None:
    """Lifecycle 10: free text typed into a thread that has an open options ask is a message, never an answer."""
    sent = desk.alice.call("POST", "/agents/tuner/messages", {"text": "yes, do it"})
    assert sent.status_code < 300, sent.get_data(as_text=True)
    page = desk.page("/agents/tuner")
    assert "yes, do it" in page
    assert "alice wrote" in page
    with desk.broker.read() as tx:
        ask = asks.get(tx, filled.question)
        assert ask is not None
        assert ask.state is AskState.OPEN


def test_who_wrote_what_is_told_apart(desk: Desk, filled: Filled) -> None:
    page = desk.page("/agents/tuner")
    assert "bob wrote" in page
    assert "tuner (agent) wrote" in page
    assert "gitops-bot wrote" in page
    assert f'href="/asks/{filled.approval}"' in page


def test_a_thread_goes_back_by_a_cursor_and_ignores_what_is_none(desk: Desk, filled: Filled) -> None:
    assert "To the newest" in desk.page("/agents/tuner?before=1")
    for wrong in ("x", "1.%3Cscript%3E", "9" * 40, "-1", "%00"):
        assert "bob wrote" in desk.page(f"/agents/tuner?before={wrong}")


def test_an_agent_that_is_not_there_is_said_not_to_be(desk: Desk, filled: Filled) -> None:
    for slug in ("nobody", "Tuner", "a" * 100, "..%2f..", "%00", "'--"):
        response = desk.open(f"/agents/{slug}")
        assert response.status_code == 404, slug
        assert "There is no such page" in response.get_data(as_text=True), slug


def test_what_may_be_done_follows_the_state(desk: Desk, filled: Filled) -> None:
    assert "/api/v1/agents/idle-one/pause" in desk.page("/agents/idle-one")
    assert desk.alice.confirmed("POST", "/agents/idle-one/pause", {"reason": "enough"}).status_code == 200
    page = desk.page("/agents/idle-one")
    assert "/api/v1/agents/idle-one/resume" in page
    assert "/api/v1/agents/idle-one/pause" not in page
    assert "enough" in page
    assert desk.alice.confirmed("POST", "/agents/idle-one/retire").status_code == 200
    page = desk.page("/agents/idle-one")
    assert "/api/v1/agents/idle-one/" not in page
    assert "its tokens stand for nobody" in page


def test_only_services_of_ones_own_can_be_chosen_for_a_new_agent(desk: Desk) -> None:
    assert '<option value="agent">' in desk.page("/agents")
    assert '<option value="bot">' not in desk.page("/agents")
    bob = desk.workplace.person("bob")
    page = bob.get("/agents").get_data(as_text=True)
    assert '<option value="agent">' not in page
    assert "names no service that is yours" in page
