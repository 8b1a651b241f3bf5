"""A host with a signed channel for each test that asks for one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.signed_host import SignedHost
from tests.store_fixtures import FreshDatabase


@pytest.fixture
def host(tmp_path: Path, sqlite_database: FreshDatabase, monkeypatch: pytest.MonkeyPatch) -> Iterator[SignedHost]:
    """A host on which nothing has happened yet."""
    for name in ("GITOPS_BOT_CONFIG", "GITOPS_BOT_URL", "GITOPS_BOT_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    opened = SignedHost(tmp_path / "host", sqlite_database)
    yield opened
    opened.close()
