"""What `gitops-bot init` writes for GitHub, held to what GitHub publishes: the ruleset to import, and the manifest
of the App, whose permissions and events are such as exist.
"""

import json
from typing import Any

import pytest

from gitops_bot.bootstrap.initial.choices import PUBLIC_API, Choices
from gitops_bot.bootstrap.initial.files import EVENTS, HEARD, manifest, ruleset
from tests.contract.described import NODE, Exchange, description, faults_of_request

pytestmark = pytest.mark.slow  # `make test` installs the descriptions, `make check` does without
CHOICES = Choices("acme/ops", PUBLIC_API, True, "https://approvals.example.org", None)


def blamed(document: dict[str, Any]) -> list[str]:
    """Say what GitHub does not know of a ruleset that is to be made."""
    body = json.dumps(document).encode()
    return list(faults_of_request(Exchange("POST", "/repos/{owner}/{repo}/rulesets", {}, body, 201, b"")))


def test_the_ruleset_is_one_that_github_takes() -> None:
    assert blamed(ruleset()) == []


@pytest.mark.parametrize(
    "change",
    [{"enforcement": "on"}, {"rules": [{"type": "rewriting"}]}, {"target": "branches"}, {"name": None}],
    ids=str,
)
def test_another_ruleset_is_blamed(change: dict[str, Any]) -> None:
    assert blamed({**ruleset(), **change})


def test_the_manifest_asks_for_permissions_and_events_that_there_are() -> None:
    """At the levels there are; an event under a name of its own in the schemas of webhooks."""
    known = description()["components"]["schemas"]["app-permissions"]["properties"]
    asked = manifest(CHOICES)["default_permissions"]
    assert isinstance(asked, dict)
    assert {name for name, level in asked.items() if level not in known.get(name, {}).get("enum", ())} == set()
    webhooks = json.loads((NODE / "webhooks-schemas" / "schema.json").read_bytes())["definitions"]
    assert [one for one in (*EVENTS, *HEARD) if f"{one}_event" not in webhooks] == []
    assert "buttons_event" not in webhooks and "buttons" not in known, "the refusing twin"


def test_the_manifest_has_what_a_form_needs() -> None:
    """Its name, where hooks go, and that it is nobody else's (GitHub, registering a GitHub App from a manifest)."""
    told = manifest(CHOICES)
    assert told["hook_attributes"] == {"url": "https://approvals.example.org/hooks/github", "active": True}
    assert (told["public"], len(str(told["name"])) <= 34) == (False, True)
    without = manifest(Choices("acme/ops", PUBLIC_API, True, "", None))
    assert isinstance(without["hook_attributes"], dict)
    assert without["hook_attributes"]["active"] is False
