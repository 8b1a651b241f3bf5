"""Every test of a row has a court of its own."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from gitops_bot.store.roles import Role

pytest.register_assert_rewrite("tests.signed_cases")

from tests.signed_court import Court  # noqa: E402 # what is checked there shows its values when it fails
from tests.store_fixtures import FreshDatabase  # noqa: E402 # stands with the one above

_COURTS: Final = itertools.count(1)


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The homes of gpg, which are named by their certificates: making one takes longer than a test."""
    return tmp_path_factory.mktemp("gpg") / "homes"


@pytest.fixture
def court(memory_folder: Path, homes: Path, sqlite_database: FreshDatabase) -> Iterator[Court]:
    """An empty court in memory, for git syncs all that the broker fetches."""
    folder = memory_folder / f"court-{next(_COURTS)}"
    folder.mkdir(mode=0o700)
    opened = Court(folder, sqlite_database.open(Role.BROKER), homes=homes)
    yield opened
    opened.close()
