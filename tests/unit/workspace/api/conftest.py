"""A policy whose bound verbs are answered at the workspace, and what people and agents do with them over HTTP."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from flask import Response, request
from jsonschema import Draft202012Validator
from werkzeug.test import TestResponse

from gitops_bot.authority.rules import Rules
from tests.policy_bundles import GONE, load
from tests.signed_in import PersonClient
from tests.unit.workspace.conftest import Workplace
from workspace.api.openapi import document

TRANSFER = {"amount_minor": 125_000, "currency": "EUR", "to": "DE89370400440532013000"}
RELEASE = {
    "channels": ["workspace"],
    "voters": {"people": ["alice", "bob"]},
    "approve": 1,
    "expires": "1h",
    "risk": "low",
}
PATCH = {
    "people/alice/passkey": GONE,
    "verbs/release.cut": RELEASE,
    "verbs/release.two": {**RELEASE, "approve": 2},
    "verbs/fleet.wipe": {**RELEASE, "risk": "high"},
    "verbs/forge.only": {**RELEASE, "channels": ["forge"]},
}


@pytest.fixture
def rules() -> Rules:
    return Rules(load(PATCH), "github.com/acme/ops", "production")


@pytest.fixture(autouse=True)
def described(workplace: Workplace) -> Iterator[None]:
    """Hold every answer of every test here to the OpenAPI document: its status, its content type, each member."""
    made, wrong = document(workplace.app), []

    def check(response: Response) -> Response:
        rule = None if request.url_rule is None else re.sub(r"<(?:[a-z]+:)?([a-z_]+)>", r"{\1}", request.url_rule.rule)
        operation = made["paths"].get(rule, {}).get(request.method.lower())
        if operation is not None:
            wrong.extend(f"{request.method} {rule}: {fault}" for fault in faults(made, operation, response))
        return response

    workplace.app.after_request(check)
    yield
    assert wrong == []


def faults(made: dict[str, Any], operation: dict[str, Any], response: Response) -> list[str]:
    """Say what of an answer the document does not name."""
    told = operation["responses"].get(str(response.status_code))
    if told is None:
        return [f"status {response.status_code}"]
    told = made["components"]["responses"][told["$ref"].rpartition("/")[2]] if "$ref" in told else told
    content = told["content"].get(response.mimetype)
    if content is None:
        return [f"content type {response.mimetype}"]
    if not response.is_json and "problem" not in response.mimetype:
        return []
    schema = {**content["schema"], "components": made["components"]}
    return [error.message[:300] for error in Draft202012Validator(schema).iter_errors(json.loads(response.get_data()))]


def question(workplace: Workplace, **more: Any) -> dict[str, Any]:
    """Let an agent of alice's ask a plain question."""
    return workplace.ok("POST", "/asks", "shell", {"question": "Which?", "options": ["a", "b"], **more})


def bound(workplace: Workplace, version: str = "1.0", verb: str = "release.cut") -> dict[str, Any]:
    """Let an agent ask for an action that people of the workspace approve."""
    return workplace.ok("POST", f"/verbs/{verb}/requests", "shell", {"params": {"version": version}})


def gated(workplace: Workplace) -> dict[str, Any]:
    """Let an agent ask for money."""
    return workplace.ok("POST", "/verbs/payments.transfer/requests", "shell", {"params": TRANSFER})


def saying(ask: dict[str, Any], **said: Any) -> dict[str, Any]:
    """Make the body of an answer, which echoes what binds it."""
    return {**said, **ask["binding"]}


def asserted(person: PersonClient, ask: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    """Let the person's passkey assert an answer; gives the body with the assertion."""
    begun = person.ok("POST", f"/asks/{ask['id']}/statement", body)
    return {**body, "assertion": {"ceremony": begun["id"], "credential": person.passkey.get(begun["options"])}}


def answer(person: PersonClient, ask: dict[str, Any], **said: Any) -> TestResponse:
    """Answer an ask as its page does: a bound one with an assertion."""
    body = saying(ask, **said)
    if ask["kind"] == "approval":
        body = asserted(person, ask, body)
    return person.call("POST", f"/asks/{ask['id']}/answer", body)
