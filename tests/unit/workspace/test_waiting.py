"""Long polls are bounded in number: above the bound they are answered at once, so that others find a thread."""

import threading

from workspace.waiting import Waiting


def never() -> bool:
    return False


def test_above_the_bound_nobody_waits() -> None:
    waiting = Waiting(most=1, look=0.01)
    release = threading.Event()
    seated = threading.Event()

    def happened() -> bool:
        seated.set()
        return release.is_set()

    first = threading.Thread(target=waiting.until, args=(happened, 60, never))
    first.start()
    assert seated.wait(30)
    looks: list[bool] = []
    waiting.until(lambda: looks.append(True) or False, 60, never)
    assert looks == [], "answered at once, without a look"
    release.set()
    first.join(30)
    assert not first.is_alive()
    waiting.until(lambda: looks.append(True) or True, 60, never)
    assert looks == [True], "the seat is free again"


def test_a_seat_is_freed_by_a_failure() -> None:
    waiting = Waiting(most=1, look=0.001)

    def fails() -> bool:
        raise LookupError

    for _ in range(3):
        try:
            waiting.until(fails, 60, never)
        except LookupError:
            continue
        raise AssertionError("the second found no seat")


def test_whoever_is_gone_waits_no_longer() -> None:
    looks: list[bool] = []
    Waiting(look=0.001).until(lambda: looks.append(True) or False, 60, lambda: len(looks) == 3)
    assert len(looks) == 3
