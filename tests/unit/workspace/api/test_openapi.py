"""The OpenAPI document says what the routes do: every route, nothing else, and docs/openapi.json is that document."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from gitops_bot.core.errors import Reason
from tests.unit.workspace.conftest import Workplace
from workspace.api.described import description_of
from workspace.api.elsewhere import ELSEWHERE
from workspace.api.openapi import PREFIX, document, methods_of, written
from workspace.problems import status_of

KEPT = Path(__file__).parents[4] / "docs" / "openapi.json"


@pytest.fixture
def made(workplace: Workplace) -> dict[str, Any]:
    return document(workplace.app)


def operations(made: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in made["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def test_every_route_is_described_and_nothing_else(workplace: Workplace, made: dict[str, Any]) -> None:
    rules = [rule for rule in workplace.app.url_map.iter_rules() if rule.rule.startswith(PREFIX)]
    bare = [rule.rule for rule in rules if description_of(workplace.app.view_functions[rule.endpoint]) is None]
    assert bare == []
    served = {(method, rule.rule.replace("<", "{").replace(">", "}")) for rule in rules for method in methods_of(rule)}
    elsewhere = {(one.method, one.path) for one in ELSEWHERE}
    assert {(method, path) for method, path, _ in operations(made)} == served | elsewhere


def test_the_kept_document_is_the_one_that_is_served(workplace: Workplace, made: dict[str, Any]) -> None:
    """After a route changed: tools/openapi.sh writes docs/openapi.json anew."""
    assert KEPT.read_text("utf-8") == written(workplace.app), "run tools/openapi.sh"
    response = workplace.client.get(f"{PREFIX}/openapi.json")
    assert response.status_code == 200
    assert response.get_json() == made


def schemas(value: object) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, dict):
        if "type" in value or "anyOf" in value or "$ref" in value or "enum" in value:
            yield value
        for inner in value.values():
            yield from schemas(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from schemas(inner)


def test_every_reference_leads_somewhere(made: dict[str, Any]) -> None:
    for found in schemas(made):
        if "$ref" in found:
            place: Any = made
            for part in found["$ref"].removeprefix("#/").split("/"):
                place = place[part]
    text = json.dumps(made)
    unused = [name for name in made["components"]["schemas"] if f'#/components/schemas/{name}"' not in text]
    assert unused == []


def test_every_schema_is_one_of_its_draft(made: dict[str, Any]) -> None:
    for schema in made["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)
    for _, _, operation in operations(made):
        for content in (operation.get("requestBody") or {}).get("content", {}).values():
            Draft202012Validator.check_schema(content["schema"])


def test_bodies_are_exact(made: dict[str, Any]) -> None:
    """A member that nobody reads is refused, and the document says so."""
    for method, path, operation in operations(made):
        if "requestBody" in operation:
            schema = operation["requestBody"]["content"]["application/json"]["schema"]
            assert schema["additionalProperties"] is False, (method, path)


def test_no_get_decides_and_none_has_a_body(made: dict[str, Any]) -> None:
    """lifecycle 17: nothing is decided by GET, so a scanner that opens a link changes nothing."""
    assert {method for method, _, _ in operations(made)} == {"GET", "POST"}
    for method, path, operation in operations(made):
        if method == "GET":
            assert "requestBody" not in operation, path


def test_the_problem_document_names_the_closed_list(made: dict[str, Any]) -> None:
    assert made["components"]["schemas"]["Reason"]["enum"] == [reason.value for reason in Reason]


def test_an_answer_tells_every_status_of_its_refusals(made: dict[str, Any]) -> None:
    """The statuses of design/interfaces.md, each of them."""
    answers = made["paths"][f"{PREFIX}/asks/{{ask_id}}/answer"]["post"]["responses"]
    assert {"200", "401", "403", "404", "409", "410", "422", "429"} <= set(answers)
    assert {str(status_of(reason)) for reason in Reason} <= set(answers)


def test_each_operation_says_who_may_call_it(made: dict[str, Any]) -> None:
    schemes = set(made["components"]["securitySchemes"])
    for method, path, operation in operations(made):
        assert operation["security"], path
        used = {name for way in operation["security"] for name in way}
        assert used <= schemes
        if method == "GET":
            assert "csrf" not in used
    answering = made["paths"][f"{PREFIX}/asks/{{ask_id}}/answer"]["post"]["security"]
    assert not any("agentBearer" in way for way in answering)


def test_names_of_operations_differ(made: dict[str, Any]) -> None:
    names = [operation["operationId"] for _, _, operation in operations(made)]
    assert len(set(names)) == len(names)
