"""The daemon runs what it is handed, sleeps until a ring, and ends as a whole when a duty has a bug of ours."""

import threading

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
