"""Which rules hold on a branch, as whoever reads a repository is told; only administrators make them."""

from typing import Any

import pytest
import requests

from tests.integration.sandbox.conftest import REPOSITORY, Forge


def ruleset(**other: Any) -> dict[str, Any]:
    patterns = {"include": ["refs/heads/gated/**"], "exclude": ["refs/heads/gated/*/scratch"]}
    rules = [{"type": "deletion"}, {"type": "non_fast_forward"}]
    made = {"name": "approvals", "enforcement": "active", "conditions": {"ref_name": patterns}, "rules": rules}
    return {**made, **other}


def send(forge: Forge, method: str, path: str, login: str, body: dict[str, Any] | None = None) -> requests.Response:
    headers = {"Authorization": f"token {forge.tokens[login]}"}
    address = f"{forge.sandbox.url}/repos/{REPOSITORY}{path}"
    return requests.request(method, address, json=body, headers=headers, timeout=10)


def rules(forge: Forge, branch: str) -> list[str]:
    answer = send(forge, "GET", f"/rules/branches/{branch}", "bob")
    assert answer.status_code == 200
    return [rule["type"] for rule in answer.json()]


@pytest.mark.parametrize(
    ("branch", "held"),
    [
        ("gated/production/requests", True),
        ("gated%2Fproduction%2Fapprovals%2Falice", True),
        ("gated", False),
        ("main", False),
        ("gated/production/scratch", False),
        ("gated/production/deeper/scratch", True),
    ],
)
def test_rules_hold_where_a_pattern_says_so(forge: Forge, branch: str, held: bool) -> None:
    forge.sandbox.grant(REPOSITORY, "alice", "admin")
    assert send(forge, "POST", "/rulesets", "alice", ruleset()).status_code == 201
    assert rules(forge, branch) == (["deletion", "non_fast_forward"] if held else [])


def test_a_ruleset_that_is_not_active_holds_nothing(forge: Forge) -> None:
    forge.sandbox.grant(REPOSITORY, "alice", "admin")
    assert send(forge, "POST", "/rulesets", "alice", ruleset(enforcement="disabled")).status_code == 201
    assert rules(forge, "gated/x") == []
    assert [one["name"] for one in send(forge, "GET", "/rulesets", "bob").json()] == ["approvals"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"enforcement": "perhaps"},
        {"rules": [{"type": "unheard_of"}]},
        {"rules": "none"},
        {"name": None},
        {"conditions": {"ref_name": {"include": "x"}}},
    ],
)
def test_what_is_no_ruleset_is_refused(forge: Forge, wrong: dict[str, Any]) -> None:
    forge.sandbox.grant(REPOSITORY, "alice", "admin")
    assert send(forge, "POST", "/rulesets", "alice", ruleset(**wrong)).status_code == 422
    assert send(forge, "POST", "/rulesets", "alice", ruleset()).status_code == 201


def test_only_administrators_make_rulesets(forge: Forge) -> None:
    assert send(forge, "POST", "/rulesets", "alice", ruleset()).status_code in (403, 404)
    assert rules(forge, "gated/x") == []
