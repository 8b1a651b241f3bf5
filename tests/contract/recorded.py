"""Listening in on the local GitHub: every REST exchange of a test, judged by the published description at its end."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gitops_bot.sandbox import http
from gitops_bot.sandbox.dispatch import Request, Response, dispatch
from gitops_bot.sandbox.skin import Route
from gitops_bot.sandbox.world import World
from tests.contract.described import Exchange, Judge

JUDGE = Judge()


@contextmanager
def recording(monkeypatch: pytest.MonkeyPatch, *, of_request: bool) -> Iterator[list[Exchange]]:
    """Record what goes over the wire, and fail with the first thing that the description does not know.

    With `of_request` each request is judged; without it those that were answered with a success.
    """
    heard: list[Exchange] = []

    def listen(world: World, route: Route, request: Request) -> Response:
        response = dispatch(world, route, request)
        if route.path != "/graphql":
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
    assert not wrong, "\n".join(sorted(set(wrong))[:20])
