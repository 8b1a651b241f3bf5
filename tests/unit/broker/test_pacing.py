"""What is written to the forge stays below its limits in every window, and a third is there for what verdicts cause."""

import random
from collections.abc import Iterator

import pytest

from gitops_bot.broker import pacing
from gitops_bot.broker.pacing import admit
from gitops_bot.store import outbox
from gitops_bot.store.engine import Database, Tx
from gitops_bot.store.outbox import Effect, StoredEffect
from gitops_bot.store.roles import Role
from gitops_bot.store.states import EffectState
from tests.store_fixtures import FreshDatabase

START = 1_800_000_000_000


@pytest.fixture
def tx(sqlite_database: FreshDatabase) -> Iterator[Tx]:
    with sqlite_database.open(Role.BROKER).write() as tx:
        tx.now = START
        yield tx


def effect(kind: str, lane: str = "capture:1") -> StoredEffect:
    return StoredEffect(1, "key", lane, kind, {}, None, EffectState.PENDING, 0, None, None)


def fill(tx: Tx, kind: str, lane: str = "capture:1") -> int:
    """Admit until something has to wait; how many were admitted."""
    admitted = 0
    while admit(tx, effect(kind, lane)) == 0:
        admitted += 1
    return admitted


def test_a_third_is_kept_for_verdicts(tx: Tx) -> None:
    assert fill(tx, "forge.reply") == 53
    assert fill(tx, "forge.react") == 80 - 53
    wait = admit(tx, effect("forge.react"))
    assert 0 < wait <= 70_000
    tx.now += wait
    assert admit(tx, effect("forge.react")) == 0


def test_an_opening_counts_for_all_that_it_writes(tx: Tx) -> None:
    assert fill(tx, "forge.open_draft") == 53 // 3


def test_a_reply_does_not_hold_back_the_verdict_behind_it(tx: Tx) -> None:
    fill(tx, "forge.reply")
    assert admit(tx, effect("forge.reply", "capture:2")) > 0
    outbox.enqueue(tx, Effect("r", "capture:2", "forge.react", {}))
    assert admit(tx, effect("forge.reply", "capture:2")) == 0


def test_a_restart_forgets_nothing(sqlite_database: FreshDatabase) -> None:
    def later(database: Database, kind: str) -> int:
        with database.write() as tx:
            tx.now = START
            return fill(tx, kind)

    assert later(sqlite_database.open(Role.BROKER), "forge.react") == 80
    assert later(sqlite_database.open(Role.BROKER), "forge.react") == 0


def test_no_window_ever_holds_more_than_the_forge_allows(tx: Tx) -> None:
    chance, admitted = random.Random(7), []
    while tx.now < START + 2 * 3_600_000:
        tx.now += chance.choice((10, 100, 500, 3_000, 20_000))
        kind = chance.choice(("forge.react", "forge.reply", "forge.open_draft"))
        if admit(tx, effect(kind)) == 0:
            admitted += [tx.now] * pacing.COSTS.get(kind, 1)
    for length, most in ((60_000, pacing.A_MINUTE), (3_600_000, pacing.AN_HOUR)):
        first = 0
        for last, at in enumerate(admitted):
            while admitted[first] <= at - length:
                first += 1
            assert last - first + 1 <= most
    assert len(admitted) > 800, "and it is no dam either"
