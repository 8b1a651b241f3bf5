"""Whoever comes too often is told when to come again, at a bounded cost; others still get in."""

from collections.abc import Iterator

import pytest
from sqlalchemy import func, select

from gitops_bot.store.person_tables import ceremonies
from gitops_bot.store.work_tables import ledger
from tests.signed_in import PersonClient, browser, enrolled
from tests.unit.workspace.conftest import Workplace, refused
from workspace import create_app
from workspace.auth.limits import MOST, Limits, Rate, Rates, address_of
from workspace.waiting import Waiting


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(workplace: Workplace) -> Iterator[Clock]:
    """Let the workplace's limits go by a clock of the test's."""
    clock = Clock()
    workplace.app = create_app(workplace.services, Waiting(most=2, look=0.01), Limits(clock=clock))
    yield clock


def count(workplace: Workplace) -> tuple[int, int]:
    with workplace.host.read() as tx:
        entries = int(tx.execute(select(func.count()).select_from(ledger)).scalar_one())
    with workplace.services.database.read() as tx:
        return int(tx.execute(select(func.count()).select_from(ceremonies)).scalar_one()), entries


def from_address(client: PersonClient, address: str) -> PersonClient:
    client.http.environ_base = {**client.http.environ_base, "REMOTE_ADDR": address}
    return client


@pytest.mark.parametrize("attempts", [1_000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_ten_thousand_attempts_to_sign_in(workplace: Workplace, clock: Clock, attempts: int) -> None:
    """Half of them begin, half finish what never began; one address, then thousands. Rows, memory and the ledger stay
    bounded; somebody at another address gets in meanwhile, and at this one when the time that was told is over."""
    alice = enrolled(workplace.app, workplace.services, workplace.host, "alice")
    bob = from_address(enrolled(workplace.app, workplace.services, workplace.host, "bob"), "192.0.2.7")
    assert bob.sign_out().status_code == 200
    attacker = from_address(browser(workplace.app, workplace.services), "198.51.100.1")
    rows, entries = count(workplace)
    statuses: dict[int, int] = {}
    false = {"ceremony": "x" * 22, "credential": {"id": "x"}}
    for number in range(attempts // 2):
        for path, body in (("begin", {}), ("finish", false)):
            response = attacker.call("POST", f"/auth/sign-in/{path}", body)
            statuses[response.status_code] = statuses.get(response.status_code, 0) + 1
        if number == attempts // 4:
            assert bob.sign_in().status_code == 200
    assert sum(statuses.values()) == attempts
    assert set(statuses) == {200, 422, 429}
    burst = Rates().address.burst
    assert statuses[200] + statuses[422] <= burst
    assert refused(response) == (429, "rate_limited")
    assert int(response.headers["Retry-After"]) >= 1
    after_rows, after_entries = count(workplace)
    assert after_rows - rows <= burst + 1
    assert after_entries - entries <= burst + 1
    clock.now += int(response.headers["Retry-After"])
    assert attacker.call("POST", "/auth/sign-in/begin").status_code == 200
    assert alice.call("POST", "/auth/preferences", {"single_keys": True}).status_code == 200


def test_a_flood_from_everywhere_is_bounded_and_those_who_were_here_get_in(workplace: Workplace, clock: Clock) -> None:
    """Thousands of addresses use up what the door bears as a whole; a browser that was signed in here has tries of its
    own, ended session or not; one that never was is told when to come again."""
    alice = enrolled(workplace.app, workplace.services, workplace.host, "alice")
    bob = enrolled(workplace.app, workplace.services, workplace.host, "bob")
    assert alice.confirmed("POST", "/auth/sessions/others/revoke").status_code == 200
    rows, _ = count(workplace)
    nobody = browser(workplace.app, workplace.services)
    for number in range(1_000):
        from_address(nobody, f"10.0.{number // 250}.{number % 250}").call("POST", "/auth/sign-in/begin")
    assert count(workplace)[0] - rows <= Rates().whole.burst
    assert refused(from_address(browser(workplace.app, workplace.services), "192.0.2.9").sign_in())[0] == 429
    bob.http.delete_cookie("__Host-gitops-bot", path="/")
    assert refused(from_address(bob, "192.0.2.8").sign_in()) == (429, "rate_limited")
    assert alice.sign_in().status_code == 200
    clock.now += 60
    assert bob.sign_in().status_code == 200


def test_a_known_browser_cannot_flood_either(workplace: Workplace, clock: Clock) -> None:
    alice = enrolled(workplace.app, workplace.services, workplace.host, "alice")
    statuses = [alice.call("POST", "/auth/sign-in/begin").status_code for _ in range(200)]
    assert statuses.count(200) <= Rates().address.burst + Rates().known.burst
    assert statuses[-1] == 429
    invented = browser(workplace.app, workplace.services)
    invented.http.set_cookie("__Host-gitops-bot", "x" * 43, domain="localhost", secure=True)
    assert invented.call("POST", "/auth/sign-in/begin").status_code == 429


def test_a_session_has_its_own_limit(workplace: Workplace, clock: Clock) -> None:
    alice = enrolled(workplace.app, workplace.services, workplace.host, "alice")
    bob = enrolled(workplace.app, workplace.services, workplace.host, "bob")
    path, body = "/auth/preferences", {"single_keys": True}
    statuses = [alice.call("POST", path, body).status_code for _ in range(Rates().session.burst + 10)]
    assert statuses.count(429) >= 9
    assert bob.call("POST", path, body).status_code == 200
    clock.now += 10
    assert alice.call("POST", path, body).status_code == 200


def test_a_refused_ceremony_costs_more_than_one_that_was_not(workplace: Workplace, clock: Clock) -> None:
    """A wrong credential writes to the ledger, so there are fewer of them."""
    attacker = browser(workplace.app, workplace.services)
    failures = 0
    for _ in range(100):
        begun = attacker.call("POST", "/auth/sign-in/begin")
        if begun.status_code == 200:
            body = {"ceremony": begun.get_json()["id"], "credential": {"id": "x"}}
            failures += attacker.call("POST", "/auth/sign-in/finish", body).status_code == 422
    assert 0 < failures <= Rates().address.burst // Rates().failure
    clock.now += 600
    assert attacker.call("POST", "/auth/sign-in/begin").status_code == 200


def test_buckets_fill_and_are_never_more_than_so_many() -> None:
    clock = Clock()
    limits = Limits(clock=clock)
    rate = Rate(2, 0.5)
    assert [limits.take("a", rate), limits.take("a", rate)] == [0.0, 0.0]
    assert limits.take("a", rate) == 2.0
    clock.now += 2
    assert limits.take("a", rate) == 0.0
    assert limits.take("a", rate, 9, debt=True) == 0.0
    assert limits.take("a", rate) == 6.0
    for number in range(3 * MOST):
        limits.take(f"address {number}", rate)
    assert len(limits) == MOST


def test_a_household_is_one_address() -> None:
    assert address_of("192.0.2.1") == "192.0.2.1"
    assert address_of("::ffff:192.0.2.1") == "192.0.2.1"
    assert address_of("2001:db8::1") == address_of("2001:db8::ffff:1") != address_of("2001:db8:0:1::1")
    assert address_of("nonsense") == address_of(None)
