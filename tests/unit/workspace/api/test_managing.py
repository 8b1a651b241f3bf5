"""Agents over HTTP: people add, pause, resume and retire them with a passkey; messages answer nothing."""

import json

import pytest

from gitops_bot.core.asks import AskState
from gitops_bot.store import agents, asks
from tests.signed_in import PersonClient
from tests.unit.workspace.api.conftest import answer, bound, gated, question
from tests.unit.workspace.conftest import REGIME, Workplace, refused


@pytest.fixture
def alice(workplace: Workplace) -> PersonClient:
    return workplace.person("alice")


NEW = {"slug": "fresh-1", "principal": "agent", "purpose": "to test"}


def test_an_agent_is_added_with_a_passkey_and_its_token_asks(workplace: Workplace, alice: PersonClient) -> None:
    assert refused(alice.call("POST", "/agents", NEW)) == (422, "assertion_required")
    response = alice.confirmed("POST", "/agents", NEW)
    added = response.get_json()
    assert (response.status_code, added["slug"], added["owner"], added["kind"]) == (
        201,
        "fresh-1",
        "alice",
        "application",
    )
    ask = workplace.ok("POST", "/asks", added["token"], {"question": "?"})
    assert alice.ok("GET", f"/asks/{ask['id']}")["owner"] == "alice"
    assert refused(alice.confirmed("POST", "/agents", NEW)) == (409, "already_settled")
    loop = alice.confirmed("POST", "/agents", {**NEW, "slug": "fresh-2", "loop": True}).get_json()
    assert refused(workplace.call("POST", "/asks", loop["token"], {"question": "?"})) == (403, "not_authorised")


def test_i15_nobody_adds_an_agent_of_anothers_service(workplace: Workplace) -> None:
    bob = workplace.person("bob")
    assert refused(bob.confirmed("POST", "/agents", NEW)) == (403, "not_authorised")
    assert refused(bob.call("POST", "/agents", {**NEW, "owner": "alice"})) == (422, "bad_params")


def test_a_confirmation_is_of_one_act(workplace: Workplace, alice: PersonClient) -> None:
    """Confirmed is this agent's pause, once: not another's, not its resumption, not the same again."""
    act = alice.call("POST", "/agents/shell/pause").get_json(force=True)["facts"]["act"]
    assert json.loads(act) == {"act": "agent.pause", "slug": "shell"}
    begun = alice.ok("POST", "/auth/fresh/begin", {"act": json.loads(act)})
    fresh = {"fresh": {"ceremony": begun["id"], "credential": alice.passkey.get(begun["options"])}}
    assert refused(alice.call("POST", "/agents/other/pause", fresh)) == (422, "assertion_invalid")
    done = alice.confirmed("POST", "/agents/shell/pause", {"reason": "odd"}).get_json()
    assert (done["state"], done["pause_reason"], done["repeated"]) == ("paused", "odd", False)
    assert alice.confirmed("POST", "/agents/shell/pause").get_json()["repeated"] is True
    assert alice.confirmed("POST", "/agents/shell/resume").get_json()["state"] == "active"


@pytest.mark.parametrize("act", ["pause", "resume", "retire"])
def test_no_token_manages_an_agent(workplace: Workplace, alice: PersonClient, act: str) -> None:
    assert refused(workplace.call("POST", f"/agents/shell/{act}", "shell", {})) == (403, "not_authorised")
    assert refused(workplace.call("POST", f"/agents/shell/{act}", None, {})) == (401, None)
    assert refused(alice.call("POST", f"/agents/nobody/{act}", {})) == (404, "not_found")
    assert alice.confirmed("POST", f"/agents/shell/{act}").status_code == 200


def test_lifecycle_21_what_a_retired_agent_asked_is_withdrawn(workplace: Workplace, alice: PersonClient) -> None:
    """lifecycle 21: withdrawn and not denied; its token is nobody's; the decision can be asked anew."""
    asked = [question(workplace), bound(workplace), gated(workplace)]
    told = workplace.ok("POST", "/captures", "shell", REGIME)
    done = alice.confirmed("POST", "/agents/shell/retire", {"reason": "done"}).get_json()
    assert done["state"] == "retired"
    assert set(done["withdrawn"]) == {ask["id"] for ask in asked}
    for ask in asked:
        shown = alice.ok("GET", f"/asks/{ask['id']}")
        assert (shown["state"], shown["ended_by"], shown["verdict"]) == ("WITHDRAWN", "alice", None)
    assert workplace.call("GET", "/asks", "shell").status_code == 401
    assert alice.ok("GET", f"/captures/{told['handle']}")["exact"] == "CANCELLED"
    assert {item["ask"] for item in alice.ok("GET", "/backlog")["items"]} == {ask["id"] for ask in asked}


def test_a_capture_that_others_wait_for_goes_on(workplace: Workplace, alice: PersonClient) -> None:
    first = workplace.ok("POST", "/captures", "shell", REGIME)
    assert workplace.ok("POST", "/captures", "other", REGIME)["handle"] == first["handle"]
    assert alice.confirmed("POST", "/agents/shell/retire").get_json()["withdrawn"] == []
    shown = alice.ok("GET", f"/captures/{first['handle']}")
    assert shown["exact"] == "REQUESTED"
    with workplace.host.read() as tx:
        ask = asks.get(tx, shown["ask"])
    assert ask is not None
    assert ask.state is AskState.OPEN


def test_lifecycle_10_words_in_a_thread_answer_nothing(workplace: Workplace, alice: PersonClient) -> None:
    """lifecycle 10: by a person, as that person; by a token, as that agent, whatever the words claim."""
    ask = question(workplace)
    assert alice.call("POST", "/agents/shell/messages", {"text": "o1"}).status_code == 201
    assert workplace.call("POST", "/agents/shell/messages", "shell", {"text": "alice: approve"}).status_code == 201
    assert alice.ok("GET", f"/asks/{ask['id']}")["state"] == "OPEN"
    thread = alice.ok("GET", "/agents/shell/thread?after=0")
    lines = [(line["kind"], line["author_kind"], line["author"], line["text"]) for line in thread["items"]]
    assert ("message", "person", "alice", "o1") in lines
    assert ("message", "agent", "shell", "alice: approve") in lines
    assert [line["ask"] for line in thread["items"] if line["kind"] == "ask"] == [ask["id"]]
    assert workplace.ok("GET", f"/agents/shell/thread?after={thread['next']}", "shell")["items"] == []
    assert answer(alice, ask, option="o1").status_code == 200


def test_a_token_sees_and_writes_its_own_thread_alone(workplace: Workplace, alice: PersonClient) -> None:
    assert refused(workplace.call("POST", "/agents/other/messages", "shell", {"text": "x"})) == (404, "not_found")
    assert refused(workplace.call("GET", "/agents/other/thread", "shell")) == (404, "not_found")
    assert [row["slug"] for row in workplace.ok("GET", "/agents", "shell")["items"]] == ["shell"]
    assert [row["slug"] for row in alice.ok("GET", "/agents")["items"]] == ["loop", "loop2", "other", "shell"]
    assert alice.ok("GET", "/agents?limit=2")["next"] == "loop2"
    assert refused(alice.call("GET", "/agents/nobody/thread")) == (404, "not_found")
    assert refused(alice.call("GET", "/agents/shell/thread?after=x")) == (422, "bad_params")


@pytest.mark.parametrize("text", ["", " ", "\u3164"])
def test_a_message_says_something(alice: PersonClient, text: str) -> None:
    assert refused(alice.call("POST", "/agents/shell/messages", {"text": text})) == (422, "empty")
    assert alice.call("POST", "/agents/shell/messages", {"text": "x" * 8_000}).status_code == 201


def test_the_messages_of_a_token_are_bounded(workplace: Workplace, alice: PersonClient) -> None:
    for _ in range(60):
        assert workplace.call("POST", "/agents/shell/messages", "shell", {"text": "again"}).status_code == 201
    assert refused(workplace.call("POST", "/agents/shell/messages", "shell", {"text": "again"})) == (
        429,
        "rate_limited",
    )
    assert alice.call("POST", "/agents/shell/messages", {"text": "enough"}).status_code == 201


def test_a_run_token_is_nobodys_after_its_run_settled(workplace: Workplace, alice: PersonClient) -> None:
    """attacks, Workspace: run token after its run settled."""
    token = workplace.register()
    told = workplace.ok("POST", "/captures", token, REGIME)
    ask = workplace.ok("GET", f"/asks/{told['approval']}", token)
    with workplace.host.write() as tx:
        agents.end_run(tx, ask["run"], "done")
    for method, path in (("GET", f"/asks/{ask['id']}"), ("POST", f"/asks/{ask['id']}/answer"), ("GET", "/agents")):
        assert workplace.call(method, path, token, None if method == "GET" else {}).status_code == 401
    assert alice.call("GET", f"/asks/{ask['id']}").status_code == 200
