"""One comment by all six ways at one instant: two workspaces as processes, two brokers, a barrier before each round.

The order is whatever it turns out to be. Each round has a comment of its own, and every other round two of them.
"""

import contextlib
import json
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest
import requests

from gitops_bot.authority.duties import RowDuty
from gitops_bot.bootstrap.trust import pin
from gitops_bot.broker import polling
from gitops_bot.core.ledger import EventKind
from gitops_bot.forge.signature import sign
from gitops_bot.store import due
from gitops_bot.store.roles import Role
from tests.capture_stage import REPOSITORY
from tests.forge_stage import REPOSITORY_ID
from tests.hook_stage import SECRET, secret_file
from tests.ports import free_port
from tests.served_stage import BOT, POLICIES, until_ready
from tests.store_fixtures import FreshDatabase
from tests.ways_stage import Both, Told, both
from tests.workflow_runs import Issuer, start

ROUNDS = 24
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("ways-at-once")]


@dataclass
class Workspace:
    """One that runs as a process. `said` are the statuses of everything that was posted."""

    url: str
    audience: str
    issuer: Issuer
    session: requests.Session
    said: list[int]

    def deliver(self, guid: str, body: bytes) -> None:
        """Deliver a comment."""
        headers = {
            "Content-Type": "application/json",
            "X-GitHub-Event": "issue_comment",
            "X-GitHub-Delivery": guid,
            "X-Hub-Signature-256": sign(SECRET, body),
        }
        self.said.append(
            self.session.post(f"{self.url}/hooks/github", data=body, headers=headers, timeout=60).status_code
        )

    def hand_in(self, told: Told) -> None:
        """Hand a comment in, as a run."""
        hint = {"repository_id": REPOSITORY_ID, "comment_id": told.comment, "pull_request": told.number}
        headers = {"Authorization": f"Bearer {self.issuer.token(self.audience)}"}
        answer = self.session.post(f"{self.url}/hooks/actions", json=hint, headers=headers, timeout=60)
        self.said.append(answer.status_code)


@contextlib.contextmanager
def workspace(home: Path, database_url: str, issuer: Issuer) -> Iterator[Workspace]:
    """Run one over rows that others have too."""
    home.mkdir(mode=0o700)
    shutil.copytree(POLICIES, home / "policies")
    (home / ".gitops-bot").mkdir(mode=0o700)
    (home / "url").touch(mode=0o600)
    (home / "url").write_text(database_url)
    port, secret = free_port(), secret_file(home)
    config = home / "gitops-bot.toml"
    config.write_text(
        f'[database]\nurl_file = "url"\n[workspace]\nbind = "127.0.0.1:{port}"\n'
        f'[forge]\nrepositories = ["{REPOSITORY}"]\nactions_issuer = "{issuer.url}"\n'
        f"webhook_secret_files = {json.dumps([str(secret)])}\n"
    )
    pin(home / "policies", home / ".gitops-bot" / "trust.json")
    url, log = f"http://127.0.0.1:{port}", home / "log"
    with log.open("wb") as written, requests.Session() as session:
        process = subprocess.Popen([*BOT, "workspace", "--config", str(config)], cwd=home, stderr=written)
        try:
            until_ready(url, process, log)
            yield Workspace(url, f"http://localhost:{port}", issuer, session, [])
            assert "Traceback" not in log.read_text()
        finally:
            process.kill()
            process.wait()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)])
def raced(request: pytest.FixtureRequest) -> FreshDatabase:
    """A fresh database on each engine that has its own way to let one win."""
    found: FreshDatabase = request.getfixturevalue(f"{request.param}_database")
    return found


@dataclass
class Race:
    """Everything of a race: the rows and brokers, and both workspaces."""

    both: Both
    workspaces: tuple[Workspace, Workspace]
    pool: ThreadPoolExecutor

    def at_once(self, *deeds: Callable[[], object]) -> None:
        """Do things at one instant."""
        barrier = threading.Barrier(len(deeds))

        def one(deed: Callable[[], object]) -> None:
            barrier.wait(60)
            deed()

        for done in [self.pool.submit(one, deed) for deed in deeds]:
            done.result(120)

    def ways(self, told: Told) -> list[Callable[[], object]]:
        """Give the ways by which a comment is delivered or handed in, each in the process that it comes to."""
        one, two = self.workspaces
        return [
            partial(one.deliver, told.guid, told.by_repository),
            partial(two.deliver, str(uuid4()), told.by_app),
            partial(two.deliver, told.guid, told.by_repository),
            partial(one.deliver, str(uuid4()), told.by_repository),
            partial(one.hand_in, told),
            partial(two.hand_in, told),
        ]

    def polls(self) -> list[Callable[[], object]]:
        """Give both brokers' polls, and what reads the comments meanwhile."""
        with self.both.owner.write() as tx:
            due.set_due(tx, polling.DUTY, REPOSITORY, tx.now)
        found: list[RowDuty] = [pair.of(polling.DUTY)[0] for pair in self.both.pairs]
        return [*(duty.step for duty in found), self.both.pairs[1].act]


@pytest.fixture
def race(raced: FreshDatabase, tmp_path: Path) -> Iterator[Race]:
    issuer = start()
    issuer.key_set()  # the key is made before several threads want it
    with contextlib.ExitStack() as stack:
        stack.callback(issuer.close)
        stage = stack.enter_context(both(raced, tmp_path))
        one, two = (
            stack.enter_context(workspace(tmp_path / name, raced.url(Role.WORKSPACE), issuer))
            for name in ("one", "two")
        )
        yield Race(stage, (one, two), stack.enter_context(ThreadPoolExecutor(16)))


def test_all_six_ways_at_one_instant_from_two_processes_are_one_claim(race: Race) -> None:
    """One claim, one reply, no reaction twice; and with two comments at that instant two of each."""
    stage, said = race.both, 0
    written, reacted = stage.calls("create_comment"), stage.calls("react")
    for number in range(ROUNDS):
        told = [stage.say("alice", "/capture-help")]
        if number % 2:
            told.append(stage.say("bob", "/capture-status"))
        race.at_once(*(way for one in told for way in race.ways(one)), *race.polls())
        for pair in stage.pairs:
            pair.act()
        said += len(told)
        assert stage.claims() == said
        assert [stage.replies_to(one) for one in told] == [1, 0][: len(told)]
        assert [stage.reactions_to(one) for one in told] == [[], ["eyes"]][: len(told)]
        stage.an_hour_passes()
    assert stage.entries(EventKind.COMMENT_SEEN) == said
    assert stage.effects("forge.reply") == stage.calls("create_comment") - written == ROUNDS
    assert stage.effects("forge.react") == stage.calls("react") - reacted == ROUNDS // 2
    for workspace in race.workspaces:
        assert set(workspace.said) <= {200, 202}, "each was heard, whoever came first"
