"""Stages that several scenarios play on."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gitops_bot.sandbox.http import Sandbox
from gitops_bot.store.roles import Role
from tests.decisions import rules_of
from tests.forge_stage import WITH_WRITE, ForgeStage, accounts, populate
from tests.store_fixtures import FreshDatabase


@pytest.fixture
def forge(sqlite_database: FreshDatabase, tmp_path: Path) -> Iterator[ForgeStage]:
    """A broker's duties between a fresh database and a local GitHub with alice, bob, carol and mallory."""
    with Sandbox.start(tmp_path / "github") as github:
        token = accounts(github)
        populate(github)
        database = sqlite_database.open(Role.BROKER)
        stage = ForgeStage(database, rules_of(WITH_WRITE), folder=tmp_path, github=github, token=token)
        yield stage
        stage.adapter.disconnect()
