"""Answer, deny, withdraw and expire, twice each at one instant, by eight real processes: one winner, the others told.

The asks expire around the instant of their round, so that expiry is in the race by right and by the database's clock.
"""

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from sqlalchemy import bindparam, insert, select, update

from gitops_bot.authority.asking import Opened
from gitops_bot.core.asks import AskState
from gitops_bot.core.canonical import action_hash, canonical
from gitops_bot.store import asks, ledger, turns, votes
from gitops_bot.store.engine import Database, Tx
from gitops_bot.store.roles import Role
from gitops_bot.store.tables import ask_options
from gitops_bot.store.tables import asks as asks_table
from gitops_bot.store.work_tables import waiters as waiters_table
from tests.decisions import VERB, Stage
from tests.store_fixtures import FreshDatabase

ROUNDS = 1_000
BATCH = 5
PACE = 0.02
DEEDS = ("approve", "deny", "withdraw", "expire")
ENDINGS = {"ask.answered", "ask.withdrawn", "ask.expired", "ask.superseded"}
ROOT = Path(__file__).parents[2]
WORKER = Path(__file__).with_name("race_worker.py")
ONE = {f"verbs/{VERB}/approve": 1}

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("races")]


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)])
def raced(request: pytest.FixtureRequest) -> Iterator[FreshDatabase]:
    """A fresh database on each engine that has its own way to let one win."""
    yield request.getfixturevalue(f"{request.param}_database")


def plan_asks(stage: Stage) -> dict[str, str]:
    """Open an ask for each round by copying the rows of one; each has its own waiter."""
    ask = stage.ask()
    whole = dict(stage.read(lambda tx: tx.execute(select(asks_table).where(asks_table.c.id == ask.id)).one())._mapping)
    rows = []
    for number in range(ROUNDS):
        action = canonical({"domain": {}, "params": {"round": number}, "verb": VERB})
        rows.append({**whole, "id": f"{number:05d}{ask.id[5:]}", "action": action, "action_hash": action_hash(action)})

    def work(tx: Tx) -> None:
        tx.execute(insert(asks_table), rows)
        options = [
            {"ask": row["id"], "id": option.id, "label": option.label, "position": place}
            for row in rows
            for place, option in enumerate(ask.options)
        ]
        tx.execute(insert(ask_options), options)
        tx.execute(insert(waiters_table), [{"ask": row["id"], "kind": "task", "id": row["id"]} for row in rows])

    stage.write(work)
    return {row["id"]: row["action_hash"] for row in rows}


_EXPIRE: Final = update(asks_table).where(asks_table.c.id == bindparam("of")).values(expires_at=bindparam("at"))


def batch_of(owner: Database, asks_of_batch: list[tuple[str, str]]) -> str:
    """Give each ask of a batch its instant, and a time to expire from 4 ms before to 27 ms after it."""
    begin = time.monotonic() + 0.03
    at = [begin + PACE * number for number in range(len(asks_of_batch))]
    with owner.write() as tx:
        offset = tx.now - time.monotonic() * 1000
        times = [int(instant * 1000 + offset) + number * 7 % 32 - 4 for number, instant in enumerate(at)]
        tx.execute(_EXPIRE, [{"of": ask, "at": when} for (ask, _), when in zip(asks_of_batch, times, strict=True)])
    rounds = [[ask, bound, when] for (ask, bound), when in zip(asks_of_batch, at, strict=True)]
    return json.dumps(rounds) + "\n"


def heard(worker: "subprocess.Popen[str]") -> Iterator[dict[str, Any]]:
    """Read what a worker was told in one batch."""
    assert worker.stdout is not None
    while (line := worker.stdout.readline()) != "done\n":
        assert line, "a worker died"
        yield json.loads(line)


def race(fresh: FreshDatabase, hashes: dict[str, str]) -> list[dict[str, Any]]:
    """Let eight processes run through the rounds; give what each was told."""
    arguments = [fresh.url(Role.BROKER), Role.BROKER.value, json.dumps(fresh.options)]
    workers = [
        subprocess.Popen(
            [sys.executable, str(WORKER), *arguments, what, str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        )
        for what in DEEDS
        for number in range(2)
    ]
    owner, told = fresh.open(Role.OWNER), []
    pairs = list(hashes.items())
    try:
        for worker in workers:
            assert worker.stdout is not None and worker.stdout.readline() == "ready\n"
        for start in range(0, ROUNDS, BATCH):
            line = batch_of(owner, pairs[start : start + BATCH])
            for worker in workers:
                assert worker.stdin is not None
                worker.stdin.write(line)
                worker.stdin.flush()
            for worker in workers:
                told += heard(worker)
    finally:
        for worker in workers:
            worker.kill()
            worker.communicate()
    return told


def check_round(stage: Stage, database: Database, ask_id: str, told: list[dict[str, Any]]) -> str:
    """Hold one round to one winner; give how it ended."""
    with database.read() as tx:
        ask = asks.get(tx, ask_id)
        assert ask is not None
        entries = [entry for entry in ledger.of_ask(tx, ask_id) if entry["kind"] in ENDINGS]
        verdict, cast = votes.verdict(tx, ask_id), votes.of_ask(tx, ask_id)
        woken = tx.execute(select(waiters_table.c.due_at, waiters_table.c.cause).where(waiters_table.c.ask == ask_id))
        (due_at, cause) = woken.one()
        revoked = votes.revocations_of(tx, ask_id)
    assert ask.state in (AskState.APPROVED, AskState.DENIED, AskState.WITHDRAWN, AskState.EXPIRED)
    assert len(entries) == 1, "one ending in the ledger"
    assert (verdict is not None) == (ask.state in (AskState.APPROVED, AskState.DENIED))
    assert len(cast) == (1 if verdict else 0), "a vote that decided nothing was counted"
    assert due_at is not None and cause in (ask.state.value, "REVOKED")
    won = [one for one in told if one["kind"] in ("Settled", "Ended") and not one["repeated"]]
    # Whoever answers when the time is over ends the ask, too; then no caller of `expire` is the winner.
    if ask.state is AskState.EXPIRED:
        assert [one["what"] for one in won] in ([], ["expire"])
    else:
        deeds = {AskState.APPROVED: "approve", AskState.DENIED: "deny", AskState.WITHDRAWN: "withdraw"}
        assert [one["what"] for one in won] == [deeds[ask.state]]
    for one in told:
        if one in won or one["repeated"]:
            continue
        if one["kind"] == "Revoked":
            assert one["what"] == "deny" and ask.state is not AskState.DENIED
            continue
        assert one["kind"] == "Refused", one
        if one["what"] == "expire" and one["state"] is None:
            continue  # it came while the ask was open and its time was not over
        codes = {AskState.EXPIRED: "expired", AskState.WITHDRAWN: "withdrawn"}
        assert one["reason"] == codes.get(ask.state, "already_settled"), one
        assert (one["state"], one["by"], one["at"]) == (ask.state.value, ask.ended_by, ask.ended_at)
    assert len(revoked) <= 2
    return ask.state.value


def test_races(raced: FreshDatabase) -> None:
    database = raced.open(Role.BROKER)
    stage = Stage(database).under(ONE)
    hashes = plan_asks(stage)
    by_ask: dict[str, list[dict[str, Any]]] = {ask: [] for ask in hashes}
    for one in race(raced, hashes):
        by_ask[one["ask"]].append(one)
    assert {len(told) for told in by_ask.values()} == {8}
    ended = Counter(check_round(stage, database, ask, lines) for ask, lines in by_ask.items())
    assert sum(ended.values()) == ROUNDS
    assert all(ended[state] for state in ("APPROVED", "DENIED", "WITHDRAWN", "EXPIRED")), f"no real race: {ended}"


def at_once(work: Any, count: int = 8) -> list[Any]:
    with ThreadPoolExecutor(count) as pool:
        return [future.result() for future in [pool.submit(work, number) for number in range(count)]]


@pytest.mark.parametrize("keyed", [True, False], ids=["one key", "one action"])
def test_the_same_wish_at_one_instant_is_one_ask(raced: FreshDatabase, keyed: bool) -> None:
    """By eight connections: no unique index is ever met, and who comes second waits for the same ask."""
    stage = Stage(raced.open(Role.BROKER))
    agent = stage.agent()
    runs = [stage.run(agent) for _ in range(8)]
    databases = [raced.open(Role.WORKSPACE) for _ in range(8)]
    for turn in range(10):
        given = {"params": {"version": str(turn)}, "idempotency_key": f"k{turn}" if keyed else None}
        found = at_once(
            lambda number, given=given: Stage(databases[number]).try_ask(stage.wish(agent, runs[number], **given))
        )
        assert all(isinstance(one, Opened) for one in found), found
        assert len({one.ask.id for one in found}) == 1
        assert sorted(one.repeated for one in found) == [False] + [True] * 7


def test_floods_are_counted_one_asker_at_a_time(raced: FreshDatabase) -> None:
    stage = Stage(raced.open(Role.BROKER))
    stage = replace(stage, rules=replace(stage.rules, limits=replace(stage.rules.limits, max_open_bound=5)))
    agent = stage.agent()
    runs = [stage.run(agent) for _ in range(8)]
    stages = [replace(stage, database=raced.open(Role.WORKSPACE)) for _ in range(8)]
    found = at_once(lambda number: stages[number].try_ask(stage.wish(agent, runs[number], params={"n": number})))
    assert sum(isinstance(one, Opened) for one in found) == 5


def test_a_turn_is_had_by_one(raced: FreshDatabase) -> None:
    inside, most = [0], [0]
    databases = [raced.open(Role.BROKER) for _ in range(6)]

    def work(number: int) -> None:
        with databases[number].write() as tx:
            turns.take(tx, "one name")
            inside[0] += 1
            most[0] = max(most[0], inside[0])
            time.sleep(0.01)
            inside[0] -= 1

    at_once(work, 6)
    assert most == [1]
