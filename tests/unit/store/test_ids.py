"""Ids: ULIDs that sort as they were made, by one process within one millisecond too, and that nobody counts on from."""

import threading
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from ulid import ULID

from gitops_bot.store.ids import new_id

NOW = 1_765_000_000_000


@given(st.integers(0, 2**48 - 1))
def test_an_id_is_a_lower_case_ulid_of_its_millisecond(now: int) -> None:
    """Twice at one time, so that the first id and one that follows are both looked at."""
    for made in (new_id(now), new_id(now)):
        assert made == made.lower()
        assert (str(ULID.from_str(made.upper())).lower(), ULID.from_str(made.upper()).milliseconds) == (made, now)


def test_ids_of_one_millisecond_sort_as_they_were_made() -> None:
    """Also where transactions of two times make theirs by turns."""
    made = [(new_id(NOW), new_id(NOW + 1)) for _ in range(2_000)]
    earlier, later = [one for one, _ in made], [other for _, other in made]
    assert (earlier, later) == (sorted(earlier), sorted(later))
    assert len({*earlier, *later}) == 4_000
    assert max(earlier) < min(later)


def test_nobody_counts_from_one_id_to_the_next() -> None:
    """The steps are random, and wide: none of a thousand is one that somebody tries."""
    random = [int.from_bytes(ULID.from_str(new_id(NOW + 2).upper()).bytes[6:], "big") for _ in range(1_001)]
    steps = {after - before for before, after in pairwise(random)}
    assert len(steps) == 1_000
    assert min(steps) > 2**30


def test_many_threads_never_make_the_same_id() -> None:
    """A step is taken under a lock."""
    made: list[str] = []
    threads = [threading.Thread(target=lambda: made.extend([new_id(NOW + 3) for _ in range(500)])) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 4_000
