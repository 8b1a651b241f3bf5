"""Two brokers on one database, each with its own state and trust file, spend and carry out the same grants at once."""

import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from gitops_bot.store.states import EffectState, GrantState
from tests.signed_till import ENGINES, PROGRAM, Open, Till, tills
from tests.store_fixtures import FreshDatabase

ROOT: Final = Path(__file__).parents[3]
GRANTS: Final = 5


@pytest.fixture(params=ENGINES)
def fresh(request: pytest.FixtureRequest) -> FreshDatabase:
    """A fresh database, on each engine."""
    found: FreshDatabase = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def till(memory_folder: Path, fresh: FreshDatabase) -> Iterator[Open]:
    """Open a till, on each engine."""
    with tills(memory_folder, memory_folder / "gpg-homes", fresh) as opened:
        yield opened


def begin(folder: Path, go: Path, stop: Path) -> subprocess.Popen[str]:
    """Start a broker that waits."""
    argv = [sys.executable, str(ROOT / "tests" / "integration" / "signed_race_worker.py"), str(folder), str(go)]
    env = {"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]}
    worker = subprocess.Popen([*argv, str(stop)], stdout=subprocess.PIPE, text=True, cwd=ROOT, env=env)
    assert worker.stdout is not None and worker.stdout.readline() == "ready\n"
    return worker


def over(host: Till, found: list[str]) -> bool:
    """Tell whether every grant came to its end."""
    seen = [host.execution(ask) for ask in found]
    return all(one is not None and one.state not in (EffectState.PENDING, EffectState.ATTEMPTING) for one in seen)


@pytest.mark.slow
def test_each_grant_is_one_call(till: Open) -> None:
    """Every lease runs out again and again meanwhile, as if each broker stood still all the time."""
    host = till()
    found = [host.ready(PROGRAM, amount_minor=at) for at in range(1, GRANTS + 1)]
    for ask in found:
        host.vote("alice", ask)
        host.vote("bob", ask)
    host.look()
    place = host.folder.parent
    second = place / "second"
    shutil.copytree(host.folder, second, symlinks=True)
    go, stop = place / "go", place / "stop"
    workers = [begin(folder, go, stop) for folder in (host.folder, second)]
    go.touch()
    deadline = time.monotonic() + 120
    while not over(host, found):
        assert time.monotonic() < deadline and all(worker.poll() is None for worker in workers)
        host.rush()
        time.sleep(0.02)
    stop.touch()
    for worker in workers:
        worker.communicate(timeout=120)
        assert worker.returncode == 0
    grants = {ask: host.minted(ask) for ask in found}
    assert all(grant.state is GrantState.SPENT for grant in grants.values())
    assert Counter(call["key"] for call in host.calls()) == Counter(grant.id for grant in grants.values())
    for ask in found:
        told = [kind for kind, _ in host.told(ask)]
        assert told.count("grant.spent") == told.count("grant.minted") == 1
        assert told.count("effect.attempted") == 1
        assert told.count("effect.done") + told.count("effect.unknown") == 1
