"""A broker's outbox: two lanes at a time, each of them in order and by one of the two."""

import threading

from gitops_bot.authority.outbox import Delivered, Delivery, Route
from gitops_bot.bootstrap.broker import outbox_duties
from gitops_bot.store import outbox
from gitops_bot.store.engine import Database
from gitops_bot.store.outbox import StoredEffect
from gitops_bot.store.roles import Role
from tests.store_fixtures import FreshDatabase


def put(database: Database, *effects: tuple[str, str, str]) -> None:
    with database.write() as tx:
        for key, lane, kind in effects:
            outbox.enqueue(tx, outbox.Effect(key, lane, kind, {}))


def test_a_signal_leaves_while_a_forge_takes_its_time_and_a_lane_keeps_its_order(
    sqlite_database: FreshDatabase,
) -> None:
    """The second of the slow lane waits for the first, whoever is free; the signal of another lane does not."""
    database, slow, signalled = sqlite_database.open(Role.BROKER), threading.Event(), threading.Event()
    done: list[str] = []

    def forge(effect: StoredEffect) -> Delivery:
        if effect.key == "status:1":
            assert slow.wait(60)
        done.append(effect.key)
        return Delivered({})

    def bridge(effect: StoredEffect) -> Delivery:
        done.append(effect.key)
        signalled.set()
        return Delivered({})

    routes = {"forge.status": Route(forge), "bridge.rescope": Route(bridge)}
    one, other = outbox_duties(database, routes)
    put(database, ("status:1", "capture:1", "forge.status"), ("status:2", "capture:1", "forge.status"))
    busy = threading.Thread(target=one.step)
    busy.start()
    while not is_under_way(database):
        threading.Event().wait(0.01)
    put(database, ("signal", "loop:1", "bridge.rescope"))
    other.step()
    assert signalled.is_set()
    other.step()
    assert done == ["signal"], "the lane is another's"
    slow.set()
    busy.join(60)
    other.step()
    assert done == ["signal", "status:1", "status:2"]


def is_under_way(database: Database) -> bool:
    """Tell whether the first effect is under way."""
    with database.read() as tx:
        found = outbox.get(tx, "status:1")
    return found is not None and found.attempts > 0
