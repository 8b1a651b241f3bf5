"""Settings: unknown keys are errors with the nearest one, secrets must be their owner's, environment beats file."""

import re
from pathlib import Path

import pytest

from gitops_bot.config import DEFAULTS, load, secret
from gitops_bot.core.errors import ConfigError

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITOPS_BOT_CONFIG", raising=False)


def write(folder: Path, text: str) -> Path:
    file = folder / "gitops-bot.toml"
    file.write_text(text, "utf-8")
    return file


def test_defaults_stand_without_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A newcomer needs no file."""
    monkeypatch.chdir(tmp_path)
    settings = load()
    assert settings.bind_host == "127.0.0.1"
    assert settings.database_url.startswith("sqlite:///")
    assert settings.forge.repositories == ()


def test_a_file_that_is_named_must_exist(tmp_path: Path) -> None:
    """A typo in --config never means defaults."""
    with pytest.raises(ConfigError):
        load(tmp_path / "absent.toml")
    assert load(write(tmp_path, "")).name == "gitops-bot"


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("[forge]\nrepositorys = []\n", "repositories"),
        ("[forgee]\n", r"\[forge\]"),
        ("polices = 'x'\n", "policies"),
    ],
)
def test_an_unknown_key_names_the_nearest(tmp_path: Path, text: str, near: str) -> None:
    """A misspelt key never passes silently."""
    with pytest.raises(ConfigError, match=near):
        load(write(tmp_path, text))


@pytest.mark.parametrize(
    "text",
    [
        "[asks]\nmax_open_gated = '5'\n",
        "[asks]\nmax_open_gated = true\n",
        "[forge]\nrepositories = [1]\n",
        "[forge]\npoll_fast = '2 s'\n",
        "[workspace]\nbind = 'nowhere'\n",
        "[forge]\nkind = 'gitlab'\n",
        "= 1\n",
    ],
)
def test_a_value_of_another_shape_is_refused(tmp_path: Path, text: str) -> None:
    """Bad settings stop the start, each with its own line."""
    with pytest.raises(ConfigError):
        load(write(tmp_path, text))


def test_variables_beat_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The order is file, environment, flags."""
    file = write(tmp_path, "[forge]\nrepositories = ['acme/a']\n[asks]\nmax_open_bound = 3\n")
    monkeypatch.setenv("GITOPS_BOT_FORGE_REPOSITORIES", "acme/b,acme/c")
    monkeypatch.setenv("GITOPS_BOT_ASKS_MAX_OPEN_BOUND", "7")
    monkeypatch.setenv("GITOPS_BOT_BROKER_DEGRADED", "true")
    settings = load(file)
    assert settings.forge.repositories == ("acme/b", "acme/c")
    assert settings.max_open_bound == 7
    assert settings.degraded


@pytest.mark.parametrize(
    ("name", "value"), [("GITOPS_BOT_FORGE_TOKENFILE", "x"), ("GITOPS_BOT_ASKS_MAX_OPEN_BOUND", "many")]
)
def test_an_unknown_or_bad_variable_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    """A misspelt variable never passes silently; what agents are handed is exempt."""
    monkeypatch.setenv("GITOPS_BOT_URL", "http://localhost:1")
    monkeypatch.setenv("GITOPS_BOT_TOKEN", "t")
    load(write(tmp_path, ""))
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError):
        load(write(tmp_path, ""))


def test_a_secret_is_read_only_from_its_owners_file(tmp_path: Path) -> None:
    """Neither an open file nor a link gives a secret, and no error shows one."""
    file = tmp_path / "token"
    file.write_text("hunter2\n", "utf-8")
    file.chmod(0o644)
    link = tmp_path / "link"
    link.symlink_to(file)
    for bad in (file, link, tmp_path / "absent"):
        with pytest.raises(ConfigError) as caught:
            secret(bad, "token")
        assert "hunter2" not in str(caught.value)
    file.chmod(0o600)
    assert secret(file, "token") == "hunter2"


def test_a_path_with_odd_letters_stays_one_path(tmp_path: Path) -> None:
    """The default database URL names the file that lies in the state folder, whatever it is called."""
    from gitops_bot.bootstrap.database import sqlite_path

    folder = tmp_path / "100%41 #1"
    folder.mkdir()
    settings = load(write(folder, ""))
    assert sqlite_path(settings.database_url) == settings.state / "gitops-bot.db"


def test_every_key_is_documented() -> None:
    """docs/configuration.md lists exactly the keys that exist."""
    text = (ROOT / "docs" / "configuration.md").read_text("utf-8")
    named = {
        name for row in re.findall(r"^\| (`[^|]*) \|", text, re.MULTILINE) for name in re.findall(r"`([a-z_]+)`", row)
    }
    assert named == {key for keys in DEFAULTS.values() for key in keys}
