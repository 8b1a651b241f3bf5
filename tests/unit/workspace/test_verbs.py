"""An agent asks for an action over HTTP: the ask that the policy demands opens, closed parameters are held against it,
and a gated ask says that only signed commits answer it, and where."""

import dataclasses

import pytest

from gitops_bot.bootstrap.workspace import Services
from gitops_bot.core.canonical import action_bytes
from gitops_bot.store import agents, asks, ledger, waiters
from gitops_bot.store.roles import Role
from gitops_bot.store.states import RunState
from tests.store_fixtures import FreshDatabase
from tests.unit.workspace.conftest import REGIME, Workplace, refused
from workspace import create_app
from workspace.waiting import Waiting

PARAMS = {"amount_minor": 125_000, "currency": "EUR", "to": "DE89370400440532013000"}
PATH = "/verbs/payments.transfer/requests"


def test_a_gated_action_opens_with_its_sentence_and_says_who_answers_it_and_where(workplace: Workplace) -> None:
    response = workplace.call("POST", PATH, "shell", {"params": PARAMS, "why": "w", "expires_in": "2h"})
    ask = response.get_json()
    assert (response.status_code, ask["repeated"], ask["kind"], ask["state"]) == (201, False, "gated", "OPEN")
    assert ask["summary"] == "Transfer 1,250.00 EUR to DE89370400440532013000"
    assert ask["action"]["params"] == PARAMS
    assert ask["expires_at"] - ask["opened_at"] == 7_200_000
    assert (ask["quorum"]["missing"], ask["quorum"]["may_still"]) == (2, ["bob", "carol", "dave"])
    assert ask["signed"]["branch"] == "gated/production/approvals/PERSON"
    assert ask["signed"]["command"] == f"gitops-bot approval sign {ask['id']}"
    assert ask["signed"]["repository"] is None
    shown = workplace.ok("GET", f"/asks/{ask['id']}", "shell")
    assert (shown["summary"], shown["signed"]) == (ask["summary"], ask["signed"])


def test_where_there_is_a_repository_of_approvals_it_is_named(workplace: Workplace) -> None:
    services: Services = dataclasses.replace(workplace.services, approvals="https://forge.example/approvals.git")
    app = create_app(services, Waiting(most=2, look=0.01))
    headers = {"Authorization": f"Bearer {workplace.tokens['shell']}"}
    said = app.test_client().post(f"/api/v1{PATH}", headers=headers, json={"params": PARAMS}).get_json()
    assert said["signed"]["repository"] == "https://forge.example/approvals.git"


def test_a_question_says_nothing_of_signing(workplace: Workplace) -> None:
    ask = workplace.ok("POST", "/asks", "shell", {"question": "?"})
    assert (ask["signed"], ask["summary"]) == (None, None)


def test_the_same_action_is_one_ask_of_one_run(workplace: Workplace) -> None:
    """However often it is sent, with a key or without; another key with other parameters is a conflict."""
    first = workplace.ok("POST", PATH, "shell", {"params": PARAMS, "idempotency_key": "k"})
    again = workplace.call("POST", PATH, "shell", {"params": PARAMS, "idempotency_key": "k"})
    plain = workplace.call("POST", PATH, "shell", {"params": dict(reversed(PARAMS.items()))})
    assert [one.status_code for one in (again, plain)] == [200, 200]
    assert {one.get_json()["id"] for one in (again, plain)} == {first["id"]}
    with workplace.host.read() as tx:
        assert [waiter for _, waiter in waiters.of_ask(tx, first["id"])] == [first["run"]]
    changed = {"params": {**PARAMS, "amount_minor": 1}, "idempotency_key": "k"}
    assert refused(workplace.call("POST", PATH, "shell", changed)) == (409, "idempotency_conflict")
    other = workplace.ok("POST", PATH, "other", {"params": PARAMS, "idempotency_key": "k"})
    assert other["id"] != first["id"]


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"amount_minor": 0}, "amount_minor must be at least 1 and at most 10000000"),
        ({"amount_minor": "125000"}, "amount_minor must be an integer"),
        ({"amount_minor": True}, "amount_minor must be an integer"),
        ({"currency": "CHF"}, "currency must be one of EUR, USD"),
        ({"to": "de89"}, "to must match [A-Z0-9]{15,34}"),
        ({"memo": "x"}, "The parameter memo is not in the verb's schema"),
        ({"amount_minor": 1 << 60}, "integer"),
        ({"amount_minor": 1.5}, "float"),
    ],
)
def test_a_parameter_that_does_not_fit_is_named(workplace: Workplace, changed: dict[str, object], named: str) -> None:
    response = workplace.call("POST", PATH, "shell", {"params": {**PARAMS, **changed}})
    assert refused(response) == (422, "bad_params")
    document = response.get_json(force=True)
    assert named in document["detail"]
    assert document["facts"].get("param", next(iter(changed))) == next(iter(changed))


def test_a_missing_parameter_is_named(workplace: Workplace) -> None:
    response = workplace.call("POST", PATH, "shell", {"params": {"currency": "EUR", "to": PARAMS["to"]}})
    assert refused(response) == (422, "bad_params")
    assert "The parameter amount_minor is missing." in response.get_json(force=True)["detail"]


@pytest.mark.parametrize(
    ("verb", "body", "expected"),
    [
        ("payments.transfre", {"params": PARAMS}, (422, "unknown_verb")),
        ("payments.transfer", {}, (422, "bad_params")),
        ("payments.transfer", {"params": []}, (422, "bad_params")),
        ("payments.transfer", {"params": PARAMS, "text": "x"}, (422, "bad_params")),
        ("policy.adopt", {"params": {"digest": "d", "version": 4, "previous": "p"}}, (403, "wrong_channel")),
        ("capture.approve", {"params": REGIME | {"long_frac": "0.0000"}}, (403, "wrong_channel")),
    ],
)
def test_what_is_asked_wrongly_is_refused(
    workplace: Workplace, verb: str, body: object, expected: tuple[int, str]
) -> None:
    assert refused(workplace.call("POST", f"/verbs/{verb}/requests", "shell", body)) == expected
    workplace.ok("POST", PATH, "shell", {"params": PARAMS})


def test_a_refusal_is_in_the_ledger_and_leaves_no_live_run(
    workplace: Workplace, sqlite_database: FreshDatabase
) -> None:
    """I19: each refusal has its reason in the ledger, what is asked for elsewhere too."""
    workplace.call("POST", PATH, "shell", {"params": {}})
    workplace.call("POST", "/verbs/policy.adopt/requests", "shell", {"params": {}})
    with sqlite_database.open(Role.BROKER).write() as tx:
        ledger.seal_next(tx, 100)
        entries = [one.document for one in ledger.sealed(tx, 0, 100)]
        states = [agents.run(tx, str(entry["run"])) for entry in entries]
    assert [(entry["kind"], entry["reason"]) for entry in entries] == [
        ("ask.refused", "bad_params"),
        ("ask.refused", "wrong_channel"),
    ]
    assert [run.state for run in states if run is not None] == [RunState.ENDED, RunState.ENDED]


def test_nobody_but_an_agent_asks(workplace: Workplace) -> None:
    assert refused(workplace.call("POST", PATH, "loop", {"params": PARAMS}))[0] == 403
    assert workplace.call("POST", PATH, None, {"params": PARAMS}).status_code == 401
    assert workplace.call("POST", PATH, "nobody", {"params": PARAMS}).status_code == 401


def test_the_bytes_that_are_bound_are_those_of_the_parameters(workplace: Workplace) -> None:
    """I4: whatever order and spacing they were sent in."""
    ask = workplace.ok("POST", PATH, "shell", {"params": dict(reversed(PARAMS.items()))})
    rules = workplace.services.rules
    with workplace.host.read() as tx:
        stored = asks.get(tx, ask["id"])
    assert stored is not None
    assert stored.action == action_bytes(rules.repository, rules.environment, "payments.transfer", PARAMS)


@pytest.mark.parametrize("option", ["approve", "deny"])
def test_i3_an_answer_to_a_gated_ask_is_refused_gated_in_words(workplace: Workplace, option: str) -> None:
    """Whoever posts it; the ask stays open, and the refusal is in the ledger."""
    ask = workplace.ok("POST", PATH, "shell", {"params": PARAMS})
    response = workplace.call("POST", f"/asks/{ask['id']}/answer", "shell", {"option": option, **ask["binding"]})
    assert refused(response) == (403, "gated")
    assert "no grant was minted" in response.get_data(as_text=True)
    with workplace.host.read() as tx:
        entries = ledger.of_ask(tx, ask["id"])
    assert (entries[-1]["kind"], entries[-1]["reason"]) == ("vote.refused", "gated")
    assert workplace.ok("GET", f"/asks/{ask['id']}", "shell")["state"] == "OPEN"
