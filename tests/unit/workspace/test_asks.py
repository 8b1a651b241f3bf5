"""Agents open, see, wait for and withdraw their own asks over HTTP; what is wrong is refused with its reason."""

import threading
import time

import pytest

from gitops_bot.store import agents, ledger, waiters
from gitops_bot.store.roles import Role
from gitops_bot.store.states import RunState
from tests.store_fixtures import FreshDatabase
from tests.unit.workspace.conftest import Workplace, refused


def test_a_question_opens_with_what_an_answer_must_echo(workplace: Workplace) -> None:
    body = {"question": "Which?", "options": ["a", "b"], "why": "w", "candidates": ["alice"], "expires_in": "2h"}
    response = workplace.call("POST", "/asks", "shell", body)
    ask = response.get_json()
    assert (response.status_code, ask["repeated"], ask["state"], ask["kind"]) == (201, False, "OPEN", "question")
    assert [option["id"] for option in ask["options"]] == ["o1", "o2"]
    assert ask["binding"]["policy"] == workplace.services.rules.policy.digest
    assert ask["binding"]["run_version"] == 1
    assert ask["quorum"]["may_still"] == ["alice"]
    assert ask["expires_at"] - ask["opened_at"] == 7_200_000
    assert workplace.ok("GET", f"/asks/{ask['id']}", "shell")["binding"] == ask["binding"]


def test_i7_a_question_has_a_request_that_waits_for_it(workplace: Workplace) -> None:
    """I7: no ask without a way back. A shell's ask is a run of its own, which the answer makes due."""
    ask = workplace.ok("POST", "/asks", "shell", {"question": "?"})
    with workplace.host.read() as tx:
        run = agents.run(tx, ask["run"])
        assert run is not None
        assert (run.kind, run.version) == ("request", 1)
        assert [waiter for _, waiter in waiters.of_ask(tx, ask["id"])] == [run.id]
    workplace.woken.clear()
    workplace.answer(ask, None, "yes")
    with workplace.host.read() as tx:
        assert waiters.cause(tx, ask["id"], waiters.WaiterKind.REQUEST, ask["run"]) == "ANSWERED"


def test_a_loops_question_is_asked_by_its_run(workplace: Workplace) -> None:
    token = workplace.register()
    ask = workplace.ok("POST", "/asks", token, {"question": "?"})
    with workplace.host.read() as tx:
        run = agents.run(tx, ask["run"])
    assert run is not None
    assert run.kind == "loop"


def test_one_key_is_one_ask_and_no_other(workplace: Workplace) -> None:
    first = workplace.ok("POST", "/asks", "shell", {"question": "?", "idempotency_key": "k"})
    again = workplace.call("POST", "/asks", "shell", {"question": "?", "idempotency_key": "k", "why": "other words"})
    assert (again.status_code, again.get_json()["id"], again.get_json()["repeated"]) == (200, first["id"], True)
    assert again.get_json()["run"] == first["run"]
    conflict = workplace.call("POST", "/asks", "shell", {"question": "!", "idempotency_key": "k"})
    assert refused(conflict) == (409, "idempotency_conflict")


def test_another_agents_key_is_another_key(workplace: Workplace) -> None:
    """attacks, Workspace: another agent's idempotency key neither finds nor disturbs their ask."""
    first = workplace.ok("POST", "/asks", "shell", {"question": "?", "idempotency_key": "k"})
    second = workplace.ok("POST", "/asks", "other", {"question": "!", "idempotency_key": "k"})
    assert second["id"] != first["id"]
    assert not second["repeated"]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"question": " "}, (422, "empty")),
        ({"question": "\u3164\u200b"}, (422, "empty")),
        ({"question": "?", "options": ["one"]}, (422, "bad_params")),
        ({"question": "?", "options": ["a", "a"]}, (422, "bad_params")),
        ({"question": "?", "candidates": ["nobody"]}, (422, "bad_params")),
        ({"question": "?", "candidates": ["agent"]}, (422, "bad_params")),
        ({"question": "?", "text": "x"}, (422, "bad_params")),
        ({}, (422, "bad_params")),
    ],
)
def test_what_is_asked_wrongly_is_refused(workplace: Workplace, body: object, expected: tuple[int, str]) -> None:
    assert refused(workplace.call("POST", "/asks", "shell", body)) == expected


def test_a_refused_ask_is_in_the_ledger_and_leaves_no_live_run(
    workplace: Workplace, sqlite_database: FreshDatabase
) -> None:
    """I19: each refusal has its reason in the ledger."""
    workplace.call("POST", "/asks", "shell", {"question": " "})
    with sqlite_database.open(Role.BROKER).write() as tx:
        ledger.seal_next(tx, 100)
        (entry,) = ledger.sealed(tx, 0, 100)
        run = agents.run(tx, entry.document["run"])
    assert (entry.document["kind"], entry.document["reason"]) == ("ask.refused", "empty")
    assert run is not None
    assert run.state is RunState.ENDED


def test_floods_end_at_the_limit(workplace: Workplace) -> None:
    for number in range(workplace.services.rules.limits.max_open_questions):
        workplace.ok("POST", "/asks", "shell", {"question": f"{number}?"})
    assert refused(workplace.call("POST", "/asks", "shell", {"question": "one more"})) == (429, "too_many_open")
    workplace.ok("POST", "/asks", "other", {"question": "others may"})


def test_the_requester_withdraws_and_that_approves_nothing(workplace: Workplace) -> None:
    ask = workplace.ok("POST", "/asks", "shell", {"question": "?"})
    ended = workplace.ok("POST", f"/asks/{ask['id']}/cancel", "shell", {"reason": "solved"})
    assert (ended["state"], ended["end_reason"], ended["verdict"]) == ("WITHDRAWN", "solved", None)
    again = workplace.ok("POST", f"/asks/{ask['id']}/cancel", "shell")
    assert again["ended_at"] == ended["ended_at"]


def test_a_late_withdrawal_is_told_how_it_ended(workplace: Workplace) -> None:
    ask = workplace.ok("POST", "/asks", "shell", {"question": "?"})
    workplace.answer(ask, None, "because")
    assert refused(workplace.call("POST", f"/asks/{ask['id']}/cancel", "shell")) == (409, "already_settled")
    shown = workplace.ok("GET", f"/asks/{ask['id']}", "shell")
    assert (shown["verdict"]["text"], shown["verdict"]["by"], shown["votes"][0]["channel"]) == (
        "because",
        ["alice"],
        "workspace",
    )


def test_lists_are_paged_by_a_cursor_and_show_ones_own(workplace: Workplace) -> None:
    mine = [workplace.ok("POST", "/asks", "shell", {"question": f"{n}?"})["id"] for n in range(5)]
    workplace.ok("POST", "/asks", "other", {"question": "theirs"})
    workplace.ok("POST", f"/asks/{mine[0]}/cancel", "shell")
    seen: list[str] = []
    after = ""
    while True:
        page = workplace.ok("GET", f"/asks?limit=2&after={after}", "shell")
        seen += [ask["id"] for ask in page["items"]]
        if page["next"] is None:
            break
        after = page["next"]
    assert sorted(seen) == sorted(mine)
    still = workplace.ok("GET", "/asks?open=1", "shell")["items"]
    assert {ask["id"] for ask in still} == set(mine[1:])


@pytest.mark.parametrize("query", ["limit=0", "limit=201", "limit=x", "after=1", "open=2", "x=1", "limit=1&limit=2"])
def test_a_query_that_is_none_is_refused(workplace: Workplace, query: str) -> None:
    assert refused(workplace.call("GET", f"/asks?{query}", "shell")) == (422, "bad_params")
    workplace.ok("GET", "/asks?limit=200", "shell")


def test_a_long_poll_answers_when_somebody_did(workplace: Workplace) -> None:
    ask = workplace.ok("POST", "/asks", "shell", {"question": "?"})
    later = threading.Timer(0.2, lambda: workplace.answer(ask, None, "now"))
    later.start()
    began = time.monotonic()
    shown = workplace.ok("GET", f"/asks/{ask['id']}?wait=30", "shell")
    later.join()
    assert shown["state"] == "ANSWERED"
    assert time.monotonic() - began < 25


def test_a_long_poll_ends_with_its_time_and_needs_none_for_what_ended(workplace: Workplace) -> None:
    ask = workplace.ok("POST", "/asks", "shell", {"question": "?"})
    assert workplace.ok("GET", f"/asks/{ask['id']}?wait=1", "shell")["state"] == "OPEN"
    workplace.ok("POST", f"/asks/{ask['id']}/cancel", "shell")
    began = time.monotonic()
    assert workplace.ok("GET", f"/asks/{ask['id']}?wait=30", "shell")["state"] == "WITHDRAWN"
    assert time.monotonic() - began < 25


def test_a_token_revoked_during_a_long_poll_learns_nothing(workplace: Workplace) -> None:
    token = workplace.register()
    ask = workplace.ok("POST", "/asks", token, {"question": "?"})

    def revoke() -> None:
        with workplace.host.write() as tx:
            agents.revoke_run_tokens(tx, ask["run"])

    later = threading.Timer(0.1, revoke)
    later.start()
    response = workplace.call("GET", f"/asks/{ask['id']}?wait=1", token)
    later.join()
    assert response.status_code == 401
