"""A workspace with rows of every kind, and browsers in which alice is signed in or nobody is."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from gitops_bot.authority.rules import Rules
from gitops_bot.store.engine import Database
from gitops_bot.store.roles import Role
from tests.decisions import rules_of
from tests.policy_bundles import GONE
from tests.signed_in import PersonClient, browser
from tests.store_fixtures import FreshDatabase
from tests.unit.workspace.conftest import Workplace
from tests.unit.workspace.pages.rows import Filled, fill


@dataclass
class Desk:
    """What a test of the pages holds: `alice` is signed in, in `stranger` nobody is."""

    workplace: Workplace
    broker: Database
    alice: PersonClient
    stranger: PersonClient

    def page(self, path: str) -> str:
        """Open a page as alice and insist that it is one."""
        response = self.alice.get(path, headers={"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
        assert response.status_code == 200, response.get_data(as_text=True)[:2000]
        assert response.mimetype == "text/html"
        return response.get_data(as_text=True)


@pytest.fixture
def rules() -> Rules:
    return rules_of({"people/alice/passkey": GONE})


@pytest.fixture
def desk(workplace: Workplace, sqlite_database: FreshDatabase) -> Iterator[Desk]:
    broker = sqlite_database.open(Role.BROKER)
    yield Desk(workplace, broker, workplace.person("alice"), browser(workplace.app, workplace.services))


@pytest.fixture
def filled(desk: Desk) -> Filled:
    return fill(desk.broker, desk.workplace.services.rules)
