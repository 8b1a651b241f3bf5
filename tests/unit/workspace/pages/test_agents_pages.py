"""Agents by the two groups of their status, and threads: what is written there is a message and answers nothing."""

import re

import pytest

from gitops_bot.core.asks import AskState
from gitops_bot.core.status import AgentStatus
from gitops_bot.fleet.grammar import Outcome
from gitops_bot.fleet.machine import WakeReason
from gitops_bot.ports import BodyStop
from gitops_bot.store import asks
from tests.fleet_stage import FleetStage
from tests.unit.workspace.pages.conftest import Desk
from tests.unit.workspace.pages.reading import acting, read
from tests.unit.workspace.pages.rows import HOSTILE, Filled
from workspace.pages.meanings import OUTCOMES, REASONS, STATUSES, STOPS


@pytest.fixture
def staged(desk: Desk) -> FleetStage:
    """A fleet in the rows of the desk, moved as its broker moves it."""
    return FleetStage(desk.broker, desk.workplace.services.rules)


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


def test_an_agent_of_the_fleet_is_shown_with_its_turns_and_what_it_waits_for(desk: Desk, staged: FleetStage) -> None:
    agent = staged.member("linter")
    assert "none yet" in desk.page("/agents/linter")
    staged.run_turn(agent, "All is well.\nOUTCOME: WORK_DONE\n")
    page = desk.page("/agents/linter")
    for words in ("command:test", "work done", "somebody woke it", "when something wakes it", "/agents/linter/wake"):
        assert words in page, words
    assert "last turn: work done" in desk.page("/agents")
    staged.wake(agent)
    assert "next turn: somebody woke it" in desk.page("/agents")


def test_a_turn_is_read_with_its_capsule_and_text_and_neither_acts(desk: Desk, staged: FleetStage) -> None:
    """Hostile words in purpose, message, text and report come through as words; what an agent wrote is marked so."""
    agent = staged.member("linter")
    staged.message(agent, HOSTILE)
    opened = staged.dispatch(agent, now=False)
    staged.say(opened, f"{HOSTILE} \u202e and more\n")
    path = f"/agents/linter/turns/{opened.dispatch.run}/1"
    page = desk.page(path)
    assert acting(read(page)) == []
    assert HOSTILE not in page
    assert 'aria-label="Text of the agent linter"' in page
    assert "⟨U+202E⟩" in page
    staged.settle(opened, f"REPORT: {HOSTILE}\n{HOSTILE}\n")
    page = desk.page(path)
    assert acting(read(page)) == []
    assert "linter (agent) wrote" in page
    assert path in desk.page("/agents/linter/turns")
    for wrong in (f"/agents/linter/turns/{opened.dispatch.run}/2", "/agents/linter/turns/x/1", "/agents/nobody/turns"):
        assert desk.open(wrong).status_code == 404, wrong
    assert "Nothing earlier" in desk.page("/agents/linter/turns?before=1")
    for wrong in ("x", "9" * 30, "-1", "%00"):
        assert path in desk.page(f"/agents/linter/turns?before={wrong}")


def test_i8_a_notice_of_an_agent_stands_above_the_list_and_counts_in_no_badge(desk: Desk, staged: FleetStage) -> None:
    agent = staged.member("linter")
    staged.run_turn(agent, f"NOTIFY: {HOSTILE}\n")
    page = desk.page("/needs-you")
    assert "Told to you" in page
    assert "@linter: " in page
    assert acting(read(page)) == []
    assert desk.open("/needs-you/badge").get_data() == b""
    newest = int(re.findall(r'name="upto" data-type="integer" value="(\d+)"', page)[0])
    assert desk.alice.call("POST", "/auth/notices/read", {"upto": newest}).status_code == 200
    assert "Told to you" not in desk.page("/needs-you")


def test_more_notices_than_are_shown_are_not_marked_as_read_unseen(desk: Desk, staged: FleetStage) -> None:
    agent = staged.member("linter")
    staged.run_turn(agent, "".join(f"NOTIFY: notice {number}\n" for number in range(7)))
    page = desk.page("/needs-you")
    assert "All that is new" in page
    assert 'name="upto"' not in page


def test_every_outcome_stop_and_reason_has_its_words() -> None:
    assert set(OUTCOMES) == set(Outcome)
    assert set(STOPS) == {stop.value for stop in BodyStop}
    assert set(REASONS) == {reason.value for reason in WakeReason}
