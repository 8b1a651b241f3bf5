"""A workspace with rows of every kind, and browsers in which alice is signed in or nobody is."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pytest
from sqlalchemy import select
from werkzeug.test import TestResponse

from gitops_bot.authority.rules import Rules
from gitops_bot.store.engine import Database
from gitops_bot.store.roles import Role
from gitops_bot.store.schema import metadata
from tests.decisions import rules_of
from tests.policy_bundles import GONE
from tests.signed_in import PersonClient, browser
from tests.store_fixtures import FreshDatabase
from tests.unit.workspace.conftest import Workplace
from tests.unit.workspace.pages.rows import Filled, fill

HTML: Final = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
"""What browsers ask for when a person opens an address."""


@dataclass
class Desk:
    """What a test of the pages holds: `alice` is signed in, in `stranger` nobody is."""

    workplace: Workplace
    broker: Database
    owner: Database
    alice: PersonClient
    stranger: PersonClient

    def open(self, path: str, who: PersonClient | None = None) -> TestResponse:
        """Open an address as a person does; alice, unless somebody else is named."""
        return (who or self.alice).get(path, headers=HTML)

    def page(self, path: str) -> str:
        """Open a page as alice and insist that it is one."""
        response = self.open(path)
        assert response.status_code == 200, response.get_data(as_text=True)[:2000]
        assert response.mimetype == "text/html"
        return response.get_data(as_text=True)

    def rows(self) -> dict[str, list[Any]]:
        """Read every row of every table."""
        with self.owner.read() as tx:
            return {table.name: [tuple(row) for row in tx.execute(select(table))] for table in metadata.sorted_tables}


@pytest.fixture
def rules() -> Rules:
    return rules_of({"people/alice/passkey": GONE})


@pytest.fixture
def desk(workplace: Workplace, sqlite_database: FreshDatabase) -> Iterator[Desk]:
    broker, owner = sqlite_database.open(Role.BROKER), sqlite_database.open(Role.OWNER)
    yield Desk(workplace, broker, owner, workplace.person("alice"), browser(workplace.app, workplace.services))


@pytest.fixture
def filled(desk: Desk) -> Filled:
    return fill(desk.broker, desk.workplace.services.rules)
