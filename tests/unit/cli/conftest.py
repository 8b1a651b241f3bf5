"""A host that is set up: settings, the repository's own policy, pinned, and a migrated database; and the command."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gitops_bot.bootstrap.trust import pin
from gitops_bot.cli import run
from gitops_bot.config import Settings, load
from gitops_bot.store.engine import Database
from gitops_bot.store.roles import Role
from tests.store_fixtures import FreshDatabase

POLICIES = Path(__file__).parents[3] / "policies"


@dataclass
class Host:
    """One set-up host; `bot` runs a command on it."""

    folder: Path
    database: FreshDatabase
    capture: pytest.CaptureFixture[str]

    @property
    def settings(self) -> Settings:
        return load(self.folder / "gitops-bot.toml")

    def open(self, role: Role = Role.HOST) -> Database:
        return self.database.open(role)

    def bot(self, *arguments: str) -> tuple[int, str, str]:
        """Run `gitops-bot …` with this host's settings; gives its exit status and what it printed."""
        self.capture.readouterr()
        try:
            status = run([*arguments, "--config", str(self.folder / "gitops-bot.toml")])
        except SystemExit as ending:
            status = int(ending.code or 0)
        out, err = self.capture.readouterr()
        return status, out, err


@pytest.fixture
def host(
    tmp_path: Path,
    sqlite_database: FreshDatabase,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Host]:
    for name in ("GITOPS_BOT_CONFIG", "GITOPS_BOT_URL", "GITOPS_BOT_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "host"
    folder.mkdir(mode=0o700)
    shutil.copytree(POLICIES, folder / "policies")
    state = folder / ".gitops-bot"
    state.mkdir(mode=0o700)
    (folder / "url").touch(mode=0o600)
    (folder / "url").write_text(sqlite_database.owner_url)
    (folder / "gitops-bot.toml").write_text('[database]\nurl_file = "url"\n')
    pin(folder / "policies", state / "trust.json")
    yield Host(folder, sqlite_database, capsys)
