"""Harnesses are made ready when a body needs them; what this machine cannot keep apart never runs less isolated."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from gitops_bot.bootstrap import fleet
from gitops_bot.bootstrap.fleet import Prepared, harnesses, hidden
from gitops_bot.config import load
from gitops_bot.core.errors import ConfigError, Unavailable
from gitops_bot.ports import BodyEnd, BodyOrder, BodyStop, Harness
from gitops_bot.settings import Settings
from gitops_bot.store.states import HarnessKind

ENDED = BodyEnd(BodyStop.ENDED, 0)


def order(folder: Path, *argv: str, env: Mapping[str, str] | None = None) -> BodyOrder:
    return BodyOrder("agent-1", "run", 1, argv or ("true",), folder, None, b"", env or {}, 10.0)


def nothing(_piece: bytes) -> None:
    return None


class Ready:
    keeps_sessions = True

    def run(self, order: BodyOrder, heard: Callable[[bytes], None], stopping: Callable[[], bool]) -> BodyEnd:
        return ENDED

    def release(self, order: BodyOrder) -> None:
        return None


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "gitops-bot.toml").write_text('[fleet]\nisolation = "none"\n')
    return load(tmp_path / "gitops-bot.toml")


def test_a_harness_is_made_once_and_when_it_is_needed(tmp_path: Path) -> None:
    """A broker without agents of a kind needs nothing of it."""
    made: list[Harness] = []

    def make() -> Harness:
        made.append(Ready())
        return made[-1]

    prepared = Prepared(make, keeps_sessions=True)
    assert prepared.keeps_sessions and made == []
    assert prepared.run(order(tmp_path), nothing, lambda: False) == ENDED
    prepared.release(order(tmp_path))
    assert len(made) == 1


def test_what_does_not_work_here_never_starts_and_is_tried_again(tmp_path: Path) -> None:
    """The turn has never started, with the reason; once the machine is put right, it runs."""
    faults = [ConfigError("no bubblewrap", fix="install it")] * 2

    def make() -> Harness:
        if faults:
            raise faults.pop()
        return Ready()

    prepared = Prepared(make, keeps_sessions=False)
    end = prepared.run(order(tmp_path), nothing, lambda: False)
    assert end.stop is BodyStop.NOT_STARTED and "no bubblewrap" in end.detail
    with pytest.raises(Unavailable, match="no bubblewrap"):
        prepared.release(order(tmp_path))
    assert prepared.run(order(tmp_path), nothing, lambda: False) == ENDED


def test_a_command_runs_under_the_isolation_that_is_set(settings: Settings, tmp_path: Path) -> None:
    """Under `none` a command runs; under a `uid` that is not there it does not run at all."""
    heard: list[bytes] = []
    told = order(tmp_path, "/bin/sh", "-c", "echo $WORD", env={"WORD": "hello"})
    end = harnesses(settings)[HarnessKind.COMMAND].run(told, heard.append, lambda: False)
    assert (end.stop, b"".join(heard)) == (BodyStop.ENDED, b"hello\n")
    elsewhere = replace(settings, fleet=replace(settings.fleet, isolation="uid", run_as="nobody-of-this-name"))
    end = harnesses(elsewhere)[HarnessKind.COMMAND].run(told, heard.append, lambda: False)
    assert end.stop is BodyStop.NOT_STARTED and len(heard) == 1


def test_everything_with_a_secret_is_hidden(settings: Settings, tmp_path: Path) -> None:
    """Database, state, keys and tokens, as far as they are there, are named to whoever isolates."""
    for path in (settings.state, settings.signed.keys_dir):
        path.mkdir(parents=True, exist_ok=True)
    token = tmp_path / "token"
    token.touch()
    elsewhere = tmp_path / "elsewhere.db"
    elsewhere.touch()
    named = replace(
        settings,
        forge=replace(settings.forge, token_file=token),
        database_url=f"sqlite:///{elsewhere}",
    )
    assert {settings.state, settings.signed.keys_dir, token, elsewhere} <= set(hidden(named))
    assert hidden(settings) and all(path.exists() for path in hidden(settings))


def test_acpx_that_is_not_installed_is_said(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent behind acpx is told of in its thread, not left to fail in the dark."""
    monkeypatch.setattr(fleet, "SYSTEM_PATH", str(tmp_path))
    end = harnesses(settings)[HarnessKind.ACPX].run(order(tmp_path), nothing, lambda: False)
    assert end.stop is BodyStop.NOT_STARTED and "acpx" in end.detail
