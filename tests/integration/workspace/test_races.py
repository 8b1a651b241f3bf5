"""Requests that meet at one instant, on every engine: one ask, one capture, no error."""

import threading
from pathlib import Path
from typing import Any

from werkzeug.test import TestResponse

from gitops_bot.authority.rules import Rules
from gitops_bot.bootstrap.workspace import Services
from gitops_bot.broker.captures import Place
from gitops_bot.core.principals import PrincipalName
from gitops_bot.store import agents, asks, captures
from gitops_bot.store.roles import Role
from gitops_bot.store.states import AgentKind, TokenScope
from tests.policy_bundles import load
from tests.store_fixtures import FreshDatabase
from workspace import create_app

REGIME = {"model": "a/b", "concurrency": 1, "prefixes": 1, "max_tokens": 1, "long_tokens": 0, "long_frac": "0.0000"}
AT_ONCE = 6


def _nothing(_path: Path) -> str | None:
    return None


def at_once(database: FreshDatabase, path: str, bodies: list[dict[str, Any]], tokens: list[str]) -> list[TestResponse]:
    """Post every body at one instant, each from a thread and an application of its own."""
    opened = database.open(Role.WORKSPACE)
    rules = Rules(load({}), "github.com/acme/ops", "production")
    services = Services(opened, rules, Place("production", "acme/ops"), _nothing)
    clients = [create_app(services).test_client() for _ in bodies]
    gate = threading.Barrier(len(bodies))
    found: list[TestResponse] = []

    def post(number: int) -> None:
        gate.wait(60)
        headers = {"Authorization": f"Bearer {tokens[number]}"}
        found.append(clients[number].post(f"/api/v1{path}", json=bodies[number], headers=headers))

    threads = [threading.Thread(target=post, args=(number,)) for number in range(len(bodies))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    return found


def tokens(database: FreshDatabase, count: int) -> list[str]:
    with database.open(Role.HOST).write() as tx:
        made = []
        for number in range(count):
            agent = agents.add(
                tx, f"agent-{number}", AgentKind.APPLICATION, PrincipalName("agent"), PrincipalName("alice"), ""
            )
            made.append(agents.issue_token(tx, agent.id, TokenScope.AGENT))
    return made


def test_one_trace_id_is_one_capture_however_many_ask_at_once(database: FreshDatabase) -> None:
    found = at_once(database, "/captures", [dict(REGIME) for _ in range(AT_ONCE)], tokens(database, AT_ONCE))
    assert [response.status_code for response in found] == [202] * AT_ONCE
    assert len({response.get_json()["handle"] for response in found}) == 1
    with database.open(Role.HOST).read() as tx:
        assert len(captures.page(tx, "", 10)) == 1
        assert len(asks.page(tx, "", 10)) == 1


def test_one_key_is_one_ask_however_often_sent_at_once(database: FreshDatabase) -> None:
    (token,) = tokens(database, 1)
    body = {"question": "?", "idempotency_key": "k"}
    found = at_once(database, "/asks", [dict(body) for _ in range(AT_ONCE)], [token] * AT_ONCE)
    assert sorted(response.status_code for response in found) == [200] * (AT_ONCE - 1) + [201]
    assert len({response.get_json()["id"] for response in found}) == 1
    with database.open(Role.HOST).read() as tx:
        assert len(asks.page(tx, "", 10)) == 1
