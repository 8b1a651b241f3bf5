"""Registering a loop: what it says about its agent is kept, and it is told what its operator's word would count."""

from dataclasses import replace
from typing import Any

import pytest

from gitops_bot.store import agents
from tests.unit.workspace.conftest import LOOP, Workplace, refused
from workspace import create_app
from workspace.waiting import Waiting


def kept(workplace: Workplace) -> agents.Loop:
    with workplace.host.read() as tx:
        found = agents.loop(tx, "tuner")
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("said", "shares"), [({}, True), ({"shares_user": True}, True), ({"shares_user": False}, False)]
)
def test_an_agent_is_taken_to_share_its_user_unless_the_loop_says_otherwise(
    workplace: Workplace, said: dict[str, Any], shares: bool
) -> None:
    workplace.register(**said)
    assert kept(workplace).shares_user is shares
    assert kept(workplace).open_bridge is False


def test_what_a_loop_says_is_said_anew_at_each_registration(workplace: Workplace) -> None:
    workplace.register(shares_user=False)
    workplace.register(resume=True)
    assert kept(workplace).shares_user is True


@pytest.mark.parametrize(
    "broken", [{"shares_user": "no"}, {"shares_user": 0}, {"broker_token": ""}, {"open_bridge": True}]
)
def test_another_form_is_refused(workplace: Workplace, broken: dict[str, Any]) -> None:
    """No loop registers over HTTP without a token; its twins are the tests above."""
    response = workplace.call("POST", "/loops", "loop", {**LOOP, **broken})
    assert refused(response)[0] in (400, 422)


@pytest.mark.parametrize(("operator", "claims"), [("", "no_operator"), ("mallory", "no_operator"), ("bob", None)])
def test_a_loop_is_told_whether_an_operator_is_named(workplace: Workplace, operator: str, claims: str | None) -> None:
    services = replace(workplace.services, operator=operator)
    client = create_app(services, Waiting(most=2, look=0.01)).test_client()
    headers = {"Authorization": f"Bearer {workplace.tokens['loop']}"}
    document = client.post("/api/v1/loops", json=LOOP, headers=headers).get_json()
    assert document["claims"] == claims
