"""Real processes that write at once: no update is lost, and a writer that is killed holds nobody up."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import insert, select, update

from gitops_bot.store.roles import Role
from gitops_bot.store.schema import metadata
from tests.store_fixtures import FreshDatabase
from tests.store_rows import row

pytestmark = pytest.mark.slow  # processes that import everything

CURSORS = metadata.tables["cursors"]
WRITERS, ROUNDS = 4, 50

PROGRAM = """
import json, sys, time
from sqlalchemy import select, update
from gitops_bot.store.engine import Database
from gitops_bot.store.roles import Role
from gitops_bot.store.schema import metadata

url, options, rounds, hold = json.loads(sys.argv[1])
cursors = metadata.tables["cursors"]
database = Database.open(url, Role.BROKER, **options)
print("open", flush=True)
sys.stdin.readline()
for _ in range(rounds):
    with database.write() as tx:
        found = int(tx.execute(select(cursors.c.value).with_for_update()).scalar_one())
        tx.execute(update(cursors).values(value=str(found + 1), updated_at=tx.now))
        if hold:
            print("holding", flush=True)
            time.sleep(hold)
"""


def writer(database: FreshDatabase, rounds: int, hold: float = 0) -> "subprocess.Popen[str]":
    """Start a process that adds one to a number `rounds` times, once it is told to begin."""
    arguments = json.dumps([database.url(Role.BROKER), database.options, rounds, hold])
    started = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    )
    assert started.stdout is not None
    assert started.stdout.readline() == "open\n"
    return started


def begin(process: "subprocess.Popen[str]") -> None:
    assert process.stdin is not None
    process.stdin.write("begin\n")
    process.stdin.flush()


@pytest.fixture
def counted(database: FreshDatabase) -> FreshDatabase:
    """A database with a number in it, 0."""
    with database.open(Role.BROKER).write() as tx:
        tx.execute(insert(CURSORS), row(CURSORS, value="0"))
    return database


def number(database: FreshDatabase) -> int:
    with database.open(Role.WORKSPACE).read() as tx:
        return int(tx.execute(select(CURSORS.c.value)).scalar_one())


def test_racing_writers_lose_no_update(counted: FreshDatabase) -> None:
    processes = [writer(counted, ROUNDS) for _ in range(WRITERS)]
    for process in processes:
        begin(process)
    for process in processes:
        process.communicate(timeout=120)
        assert process.returncode == 0
    assert number(counted) == WRITERS * ROUNDS


def test_a_killed_writer_lets_go_and_leaves_nothing(counted: FreshDatabase) -> None:
    process = writer(counted, 1, hold=60)
    begin(process)
    assert process.stdout is not None
    assert process.stdout.readline() == "holding\n"
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=120)
    with counted.open(Role.BROKER).write() as tx:
        found = int(tx.execute(select(CURSORS.c.value).with_for_update()).scalar_one())
        tx.execute(update(CURSORS).values(value=str(found + 1)))
    assert found == 0
    assert number(counted) == 1


def test_a_writer_waits_for_another_process_and_then_sees_its_work(counted: FreshDatabase) -> None:
    process = writer(counted, 1, hold=0.3)
    begin(process)
    assert process.stdout is not None
    assert process.stdout.readline() == "holding\n"
    with counted.open(Role.BROKER).write() as tx:
        assert tx.execute(select(CURSORS.c.value).with_for_update()).scalar_one() == "1"
    process.communicate(timeout=120)
