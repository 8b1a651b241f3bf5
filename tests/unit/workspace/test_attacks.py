"""Tokens used for what they are not for; each refusal has an accepting twin beside it."""

from typing import Any

import pytest

from gitops_bot.core.asks import AskState
from gitops_bot.store import agents, asks, ledger
from gitops_bot.store.states import AgentState, TokenScope
from tests.unit.workspace.conftest import LOOP, REGIME, Workplace, refused


def an_answer(ask: dict[str, Any]) -> dict[str, Any]:
    return {"text": "yes", **ask["binding"]}


def test_lifecycle_15_an_agents_token_never_answers(workplace: Workplace) -> None:
    """lifecycle 15 and 45, I15: the requester's token posts the answer."""
    ask = workplace.ok("POST", "/asks", "shell", {"question": "?"})
    assert refused(workplace.call("POST", f"/asks/{ask['id']}/answer", "shell", an_answer(ask))) == (
        403,
        "self_approval",
    )
    with workplace.host.read() as tx:
        kept = asks.get(tx, ask["id"])
        assert kept is not None
        assert kept.state is AskState.OPEN
        entries = ledger.of_ask(tx, ask["id"])
    assert (entries[-1]["kind"], entries[-1]["reason"]) == ("vote.refused", "self_approval")
    workplace.answer(ask, None, "yes")
    assert workplace.ok("GET", f"/asks/{ask['id']}", "shell")["state"] == "ANSWERED"


def test_a_run_token_never_answers(workplace: Workplace) -> None:
    token = workplace.register()
    told = workplace.ok("POST", "/captures", token, REGIME)
    ask = workplace.ok("GET", f"/asks/{told['approval']}", token)
    answer = {"option": "approve", **ask["binding"]}
    assert refused(workplace.call("POST", f"/asks/{ask['id']}/answer", token, answer)) == (403, "self_approval")
    assert refused(workplace.call("POST", f"/asks/{ask['id']}/answer", "loop", answer)) == (403, "not_authorised")
    assert workplace.ok("GET", f"/captures/{told['handle']}", token)["exact"] == "REQUESTED"


def test_without_a_credential_nobody_answers(workplace: Workplace) -> None:
    """lifecycle 45."""
    ask = workplace.ok("POST", "/asks", "shell", {"question": "?"})
    response = workplace.call("POST", f"/asks/{ask['id']}/answer", None, an_answer(ask))
    assert refused(response) == (401, None)
    assert response.headers["WWW-Authenticate"].startswith("Bearer")


def test_another_agents_ask_is_not_there(workplace: Workplace) -> None:
    ask = workplace.ok("POST", "/asks", "shell", {"question": "?"})
    never = "0" * 26
    for method, path in (("GET", ""), ("POST", "/cancel"), ("POST", "/answer")):
        body = {} if method == "POST" else None
        theirs = workplace.call(method, f"/asks/{ask['id']}{path}", "other", body)
        nothing = workplace.call(method, f"/asks/{never}{path}", "other", body)
        assert refused(theirs) == refused(nothing) == (404, "not_found")
        assert theirs.get_data(as_text=True).replace(ask["id"], never) == nothing.get_data(as_text=True)
    assert workplace.ok("GET", f"/asks/{ask['id']}", "shell")["state"] == "OPEN"


def test_a_run_token_is_for_its_run_alone(workplace: Workplace) -> None:
    one = workplace.register()
    two = workplace.register(id="second")
    ask = workplace.ok("POST", "/asks", one, {"question": "?"})
    assert refused(workplace.call("GET", f"/asks/{ask['id']}", two)) == (404, "not_found")
    assert workplace.ok("GET", "/asks", two)["items"] == []
    assert workplace.ok("GET", f"/asks/{ask['id']}", one)["id"] == ask["id"]


def test_a_run_token_ends_with_its_run(workplace: Workplace) -> None:
    token = workplace.register()
    ask = workplace.ok("POST", "/asks", token, {"question": "?"})
    with workplace.host.write() as tx:
        agents.end_run(tx, ask["run"], "settled")
    for method, path, body in (("GET", f"/asks/{ask['id']}", None), ("POST", "/captures", REGIME)):
        assert refused(workplace.call(method, path, token, body)) == (401, None)


def test_a_restart_ends_the_run_token_before_it(workplace: Workplace) -> None:
    old = workplace.register()
    new = workplace.register()
    assert refused(workplace.call("GET", "/asks", old)) == (401, None)
    workplace.ok("GET", "/asks", new)


def test_a_retired_agents_token_stands_for_nobody(workplace: Workplace) -> None:
    workplace.ok("GET", "/asks", "shell")
    with workplace.host.write() as tx:
        agents.set_state(tx, workplace.agents["shell"].id, AgentState.RETIRED)
    assert refused(workplace.call("GET", "/asks", "shell")) == (401, None)


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Bearer",
        "Bearer ",
        "Basic dXNlcjpwdw==",
        "Bearer  x",
        "Bearer x y",
        "Bearer \u00e9",
        "Token x",
        "Bearer " + "x" * 600,
    ],
)
def test_a_header_that_is_no_bearer_stands_for_nobody(workplace: Workplace, header: str) -> None:
    response = workplace.client.get("/api/v1/asks", headers={"Authorization": header})
    assert refused(response) == (401, None)
    token = workplace.tokens["shell"]
    for scheme in ("Bearer", "bearer"):
        assert workplace.client.get("/api/v1/asks", headers={"Authorization": f"{scheme} {token}"}).status_code == 200


def test_a_token_in_the_query_is_no_token(workplace: Workplace) -> None:
    """Query strings end in logs and histories."""
    assert refused(workplace.client.get(f"/api/v1/asks?access_token={workplace.tokens['shell']}")) == (401, None)


def test_a_loop_token_registers_loops_and_nothing_else(workplace: Workplace) -> None:
    for method, path, body in (
        ("POST", "/asks", {"question": "?"}),
        ("GET", "/asks", None),
        ("POST", "/captures", REGIME),
        ("GET", "/captures", None),
    ):
        assert refused(workplace.call(method, path, "loop", body)) == (403, "not_authorised")
    for token in ("shell", workplace.register()):
        assert refused(workplace.call("POST", "/loops", token, LOOP)) == (403, "not_authorised")
    assert workplace.ok("POST", "/loops", "loop", LOOP)["run_version"] == 2


def test_a_loop_of_another_agent_is_not_taken_over(workplace: Workplace) -> None:
    token = workplace.register()
    stolen = workplace.call("POST", "/loops", "loop2", {**LOOP, "address": "127.0.0.1:1"})
    assert refused(stolen) == (403, "not_authorised")
    workplace.ok("GET", "/asks", token)


def test_a_resume_keeps_the_version_and_a_start_raises_it(workplace: Workplace) -> None:
    first = workplace.ok("POST", "/loops", "loop", LOOP)
    resumed = workplace.ok("POST", "/loops", "loop", {**LOOP, "resume": True})
    started = workplace.ok("POST", "/loops", "loop", LOOP)
    assert first["run"] == resumed["run"] == started["run"]
    assert [one["run_version"] for one in (first, resumed, started)] == [1, 1, 2]


@pytest.mark.parametrize(
    "change",
    [
        {"id": "../x"},
        {"id": "X"},
        {"address": "nowhere"},
        {"address": "http://x:1"},
        {"address": "h:1\r\nx"},
        {"broker_token": "short"},
        {"broker_token": "a b" * 10},
        {"resume": 1},
        {"scope": "agent"},
    ],
    ids=str,
)
def test_a_registration_of_a_wrong_form_is_refused(workplace: Workplace, change: dict[str, Any]) -> None:
    assert refused(workplace.call("POST", "/loops", "loop", {**LOOP, **change})) == (422, "bad_params")


def test_tokens_are_kept_as_hashes_and_shown_once(workplace: Workplace) -> None:
    token = workplace.register()
    for path in ("/asks", "/captures"):
        assert token not in workplace.call("GET", path, token).get_data(as_text=True)
    with workplace.host.write() as tx:
        other = agents.issue_token(tx, workplace.agents["shell"].id, TokenScope.AGENT)
    assert workplace.ok("GET", "/asks", other)["items"] == []


def test_no_get_decides_anything(workplace: Workplace) -> None:
    """lifecycle 17: a link that a scanner opens decides nothing."""
    ask = workplace.ok("POST", "/asks", "shell", {"question": "?"})
    for path in (f"/asks/{ask['id']}/cancel", f"/asks/{ask['id']}/answer"):
        assert refused(workplace.call("GET", path, "shell"))[0] == 405
    assert workplace.ok("GET", f"/asks/{ask['id']}", "shell")["state"] == "OPEN"
