"""The signed channel killed, and standing still, at every commit, push, trust file and call from the votes to the
result, with an address that dedupes and with a program that is called at most once.

In the end no vote is lost, the action was done once, and no grant is without its entries in the ledger; `unknown` is
only the end of a program whose attempt was committed and whose result was not.
"""

import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from sqlalchemy import text

from gitops_bot.authority.sealing import DUTY as SEAL
from gitops_bot.authority.sealing import Sealer, verify
from gitops_bot.core.asks import AskId, AskState
from gitops_bot.store import asks, executions, grants_read, ledger, signed_votes
from gitops_bot.store.due import Claimed
from gitops_bot.store.engine import Database
from gitops_bot.store.roles import Role
from gitops_bot.store.states import EffectState, GrantState
from tests.signed_till import PROGRAM, TRANSFER, Till, tills
from tests.store_fixtures import FreshDatabase

ROOT: Final = Path(__file__).parents[2]
WHOLE: Final = os.environ.get("HYPOTHESIS_PROFILE") == "long"
"""Every point only in the long run; else those around the spend's effects and some before."""
Order = Callable[[dict[str, Any]], dict[str, Any]]
SECOND: Final = {"http": TRANSFER, "program": PROGRAM}


@pytest.fixture(scope="module")
def order() -> Iterator[Order]:
    """Give orders to the nursery."""
    nursery = subprocess.Popen(
        [sys.executable, "-m", "tests.crash.signed_nursery"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]},
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
    """A host with two votes pushed and not yet looked at, copied anew for each point."""

    def __init__(self, till: Till, ask: str, order: Order, folder: Path) -> None:
        self.till, self.ask, self.order, self.folder = till, ask, order, folder
        self.copies = itertools.count(1)

    def copy(self) -> Path:
        """Copy what was prepared; give the copy's folder. Nothing was called yet."""
        place = self.folder / f"copy-{next(self.copies)}"
        shutil.copytree(self.till.folder, place, symlinks=True)
        place.chmod(0o700)
        shutil.copy(self.till.fresh.path, place / "gitops-bot.db")
        (place / "url").write_text(f"sqlite:///{place}/gitops-bot.db")
        settings = place / "gitops-bot.toml"
        settings.write_text(settings.read_text().replace(str(self.till.folder), str(place)))
        assert self.till.payee is not None
        self.till.payee.requests.clear()
        self.till.log.unlink(missing_ok=True)
        return place

    def run(self, place: Path, number: int = 0, how: str = "kill") -> dict[str, Any]:
        """Let a broker work on a copy."""
        return self.order({"folder": str(place), "number": number, "how": how})

    def database(self, place: Path, role: Role = Role.BROKER) -> Database:
        """Open a copy's database."""
        return Database.open(f"sqlite:///{place}/gitops-bot.db", role)

    def rush(self, place: Path) -> None:
        """Let the leases of a dead broker run out."""
        owner = self.database(place, Role.OWNER)
        with owner.write() as tx:
            tx._connection.execute(text("UPDATE due SET due_at = 0, leased = 0"))
        owner.close()

    def finish(self, place: Path) -> None:
        """Let another broker go on to the end."""
        self.rush(place)
        lived = self.run(place)
        assert lived["code"] == 0, lived

    def points(self, place: Path) -> list[str]:
        """Read the points that a living broker passed."""
        found: list[str] = json.loads((place / "points.json").read_text())
        return found

    def check(self, place: Path, *, unclear: bool) -> None:
        """Hold the end to what must be true; `unclear` where a program's attempt may have been cut off."""
        database = self.database(place)
        with database.read() as tx:
            ask, grant = asks.get(tx, AskId(self.ask)), grants_read.of_ask(tx, self.ask)
            cast, (execution,) = signed_votes.of_ask(tx, self.ask), executions.of_ask(tx, self.ask)
            told = [str(one["kind"]) for one in ledger.of_ask(tx, self.ask)]
        assert ask is not None and ask.state is AskState.APPROVED
        assert sorted(vote.principal for vote in cast) == ["alice", "bob"]
        assert grant is not None and grant.state is GrantState.SPENT
        for kind in ("grant.minted", "grant.spent", "ask.answered"):
            assert told.count(kind) == 1, told
        assert told.count("vote.counted") == 2
        assert sum(kind in ("effect.done", "effect.unknown", "effect.failed") for kind in told) == 1
        calls = self.till.calls()
        assert {call["key"] for call in calls} <= {grant.id}
        assert all(call["action_hash"] == grant.action_hash for call in calls)
        if ask.verb == TRANSFER:
            assert execution.state is EffectState.DONE and len(calls) >= 1
        elif execution.state is EffectState.UNKNOWN:
            assert unclear and len(calls) <= 1 and told.count("effect.attempted") == 1
        else:
            assert execution.state is EffectState.DONE and len(calls) == 1
        Sealer(database).step(Claimed(SEAL, "ledger", 0, 1))
        found = verify(database)
        assert found.faults == () and found.unsealed == 0
        database.close()


@pytest.fixture(params=sorted(SECOND))
def scene(
    request: pytest.FixtureRequest,
    memory_folder: Path,
    tmp_path_factory: pytest.TempPathFactory,
    sqlite_database: FreshDatabase,
    order: Order,
) -> Iterator[Scene]:
    """Prepare the votes."""
    homes = memory_folder / "gpg-homes"
    with tills(memory_folder, homes, sqlite_database) as opened:
        till = opened()
        ask = till.ready(SECOND[request.param])
        till.vote("alice", ask)
        till.vote("bob", ask)
        till.restart()
        yield Scene(till, ask, order, till.folder.parent)


def chosen(points: list[str]) -> list[int]:
    """Number the points to die at: all of them in the long run, else those around what leaves and some before."""
    if WHOLE:
        return list(range(1, len(points) + 1))
    first = next(place for place, name in enumerate(points, 1) if "trust" in name)
    last = next(place for place, name in enumerate(points, 1) if name == "after call")
    must = {place for place, name in enumerate(points, 1) if name.split()[1] in ("push", "call")}
    return sorted({*range(4, first, 16), *range(first, last + 3, 4), *must})


def attempt_at(points: list[str]) -> tuple[int, int]:
    """Number the points between which a program may have been called: its attempt is committed, its result is not."""
    call = points.index("before call") + 1
    # Between the attempt and the call the trust file is written, which seals the ledger first.
    noted = max(place for place, name in enumerate(points[:call], 1) if name == "before note")
    attempt = max(place for place, name in enumerate(points[:noted], 1) if name == "before commit")
    done = next(place for place, name in enumerate(points, 1) if place > call and name == "after commit")
    return attempt, done


@pytest.mark.slow
def test_killed_at_every_point(scene: Scene) -> None:
    whole = scene.copy()
    assert scene.run(whole)["code"] == 0
    scene.check(whole, unclear=False)
    assert len(scene.till.calls()) == 1
    points = scene.points(whole)
    for what in ("commit", "push", "trust file", "call"):
        assert f"before {what}" in points and f"after {what}" in points
    begin, end = attempt_at(points)
    for number in chosen(points):
        place = scene.copy()
        died = scene.run(place, number)
        assert died["killed"], (number, died)
        scene.finish(place)
        try:
            scene.check(place, unclear=begin <= number < end)
        except AssertionError as error:
            raise AssertionError(f"killed {points[number - 1]}, point {number} of {len(points)}") from error
        shutil.rmtree(place)


@pytest.mark.slow
def test_stopped_past_its_lease_and_resumed(scene: Scene) -> None:
    """A broker stands still at a point, another takes over when the lease has run out, then the first goes on."""
    whole = scene.copy()
    assert scene.run(whole)["code"] == 0
    points = scene.points(whole)
    begin, end = attempt_at(points)
    begun = points.index("before call") + 1
    # A broker that stands still within a transaction, a push or the trust file holds a turn: nobody takes over before
    # it goes on.
    free = [
        place for place, name in enumerate(points, 1) if name.split()[1] in ("verification", "marking", "note", "call")
    ]
    assert len(free) >= 10
    for number in free if WHOLE else [place for place in free if "after" in points[place - 1] or place == begun]:
        place = scene.copy()
        still = scene.run(place, number, "stop")
        assert still["stopped"], (number, still)
        scene.rush(place)
        over = scene.run(place)
        assert over["code"] == 0
        resumed = scene.order({"go on": still["stopped"]})
        assert resumed["code"] == 0, (points[number - 1], resumed)
        scene.finish(place)
        try:
            scene.check(place, unclear=begin <= number < end)
        except AssertionError as error:
            raise AssertionError(f"stopped {points[number - 1]}, point {number} of {len(points)}") from error
        shutil.rmtree(place)
