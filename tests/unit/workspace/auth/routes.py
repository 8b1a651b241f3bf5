"""Every route of the application, for tests that must hold for each: a new one is covered by itself."""

from dataclasses import dataclass
from typing import cast

from gitops_bot.bootstrap.workspace import Services
from tests.signed_in import PersonClient, enrolled
from tests.unit.workspace.conftest import Workplace
from workspace import create_app
from workspace.auth.csrf import SAFE, Door, door_of
from workspace.auth.limits import Limits, Rate, Rates
from workspace.waiting import Waiting

VALUES = {
    "ask_id": "0" * 26,
    "capture_id": "0" * 26,
    "session": "0" * 26,
    "slug": "shell",
    "verb": "release.cut",
    "passkey": "cGFzc2tleTE",
    "name": "css/base.css",
}


@dataclass(frozen=True)
class Route:
    """One route with an address that fits it. `door`: who may call it without being signed in."""

    method: str
    path: str
    endpoint: str
    door: Door | None

    def __str__(self) -> str:
        return f"{self.method} {self.endpoint}"


def routes() -> list[Route]:
    """List every route and method, those that Flask adds excepted."""
    app = create_app(cast("Services", None))
    adapter = app.url_map.bind("localhost")
    found = []
    for rule in app.url_map.iter_rules():
        values = {name: VALUES.get(name, "0" * 26) for name in rule.arguments}
        path = adapter.build(rule.endpoint, values, method=next(iter((rule.methods or set()) - {"OPTIONS"})))
        for method in sorted((rule.methods or set()) - {"HEAD", "OPTIONS"}):
            found.append(Route(method, path, rule.endpoint, door_of(app.view_functions[rule.endpoint])))
    return sorted(found, key=str)


UNSAFE = [route for route in routes() if route.method not in SAFE]
SAFE_ONES = [route for route in routes() if route.method in SAFE]


def patient(workplace: Workplace) -> PersonClient:
    """Let a workplace bear any number of requests, and give alice's browser there."""
    many = Rate(1_000_000, 1.0)
    limits = Limits(Rates(many, many, many, many, failure=0))
    workplace.app = create_app(workplace.services, Waiting(most=2, look=0.01), limits)
    return enrolled(workplace.app, workplace.services, workplace.host, "alice")


def stay(alice: PersonClient) -> None:
    """Sign in again where a route ended the session."""
    if alice.get("/api/v1/auth/session").status_code != 200:
        assert alice.sign_in().status_code == 200
