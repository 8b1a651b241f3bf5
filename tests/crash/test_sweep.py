"""Killed at every commit, before it and right after it, and begun again: nothing is lost, nothing is done twice.

One process for each point (SIGKILL; no handler runs). What the outside saw is in files that outlive the process.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gitops_bot.authority.sealing import DUTY, Sealer, verify
from gitops_bot.store.due import Claimed
from gitops_bot.store.roles import Role
from tests.crash.warmed import open_broker, short
from tests.crash_works import WORKS, stage_of
from tests.store_fixtures import FreshDatabase

__all__ = ["short"]

ROOT = Path(__file__).parents[2]
Order = Callable[[dict[str, Any]], dict[str, Any]]


@pytest.fixture(scope="module")
def order() -> Iterator[Order]:
    """Give orders to the nursery."""
    nursery = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("nursery.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
    )

    def give(order: dict[str, Any]) -> dict[str, Any]:
        assert nursery.stdin is not None and nursery.stdout is not None
        nursery.stdin.write(json.dumps(order) + "\n")
        nursery.stdin.flush()
        answered: dict[str, Any] = json.loads(nursery.stdout.readline())
        return answered

    yield give
    nursery.communicate(timeout=30)


class Scene:
    """A prepared database and outside, copied anew for each point."""

    def __init__(self, prepared: Path, folder: Path, work: str) -> None:
        self.prepared = prepared
        self.folder = folder
        self.work = work

    def copy(self, name: str) -> Path:
        """Copy what was prepared; give the copy's folder."""
        place = self.folder / name
        shutil.copytree(self.prepared, place)
        place.chmod(0o700)
        return place

    def order(self, place: Path, moment: str, number: int) -> dict[str, Any]:
        """Make the order that works on a copy."""
        return {
            "url": f"sqlite:///{place}/gitops-bot.db",
            "folder": str(place),
            "work": self.work,
            "moment": moment,
            "number": number,
        }


def scene_of(fresh: FreshDatabase, folder: Path, work: str) -> Scene:
    prepared = folder / "prepared"
    prepared.mkdir(mode=0o700)
    database = fresh.open(Role.BROKER)
    WORKS[work].prepare(stage_of(database, prepared))
    fresh.close()
    shutil.copy(fresh.path, prepared / "gitops-bot.db")
    assert not fresh.path.with_name(fresh.path.name + "-wal").exists(), "closing the last connection empties the log"
    return Scene(prepared, folder, work)


def hold(place: Path, work: str) -> None:
    """Begin the work again as the next process does, then check its end and the whole ledger."""
    database = open_broker(f"sqlite:///{place}/gitops-bot.db")
    stage = stage_of(database, place)
    WORKS[work].do(stage)
    sealer = Sealer(database)
    sealer.step(Claimed(DUTY, "ledger", 0, 1))
    WORKS[work].check(stage)
    found = verify(database)
    assert found.faults == () and found.unsealed == 0
    database.close()


@pytest.mark.parametrize(
    "work",
    [pytest.param(work, marks=[pytest.mark.slow] if work.startswith(("capture", "fleet")) else []) for work in WORKS],
)
def test_killed_at_every_commit(sqlite_database: FreshDatabase, short: Path, order: Order, work: str) -> None:
    scene = scene_of(sqlite_database, short, work)
    whole = scene.copy("whole")
    lived = order(scene.order(whole, "before", 0))
    assert lived["code"] == 0 and lived["commits"] >= 1
    hold(whole, work)
    for number in range(1, lived["commits"] + 1):
        for moment in ("before", "after"):
            place = scene.copy(f"{moment}-{number}")
            ended = order(scene.order(place, moment, number))
            # The last points may lie beyond the end: how often a duty looks again depends on the clock.
            assert ended["killed"] or (ended["code"] == 0 and number > lived["commits"] // 2), (moment, number, ended)
            try:
                hold(place, work)
            except AssertionError as error:
                raise AssertionError(f"killed {moment} commit {number}") from error
            shutil.rmtree(place)
