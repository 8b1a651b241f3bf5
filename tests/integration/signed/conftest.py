"""A host with a signed channel for each test that asks for one."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.approver_stage import Machine
from tests.signed_host import SignedHost
from tests.signed_pin import PinHost
from tests.store_fixtures import FreshDatabase


@pytest.fixture
def host(tmp_path: Path, sqlite_database: FreshDatabase, monkeypatch: pytest.MonkeyPatch) -> Iterator[SignedHost]:
    """A host on which nothing has happened yet."""
    for name in ("GITOPS_BOT_CONFIG", "GITOPS_BOT_URL", "GITOPS_BOT_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    opened = SignedHost(tmp_path / "host", sqlite_database)
    yield opened
    opened.close()


@pytest.fixture
def machine(host: SignedHost, tmp_path: Path) -> Iterator[Callable[..., Machine]]:
    """Make machines of people who sign for the host; what gpg started for them ends with the test."""
    with ExitStack() as closing:

        def make(person: str = "alice", kind: str = "ssh", **options: Any) -> Machine:
            made = Machine(tmp_path / f"machine-{person}-{kind}", host.stage.url, person, kind, **options)
            closing.callback(made.close)
            return made

        yield make


@pytest.fixture(scope="session")
def gpg_homes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The homes of gpg, which are named by their certificates: making one takes longer than a test."""
    return tmp_path_factory.mktemp("gpg") / "homes"


@pytest.fixture
def pin_host(
    tmp_path: Path, sqlite_database: FreshDatabase, gpg_homes: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[PinHost]:
    """A host on which policies are adopted, and nothing has happened yet."""
    for name in ("GITOPS_BOT_CONFIG", "GITOPS_BOT_URL", "GITOPS_BOT_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    opened = PinHost(tmp_path / "host", sqlite_database, homes=gpg_homes)
    yield opened
    opened.close()
