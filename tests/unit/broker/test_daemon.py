"""The daemon runs what it is handed, sleeps until a ring, and ends as a whole when a duty has a bug of ours."""

import threading
import time

import pytest

from gitops_bot.broker.daemon import Bell, Daemon

PATIENCE = 10.0


class Counting:
    """A duty that counts its steps and then sleeps for long."""

    name = "counting"

    def __init__(self) -> None:
        self.steps = 0
        self.stepped = threading.Condition()

    def step(self) -> float:
        with self.stepped:
            self.steps += 1
            self.stepped.notify_all()
        return 3600.0

    def wait_for(self, steps: int) -> bool:
        with self.stepped:
            return self.stepped.wait_for(lambda: self.steps >= steps, PATIENCE)


class Broken:
    """A duty with a bug."""

    name = "broken"

    def step(self) -> float:
        raise KeyError("ours")


def test_a_ring_ends_the_sleep() -> None:
    """A hint shortens the wait: without it the second step would come in an hour."""
    duty, bell = Counting(), Bell()
    daemon = Daemon([duty], bell)
    daemon.start()
    assert duty.wait_for(1)
    bell.notify()
    assert duty.wait_for(2)
    daemon.stop()
    assert daemon.join(PATIENCE)
    assert daemon.fatal is None


def test_a_ring_between_look_and_sleep_is_not_slept_over() -> None:
    """No wake is lost in between: the count that was read before the look differs by then."""
    bell = Bell()
    before = bell.count()
    bell.notify()
    woken = threading.Thread(target=bell.wait_since, args=(before, 3600.0))
    woken.start()
    woken.join(PATIENCE)
    assert not woken.is_alive()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_bug_of_ours_ends_the_whole_daemon() -> None:
    """Anything else than `Unavailable` is never caught: all duties end, and the traceback is kept."""
    steady = Counting()
    daemon = Daemon([steady, Broken()], Bell())
    daemon.start()
    daemon.wait()
    assert daemon.join(PATIENCE)
    assert daemon.fatal is not None
    assert "ours" in daemon.fatal


class Named(Counting):
    """A duty that looks at rows of its own name alone."""

    looks_at_own_rows = True


def test_a_ring_for_one_duty_wakes_it_and_who_waits_for_anything_and_nobody_else() -> None:
    """A commit that made a row due costs one look, of the duty whose row it is."""
    bell = Bell()
    mine, others, anything = bell.count("mine"), bell.count("others"), bell.count()
    bell.notify_of({"mine"})
    assert bell.count("mine") != mine
    assert bell.count("others") == others
    assert bell.count() != anything
    bell.notify()
    assert bell.count("others") != others


def test_a_ring_between_the_look_and_the_wait_is_not_slept_over_by_name() -> None:
    """Nothing due is left for the next poll because its ring came early."""
    bell = Bell()
    rung = bell.count("mine")
    bell.notify_of({"mine"})
    began = time.monotonic()
    bell.wait_since(rung, 30, "mine")
    assert time.monotonic() - began < 20


def test_a_duty_of_its_own_rows_is_woken_by_its_name() -> None:
    """A ring for others leaves it asleep; one for its own name is the second step."""
    duty, bell = Named(), Bell()
    daemon = Daemon([duty], bell)
    daemon.start()
    assert duty.wait_for(1)
    bell.notify_of({"others"})
    bell.notify_of({duty.name})
    assert duty.wait_for(2)
    assert duty.steps == 2
    daemon.stop()
    assert daemon.join(PATIENCE)
