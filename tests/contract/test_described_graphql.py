"""Every query and mutation that the product sends is one of GitHub's published schema; and that judge is just too."""

import importlib
import pkgutil

import pytest

import gitops_bot.forge
from tests.contract.described_graphql import faults_of_answer, faults_of_query

pytestmark = pytest.mark.slow  # `make test` installs the schema, `make check` does without


def _sent() -> dict[str, str]:
    """Find every constant of the adapter that holds GraphQL."""
    found = {}
    for module in pkgutil.iter_modules(gitops_bot.forge.__path__, "gitops_bot.forge."):
        for name, value in vars(importlib.import_module(module.name)).items():
            if isinstance(value, str) and value.lstrip().startswith(("query", "mutation", "{")) and "{" in value:
                found[name] = value
    return found


def test_the_adapters_queries_were_found() -> None:
    assert {"COMMENT_QUERY", "READY_MUTATION"} <= set(_sent())


def test_every_query_of_the_adapter_validates() -> None:
    assert [(name, fault) for name, text in _sent().items() for fault in faults_of_query(text)] == []


@pytest.mark.parametrize(
    "text",
    [
        "query { viewer { isNothing } }",
        "query($id: Int!) { node(id: $id) { id } }",
        "mutation { convertPullRequestToDraft(input: {}) { pullRequest { isDraft } } }",
        "query { viewer ",
        "query { node(id: 3) { ... on Nothing { id } } }",
    ],
)
def test_a_query_that_is_none_is_blamed(text: str) -> None:
    assert list(faults_of_query(text))
    assert not list(faults_of_query("query { viewer { login } }"))


@pytest.mark.parametrize("data", [{"viewer": {"login": None}}, {"viewer": {"login": "a", "databaseId": "x"}}, {}])
def test_an_answer_that_is_none_is_blamed(data: dict) -> None:
    query = "query { viewer { login databaseId } }"
    assert list(faults_of_answer(query, {}, data))
    assert not list(faults_of_answer(query, {}, {"viewer": {"login": "a", "databaseId": 3}}))
