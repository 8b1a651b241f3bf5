"""The forge channel killed at every commit and at every answer, and met by every fault at every request.

In the end there is one pull request, one status comment, one reaction of each kind, one verdict and one rescope. The
broker is a process that dies by SIGKILL; the forge is another one that does not.
"""

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from gitops_bot.authority import outbox as deliveries
from gitops_bot.core.asks import AskState
from gitops_bot.core.captures import CaptureState
from gitops_bot.core.readings import Reaction
from gitops_bot.forge import transport
from gitops_bot.sandbox.faults import Fault, Push
from gitops_bot.sandbox.http import Sandbox
from gitops_bot.store import asks, captures
from gitops_bot.store.roles import Role
from tests.crash.forge_nursery import stage_of
from tests.crash.warmed import open_broker, short
from tests.forge_stage import APPROVE, BOT_ID, ForgeStage, accounts, populate
from tests.store_fixtures import FreshDatabase

__all__ = ["short"]

ROOT: Final = Path(__file__).parents[2]
PHASES: Final = ("open", "approve")
Order = dict[str, Any]


@pytest.fixture(scope="module")
def nursery() -> Iterator[Callable[[Order], Order]]:
    """Give orders to processes that die."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.crash.forge_nursery"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]},
    )

    def give(order: Order) -> Order:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps(order) + "\n")
        process.stdin.flush()
        answered: Order = json.loads(process.stdout.readline())
        return answered

    yield give
    process.communicate(timeout=30)


class Theatre:
    """A local GitHub with a repository of its own for each point, and a database copied anew."""

    def __init__(self, github: Sandbox, template: Path, folder: Path) -> None:
        self.github = github
        self.token = accounts(github)
        self.template = template
        self.folder = folder
        self.number = 0
        self.said: int | None = None

    def order(self) -> Order:
        """Make a new point: an empty database, an empty outside, a fresh repository."""
        self.number += 1
        place = self.folder / str(self.number)
        place.mkdir(mode=0o700)
        shutil.copy(self.template, place / "gitops-bot.db")
        repository = f"acme/ops-{self.number}"
        populate(self.github, repository, 10_000 + self.number)
        self.said = None
        return {
            "url": f"sqlite:///{place}/gitops-bot.db",
            "folder": str(place),
            "forge": self.github.url,
            "token": self.token,
            "repository": repository,
            "moment": "before",
            "number": 0,
        }

    def stage(self, order: Order) -> ForgeStage:
        """Open a point in this process."""
        return stage_of(open_broker(order["url"]), order, self.github)

    def prepare(self, order: Order, phase: str) -> None:
        """Bring a point to where its phase begins: asked, or with an open draft and an approval on it."""
        stage = self.stage(order)
        stage.requested()
        if phase == "approve":
            stage.look()
            self.approve(order)
        leave(stage)

    def approve(self, order: Order) -> None:
        """Let alice approve, once the draft is there."""
        if self.said is None:
            number = max(thread.number for thread in self.github.threads(order["repository"]))
            self.said = self.github.comment(order["repository"], number, "alice", APPROVE)

    def finish(self, order: Order) -> ForgeStage:
        """Let another process take over, and the person approve, until nothing is left to do."""
        stage = self.stage(order)
        stage.look()
        self.approve(order)
        stage.look()
        return stage

    def check(self, stage: ForgeStage, order: Order) -> None:
        """One of each, and nothing else."""
        threads = self.github.threads(order["repository"])
        assert len(threads) == 1 and threads[0].open
        (capture,) = stage.read(lambda tx: captures.page(tx, "", 9))
        assert capture.state is CaptureState.RESCOPED
        written = [c for c in self.github.comments(order["repository"], 1) if c.author_id == BOT_ID]
        assert len(written) == 1 and "gitops-bot:ask=" in written[0].body and "goes on under it" in written[0].body
        left = Counter(reaction.content for reaction in self.github.reactions(self.said or 0))
        assert left == {Reaction.EYES: 1, Reaction.ROCKET: 1}
        assert (stage.count("verdicts"), stage.count("votes"), stage.count("claims")) == (1, 1, 1)
        assert stage.link.taken() == [f"loop-1:1 rescope:{capture.ask}"]
        assert len({call["job"] for call in stage.outside.calls("submit")}) == 1
        assert threads[0].pull is not None and not threads[0].pull.draft


def leave(stage: ForgeStage) -> None:
    stage.adapter.disconnect()
    stage.database.close()


@pytest.fixture
def theatre(sqlite_database: FreshDatabase, short: Path) -> Iterator[Theatre]:
    sqlite_database.open(Role.BROKER)
    sqlite_database.close()
    with Sandbox.start(short / "github") as github:
        yield Theatre(github, sqlite_database.path, short)


@pytest.mark.slow
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("moment", ["before", "after", "answered"])
def test_killed_at_every_point(theatre: Theatre, nursery: Callable[[Order], Order], phase: str, moment: str) -> None:
    whole = theatre.order()
    theatre.prepare(whole, phase)
    lived = nursery({**whole, "moment": moment})
    assert lived["code"] == 0 and lived["steps"] > 5, lived
    stage = theatre.finish(whole)
    theatre.check(stage, whole)
    leave(stage)
    for number in range(1, lived["steps"] + 1):
        order = theatre.order()
        theatre.prepare(order, phase)
        ended = nursery({**order, "moment": moment, "number": number})
        assert ended["killed"] or (ended["code"] == 0 and number > lived["steps"] // 2), (number, ended)
        stage = theatre.finish(order)
        try:
            theatre.check(stage, order)
        except AssertionError as error:
            raise AssertionError(f"{phase}, killed {moment} {number} of {lived['steps']}") from error
        leave(stage)


FAULTS: Final = {
    "502 after its effect": Fault("*", 502, after_effect=True),
    "503": Fault("*", 503),
    "a secondary limit": Fault("*", 403, headers={"Retry-After": "0"}),
    "an expired token": Fault("*", 401),
    "slow": Fault("*", None, delay=0.9),
}


class Nth:
    """Counts requests of a point, and lets the nth meet a fault."""

    def __init__(self, theatre: Theatre, fault: Fault | None, number: int) -> None:
        self.seen = 0
        faults = theatre.github.world.faults

        def take(*_: str) -> Fault | None:
            self.seen += 1
            return fault if self.seen == number else None

        self._faults = faults
        faults.take = take  # type: ignore[method-assign] # this forge is the test's own

    def end(self) -> None:
        """Meet no more."""
        del self._faults.take  # type: ignore[attr-defined] # back to the class's own


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_at_every_request(theatre: Theatre, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    if fault == "slow":
        # Given up on before its effect, which comes before it is tried again: that is what looking first can tell.
        monkeypatch.setattr(transport, "TIMEOUT", 0.5)
        monkeypatch.setattr(deliveries.due, "back_off", lambda *_, first_ms, **__: 1_500 if first_ms >= 500 else 5)
    else:
        monkeypatch.setattr(deliveries, "TURNED_AWAY_MS", 5)
        monkeypatch.setattr(deliveries.due, "back_off", lambda *_, **__: 5)

    def play(number: int) -> int:
        order = theatre.order()
        theatre.prepare(order, "open")
        meeting = Nth(theatre, FAULTS[fault] if number else None, number)
        stage = theatre.finish(order)
        met = meeting.seen
        meeting.end()
        try:
            theatre.check(stage, order)
        except AssertionError as error:
            raise AssertionError(f"{fault} at request {number}") from error
        leave(stage)
        return met

    requests = play(0)
    assert requests > 20
    for number in range(1, requests + 1):
        play(number)


@pytest.mark.slow
def test_a_head_that_moves_after_every_request(theatre: Theatre) -> None:
    """Wherever somebody pushes: either all was told before, or it is asked anew on one successor, and never measured
    under the moved head."""
    order = theatre.order()
    theatre.prepare(order, "approve")
    counting = Nth(theatre, None, 0)
    leave(theatre.finish(order))
    total = counting.seen
    counting.end()
    for number in range(1, total + 1):
        order = theatre.order()
        theatre.prepare(order, "approve")
        repository = theatre.github.world.model.directory.repository_named(order["repository"])
        branch = next(name for name in theatre.github.branches(order["repository"]) if name != "main")
        assert repository is not None
        theatre.github.world.faults.plan_push(Push("*", number, repository.id, branch, 1002))
        stage = theatre.finish(order)
        (capture,) = stage.read(lambda tx: captures.page(tx, "", 9))
        threads = theatre.github.threads(order["repository"])
        if capture.state is CaptureState.RESCOPED:
            assert len(threads) == 1 and len(stage.link.taken()) == 1, number
        else:
            assert capture.state is CaptureState.REQUESTED and stage.link.taken() == [], number
            assert [thread.open for thread in threads] == [False, True], number
            opened = stage.read(lambda tx: asks.page(tx, "", 9, only_open=True))
            assert [ask.id for ask in opened] == [capture.ask], number
            old = stage.get(stage.read(lambda tx: asks.page(tx, "", 9))[0].id)
            assert old.state in (AskState.SUPERSEDED, AskState.APPROVED), number
        for thread in threads:
            written = theatre.github.comments(order["repository"], thread.number)
            statuses = [c for c in written if c.author_id == BOT_ID and "gitops-bot:ask=" in c.body]
            assert len(statuses) == 1, number
        leave(stage)
