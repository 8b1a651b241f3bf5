"""What a person keeps for themselves at the workspace: preferences and notices, each only their own."""

import dataclasses
from typing import Any

from gitops_bot.store import notices
from tests.signed_in import PersonClient, browser
from tests.unit.workspace.conftest import Workplace, refused
from workspace import create_app
from workspace.auth.limits import Limits, Rates


def unread(workplace: Workplace, name: str) -> int:
    with workplace.host.read() as tx:
        return notices.unread(tx, name)


def test_notices_are_read_by_whom_they_are_for(workplace: Workplace) -> None:
    alice, bob = workplace.person("alice"), workplace.person("bob")
    with workplace.host.read() as tx:
        newest = notices.page(tx, "alice", 10)[0].id
    mine, theirs = unread(workplace, "alice"), unread(workplace, "bob")
    assert mine >= 2
    assert bob.ok("POST", "/auth/notices/read", {"upto": newest}) == {"ok": True}
    assert unread(workplace, "alice") == mine
    assert unread(workplace, "bob") < theirs
    assert alice.ok("POST", "/auth/notices/read", {"upto": newest}) == {"ok": True}
    assert unread(workplace, "alice") == 0


def test_preferences_are_ones_own(workplace: Workplace) -> None:
    alice, bob = workplace.person("alice"), workplace.person("bob")
    assert alice.ok("GET", "/auth/session")["single_keys"] is True
    assert alice.ok("POST", "/auth/preferences", {"single_keys": False}) == {"single_keys": False}
    assert alice.ok("GET", "/auth/session")["single_keys"] is False
    assert bob.ok("GET", "/auth/session")["single_keys"] is True


def statuses(client: PersonClient, attempts: int, **headers: Any) -> list[int]:
    return [client.call("POST", "/auth/sign-in/begin", headers=headers).status_code for _ in range(attempts)]


def test_behind_a_proxy_each_address_has_its_own_tries(workplace: Workplace) -> None:
    """Where TLS ends at a proxy of this machine, the last address is what that proxy saw; what a caller writes before
    it counts for nothing, and without a proxy the header counts for nothing at all."""
    site = dataclasses.replace(workplace.services.site, origin="https://ops.example.org", rp_id="ops.example.org")
    services = dataclasses.replace(workplace.services, site=site)
    burst = Rates().address.burst
    there = browser(create_app(services, None, Limits(clock=lambda: 0.0)), services)
    for number in range(burst + 5):
        statuses(there, 1, **{"X-Forwarded-For": f"192.0.2.{number}, 198.51.100.1"})
    assert statuses(there, 1, **{"X-Forwarded-For": "198.51.100.1"}) == [429]
    assert statuses(there, 1, **{"X-Forwarded-For": "198.51.100.2"}) == [200]
    here = browser(create_app(workplace.services, None, Limits(clock=lambda: 0.0)), workplace.services)
    for number in range(burst):
        statuses(here, 1, **{"X-Forwarded-For": f"192.0.2.{number}"})
    limited = here.call("POST", "/auth/sign-in/begin", headers={"X-Forwarded-For": "203.0.113.1"})
    assert refused(limited) == (429, "rate_limited")
