"""Listening in on the local GitHub: every exchange of a test, judged by the published descriptions at its end."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gitops_bot.sandbox import http
from gitops_bot.sandbox.dispatch import Request, Response, dispatch
from gitops_bot.sandbox.skin import Route
from gitops_bot.sandbox.world import World
from tests.contract import described_graphql
from tests.contract.described import Exchange, Judge

JUDGE = Judge()


@contextmanager
def recording(monkeypatch: pytest.MonkeyPatch, *, of_request: bool) -> Iterator[list[Exchange]]:
    """Record what goes over the wire, and fail with the first thing that the description does not know.

    With `of_request` each request is judged; without it those that were answered with a success.
    """
    heard: list[Exchange] = []
    asked: list[tuple[bytes, bytes, int]] = []

    def listen(world: World, route: Route, request: Request) -> Response:
        response = dispatch(world, route, request)
        if route.path == "/graphql":
            asked.append((request.body, response.body, response.status))
        else:
            heard.append(
                Exchange(request.method, route.path, dict(request.query), request.body, response.status, response.body)
            )
        return response

    monkeypatch.setattr(http, "dispatch", listen)
    yield heard
    wrong = [
        f"{one.method} {one.route} {one.status}: {fault}"
        for one in heard
        for fault in JUDGE.faults(one, of_request=of_request or one.status < 400)
    ]
    for sent, answered, status in asked:
        wrong += [f"GraphQL: {fault}" for fault in _graphql_faults(sent, answered, status, of_request=of_request)]
    assert not wrong, "\n".join(sorted(set(wrong))[:20])


def _graphql_faults(sent: bytes, answered: bytes, status: int, *, of_request: bool) -> list[str]:
    """Judge a query and its answer; one that is meant to be wrong has errors and no data."""
    read = json.loads(answered) if status == 200 else {}
    data = None if read.get("errors") else read.get("data")
    if data is None and not of_request:
        return []
    asked = json.loads(sent)
    faults = list(described_graphql.faults_of_query(asked["query"]))
    if data is not None and not faults:
        faults = list(described_graphql.faults_of_answer(asked["query"], asked.get("variables") or {}, data))
    return faults
