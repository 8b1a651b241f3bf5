"""`doctor` says what is wrong between this host and its forge, each with the line that repairs it."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitops_bot.bootstrap.database import Finding
from gitops_bot.bootstrap.forge_doctor import forge_findings
from gitops_bot.config import Settings, load
from gitops_bot.sandbox.http import Sandbox
from tests.capture_stage import REPOSITORY
from tests.forge_stage import BOT, BOT_ID, accounts, populate


@pytest.fixture
def github(tmp_path: Path) -> Iterator[Sandbox]:
    with Sandbox.start(tmp_path / "github") as github:
        token = accounts(github)
        populate(github)
        secret = tmp_path / "forge.token"
        secret.write_text(token, encoding="utf-8")
        secret.chmod(0o600)
        (tmp_path / "gitops-bot.toml").write_text(
            f'[forge]\nrepositories = ["{REPOSITORY}"]\napi_url = "{github.url}"\ntoken_file = "forge.token"\n'
        )
        yield github


def examine(folder: Path) -> dict[str, Finding]:
    settings: Settings = load(folder / "gitops-bot.toml")
    return {finding.name: finding for finding in forge_findings(settings)}


def test_a_sound_forge_is_found_sound(github: Sandbox, tmp_path: Path) -> None:
    found = examine(tmp_path)
    assert all(finding.ok for finding in found.values()), found
    assert str(BOT_ID) in found["forge account"].detail
    assert "may write" in found["forge"].detail


def test_a_bot_that_may_not_write_is_told(github: Sandbox, tmp_path: Path) -> None:
    github.grant(REPOSITORY, BOT, "read")
    found = examine(tmp_path)
    assert not found["forge"].ok and "write access" in found["forge"].fix


def test_a_clock_that_differs_is_told(github: Sandbox, tmp_path: Path) -> None:
    github.set_now(lambda: time.time() + 600)
    found = examine(tmp_path)
    assert not found["forge clock"].ok and "NTP" in found["forge clock"].fix


def test_a_bad_token_is_told_and_never_shown(github: Sandbox, tmp_path: Path) -> None:
    token = (tmp_path / "forge.token").read_text(encoding="utf-8")
    github.expire_token(token)
    found = examine(tmp_path)
    assert not found["forge account"].ok and not found["forge"].ok
    assert token not in repr(found)


def test_a_forge_that_is_away_is_a_finding_not_a_failure(github: Sandbox, tmp_path: Path) -> None:
    github.close()
    found = examine(tmp_path)
    assert not found["forge account"].ok and not found["forge"].ok
