"""An approver's few settings: flags before the file, the file written once, nothing that another could have written."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gitops_bot.bootstrap.approver_profile import name_of, read_profile, write_profile
from gitops_bot.core.errors import ConfigError

REMOTE = "ssh://git@forge.example/acme/approvals.git"
FLAGS = {"remote": REMOTE, "person": "alice"}


def home(tmp_path: Path, **more: str) -> dict[str, str]:
    return {"HOME": str(tmp_path), **more}


def test_what_was_confirmed_is_read_again(tmp_path: Path) -> None:
    first = read_profile(home(tmp_path), {**FLAGS, "ssh_key": "/keys/a"})
    assert (first.written, first.repository, first.environment) == (False, None, "production")
    write_profile(first, "github.com/acme/ops", 7001)
    again = read_profile(home(tmp_path), {})
    assert again == replace(first, written=True, repository="github.com/acme/ops", repository_id=7001)


def test_a_file_that_is_there_is_never_changed(tmp_path: Path) -> None:
    profile = read_profile(home(tmp_path), FLAGS)
    write_profile(profile, "github.com/acme/ops", 7001)
    before = profile.file.read_text()
    write_profile(profile, "github.com/acme/other", 1)
    assert profile.file.read_text() == before


def test_flags_stand_before_the_file_and_another_remote_forgets_its_repository(tmp_path: Path) -> None:
    write_profile(read_profile(home(tmp_path), FLAGS), "github.com/acme/ops", 7001)
    assert read_profile(home(tmp_path), {"person": "bob"}).person == "bob"
    assert read_profile(home(tmp_path), {"person": "bob"}).repository_id == 7001
    other = read_profile(home(tmp_path), {"remote": "https://forge.example/acme/other.git"})
    assert (other.repository, other.repository_id) == (None, None)


def test_the_folders_are_those_of_the_base_directory_specification(tmp_path: Path) -> None:
    plain = read_profile(home(tmp_path), FLAGS)
    assert plain.file == tmp_path / ".config/gitops-bot/approver.toml"
    assert plain.state.parent == tmp_path / ".local/state/gitops-bot/approver"
    moved = read_profile(home(tmp_path, XDG_STATE_HOME="/s", XDG_CONFIG_HOME="/c"), FLAGS)
    assert (moved.file, moved.state.parent) == (Path("/c/gitops-bot/approver.toml"), Path("/s/gitops-bot/approver"))
    assert read_profile(home(tmp_path, XDG_STATE_HOME="relative"), FLAGS).state == plain.state


def test_each_remote_and_environment_has_a_folder_of_its_own() -> None:
    names = {
        name_of(remote, {"environment": environment})
        for remote in (REMOTE, "https://forge.example/acme/approvals.git", "file:///x/..")
        for environment in ("production", "staging")
    }
    assert len(names) == 6
    assert all("/" not in name and not name.startswith(".") for name in names)


@pytest.mark.parametrize(
    "flags",
    [
        {},
        {"remote": REMOTE},
        {"person": "alice"},
        {**FLAGS, "person": "Alice"},
        {**FLAGS, "environment": "../x"},
        {**FLAGS, "remote": "git@forge.example:acme/approvals.git"},
        {**FLAGS, "remote": "https://user:secret@forge.example/a.git"},
        {**FLAGS, "repository": "has blanks in it"},
    ],
)
def test_what_is_missing_or_of_another_form_is_named(tmp_path: Path, flags: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="fix: "):
        read_profile(home(tmp_path), flags)


def test_without_a_home_nothing_is_read() -> None:
    with pytest.raises(ConfigError, match="HOME"):
        read_profile({}, FLAGS)


@pytest.mark.parametrize("text", ["remote = 1", "x = 1", 'person = "a"\nperson = "b"', "repository_id = true", "\xff"])
def test_a_file_with_anything_else_in_it_is_refused(tmp_path: Path, text: str) -> None:
    file = read_profile(home(tmp_path), FLAGS).file
    file.parent.mkdir(parents=True)
    file.write_text(text, encoding="latin-1")
    with pytest.raises(ConfigError):
        read_profile(home(tmp_path), FLAGS)
    file.write_text('environment = "staging"\n')
    assert read_profile(home(tmp_path), FLAGS).environment == "staging"
    file.chmod(0o622)
    with pytest.raises(ConfigError, match="others could have written"):
        read_profile(home(tmp_path), FLAGS)
