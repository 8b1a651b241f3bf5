"""A workspace over a fresh database, with two agents, a loop's token and a client that speaks JSON."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import select
from werkzeug.test import TestResponse

from gitops_bot.authority.rules import Rules
from gitops_bot.authority.settling import Voice, answer
from gitops_bot.bootstrap.workspace import Services
from gitops_bot.broker.captures import Place
from gitops_bot.core.asks import Binding
from gitops_bot.core.principals import PrincipalName
from gitops_bot.core.verdicts import Answer, Channel
from gitops_bot.store import agents, asks
from gitops_bot.store.engine import Database
from gitops_bot.store.roles import Role
from gitops_bot.store.schema import metadata
from gitops_bot.store.states import AgentKind, TokenScope
from tests.asserted import asserted
from tests.policy_bundles import GONE, load
from tests.signed_in import PersonClient, enrolled
from tests.store_fixtures import FreshDatabase
from workspace import create_app
from workspace.waiting import Waiting

REGIME = {
    "model": "Qwen/Qwen3-0.6B",
    "concurrency": 48,
    "prefixes": 8,
    "max_tokens": 8,
    "long_tokens": 0,
    "long_frac": 0.0,
}
LOOP = {"id": "tuner", "address": "127.0.0.1:4711", "broker_token": "b" * 32}


@dataclass
class Workplace:
    """What a test of the workspace holds. Tokens: `shell` and `other` ask, `loop` registers loops."""

    services: Services
    app: Flask
    client: FlaskClient
    host: Database
    fresh: FreshDatabase
    tokens: dict[str, str]
    agents: dict[str, agents.Agent]
    hashes: dict[str, str] = field(default_factory=dict)
    woken: list[str] = field(default_factory=list)
    owner: Database | None = None

    def person(self, name: str) -> PersonClient:
        """Give a browser in which somebody enrolled a passkey with a code of the host, and is signed in."""
        return enrolled(self.app, self.services, self.host, name)

    def everything(self) -> dict[str, list[tuple[Any, ...]]]:
        """Read every row there is, but not when a session was last seen, which looking at a page changes."""
        found: dict[str, list[tuple[Any, ...]]] = {}
        if self.owner is None:
            self.owner = self.fresh.open(Role.OWNER)
        with self.owner.read() as tx:
            for name, table in metadata.tables.items():
                seen = table.c.get("seen_at") if name == "sessions" else None
                kept = [one for one in table.c if one is not seen]
                found[name] = sorted((tuple(row) for row in tx.execute(select(*kept))), key=repr)
        return found

    def call(self, method: str, path: str, token: str | None, body: object = None, **more: Any) -> TestResponse:
        """Call the API as the holder of a token, by its name here or itself."""
        headers = {} if token is None else {"Authorization": f"Bearer {self.tokens.get(token, token)}"}
        sent = {} if body is None else {"json": body}
        return self.client.open(f"/api/v1{path}", method=method, headers=headers, **sent, **more)

    def ok(self, method: str, path: str, token: str, body: object = None) -> dict[str, Any]:
        """Call and insist on success."""
        response = self.call(method, path, token, body)
        assert response.status_code < 300, response.get_data(as_text=True)
        document = response.get_json()
        assert isinstance(document, dict)
        return document

    def register(self, **more: Any) -> str:
        """Register the loop; give the token of its run."""
        return str(self.ok("POST", "/loops", "loop", {**LOOP, **more})["agent_token"])

    def answer(self, ask: dict[str, Any], option: str | None, text: str | None = None) -> None:
        """Let alice answer an ask, as a channel of hers would."""
        binding = Binding(**ask["binding"])
        alice = self.services.rules.policy.people[PrincipalName("alice")].principal
        with self.host.write() as tx:
            found = asks.get(tx, ask["id"])
            assert found is not None
            voice = Voice(alice, Channel.WORKSPACE, b"{}", asserted=asserted(found, "alice", option, text))
            answer(tx, self.services.rules, ask["id"], Answer(option, text, binding), voice)


def refused(response: TestResponse) -> tuple[int, str | None]:
    """Read a problem document; insist that it is one."""
    assert response.content_type == "application/problem+json"
    document = response.get_json(force=True)
    assert document["status"] == response.status_code
    assert {"type", "title", "detail", "reason", "facts"} <= set(document)
    return response.status_code, document["reason"]


HERE: Final = Path(__file__).parent
QUICK: Final = frozenset({"test_asgi.py", "test_live.py", "test_problems.py", "test_screening.py", "test_waiting.py"})
"""All others go through the whole application, most with people signed in: for `make test`, not for `make check`."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave those out of the quick run."""
    for item in items:
        if HERE in item.path.parents and item.path.name not in QUICK:
            item.add_marker(pytest.mark.slow)


@pytest.fixture
def rules() -> Rules:
    # Whatever somebody enrols counts: no key of alice's is named.
    return Rules(load({"people/alice/passkey": GONE}), "github.com/acme/ops", "production")


@pytest.fixture
def workplace(sqlite_database: FreshDatabase, rules: Rules) -> Iterator[Workplace]:
    database = sqlite_database.open(Role.WORKSPACE)
    host = sqlite_database.open(Role.HOST)
    hashes: dict[str, str] = {}
    woken: list[str] = []
    database.on_due = lambda: woken.append("due")

    def rehash(path: Path) -> str | None:
        return hashes.get(str(path))

    services = Services(database, rules, Place("production", "acme/ops"), rehash)
    app = create_app(services, Waiting(most=2, look=0.01))
    tokens, made = {}, {}
    with host.write() as tx:
        for name, kind, scope in (
            ("shell", AgentKind.APPLICATION, TokenScope.AGENT),
            ("other", AgentKind.APPLICATION, TokenScope.AGENT),
            ("loop", AgentKind.LOOP, TokenScope.LOOP),
            ("loop2", AgentKind.LOOP, TokenScope.LOOP),
        ):
            agent = agents.add(tx, name, kind, PrincipalName("agent"), PrincipalName("alice"), "")
            made[name] = agent
            tokens[name] = agents.issue_token(tx, agent.id, scope)
    yield Workplace(services, app, app.test_client(), host, sqlite_database, tokens, made, hashes, woken)
