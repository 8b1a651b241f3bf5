"""Which SQLite library and journal are safe, and that a turn is one writer's."""

import importlib
import sqlite3
import stat
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from gitops_bot.store import sqlite


@pytest.mark.parametrize(
    ("version", "sound"),
    (
        ((3, 7, 0), False),
        ((3, 40, 1), False),
        ((3, 44, 5), False),
        ((3, 44, 6), True),
        ((3, 44, 7), True),
        ((3, 45, 0), False),
        ((3, 45, 9), False),
        ((3, 50, 0), False),
        ((3, 50, 6), False),
        ((3, 50, 7), True),
        ((3, 50, 8), True),
        ((3, 51, 0), False),
        ((3, 51, 2), False),
        ((3, 51, 3), True),
        ((3, 52, 0), True),
        ((3, 53, 4), True),
        ((4, 0, 0), True),
    ),
)
def test_a_library_with_the_wal_reset_fault_is_known(version: tuple[int, ...], sound: bool) -> None:
    assert sqlite.is_sound(version) is sound


def with_libraries(
    monkeypatch: pytest.MonkeyPatch, standard: tuple[int, ...], wheel: tuple[int, ...] | None
) -> SimpleNamespace:
    """Pretend versions of the interpreter's own library and of the wheel (None: not installed)."""
    fake = SimpleNamespace(sqlite_version_info=wheel, __name__="pysqlite3.dbapi2")

    def load(name: str) -> object:
        if wheel is None:
            raise ImportError(name)
        return fake

    monkeypatch.setattr(sqlite.sqlite3, "sqlite_version_info", standard)
    monkeypatch.setattr(importlib, "import_module", load)
    return fake


@pytest.mark.parametrize("wheel", (None, (3, 53, 4)))
def test_a_sound_standard_library_is_used_with_wal(
    monkeypatch: pytest.MonkeyPatch, wheel: tuple[int, ...] | None
) -> None:
    with_libraries(monkeypatch, (3, 51, 3), wheel)
    chosen = sqlite.choose_library()
    assert (chosen.module, chosen.journal) == (sqlite3, "WAL")


def test_an_affected_one_gives_way_to_a_sound_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = with_libraries(monkeypatch, (3, 40, 1), (3, 53, 4))
    chosen = sqlite.choose_library()
    assert (chosen.module, chosen.journal) == (fake, "WAL")
    assert chosen.name == "pysqlite3.dbapi2 3.53.4, WAL journal"


@pytest.mark.parametrize("wheel", (None, (3, 51, 2)))
def test_an_affected_one_alone_never_gets_wal(monkeypatch: pytest.MonkeyPatch, wheel: tuple[int, ...] | None) -> None:
    with_libraries(monkeypatch, (3, 40, 1), wheel)
    for force in (False, True):
        chosen = sqlite.choose_library(force)
        assert (chosen.module, chosen.journal) == (sqlite3, "TRUNCATE")


def test_a_turn_is_one_threads_until_it_ends(tmp_path: Path) -> None:
    database, order, inside = tmp_path / "a.db", [], threading.Event()

    def second() -> None:
        inside.wait(10)
        with sqlite.turn(database):
            order.append("second")

    thread = threading.Thread(target=second)
    thread.start()
    with sqlite.turn(database):
        inside.set()
        thread.join(0.2)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]
    assert stat.S_IMODE((tmp_path / "a.db.lock").stat().st_mode) == 0o600


def test_a_turn_ends_with_what_raises(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), sqlite.turn(tmp_path / "a.db"):
        raise ZeroDivisionError
    with sqlite.turn(tmp_path / "a.db"):
        pass
