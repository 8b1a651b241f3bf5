"""One comment by repository hook, App hook, redelivery, replay, poll and workflow run, in every order of the six.

All 720 orders are gone through, over two workspaces and two brokers that share one database. What is not a further
order is drawn for each, so that all of it comes up equally often: which of the two processes the hook leads to, which
broker acts, and after how many of the ways it acts for the first time. Nothing is left out for symmetry; a redelivery
and the delivery it repeats have the same id and bytes, and reach different processes here.
"""

import itertools
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitops_bot.core.ledger import EventKind
from tests.forge_stage import APPROVE
from tests.store_fixtures import FreshDatabase
from tests.ways_stage import WAYS, Both, both

ORDERS = list(itertools.permutations(WAYS))
PARTS = 2
DRAWN = list(itertools.product(range(1, 7), range(2), range(2))) * (len(ORDERS) // 24)
"""For each order: after how many ways a broker acts, whom the hook leads to, which broker it is."""
random.Random(3).shuffle(DRAWN)


@pytest.fixture
def pairs(sqlite_database: FreshDatabase, tmp_path: Path) -> Iterator[Both]:
    with both(sqlite_database, tmp_path) as found:
        yield found


def go_through(pairs: Both, number: int) -> None:
    """Let two comments be heard of in one order: of each comes what comes of one, and no more."""
    order, before = ORDERS[number], pairs.claims()
    acts_after, first, broker = DRAWN[number]
    told = pairs.say("alice", "/capture-help"), pairs.say("bob", "/capture-status")
    for count, way in enumerate(order, 1):
        pairs.hear(way, told, first)
        if count == acts_after:
            pairs.pairs[broker].act()
    pairs.pairs[1 - broker].act()
    assert pairs.claims() == before + 2, order
    assert [pairs.replies_to(one) for one in told] == [1, 0], order
    assert [pairs.reactions_to(one) for one in told] == [[], ["eyes"]], order
    assert pairs.pairs[0].hand_in(told[0])["decision"] == "ignored", "it was dealt with"
    pairs.an_hour_passes()


@pytest.mark.slow  # some 25 ms for each of 720 orders
@pytest.mark.parametrize(
    "part", [pytest.param(part, marks=pytest.mark.xdist_group(f"ways-{part}")) for part in range(PARTS)]
)
def test_in_every_order_of_six_ways_one_comment_is_one_claim_one_reply_one_reaction(pairs: Both, part: int) -> None:
    """And two comments are two of each: what is known of one is not taken for the other."""
    numbers = range(part, len(ORDERS), PARTS)
    written, reacted = pairs.calls("create_comment"), pairs.calls("react")
    for number in numbers:
        go_through(pairs, number)
    assert pairs.claims() == pairs.entries(EventKind.COMMENT_SEEN) == 2 * len(numbers)
    assert pairs.entries(EventKind.CLAIM_EDITED) == 0
    assert pairs.effects("forge.reply") == pairs.calls("create_comment") - written == len(numbers)
    assert pairs.effects("forge.react") == pairs.calls("react") - reacted == len(numbers)


def test_what_is_drawn_comes_up_with_every_way() -> None:
    """Whichever way is first, and whichever is last, everything that is drawn comes up beside it."""
    for place in (0, -1):
        assert len({(order[place], *drawn) for order, drawn in zip(ORDERS, DRAWN, strict=True)}) == 6 * 24


@pytest.mark.parametrize("number", [0, 119, 401, 719])
def test_in_some_orders_one_comment_is_one_claim(pairs: Both, number: int) -> None:
    """The same, a few, for a quick look."""
    go_through(pairs, number)


def test_an_approval_by_all_six_ways_is_one_vote(pairs: Both) -> None:
    """The twin that decides: counted once, whatever is heard of it later."""
    told = (pairs.say("alice", APPROVE),)
    for way in WAYS:
        pairs.hear(way, told, 0)
    for pair in pairs.pairs:
        pair.act()
    for way in reversed(WAYS):
        pairs.hear(way, told, 1)
    for pair in pairs.pairs:
        pair.act()
    assert (pairs.claims(), pairs.entries(EventKind.VOTE_COUNTED)) == (1, 1)
    assert pairs.reactions_to(told[0]) == ["eyes", "rocket"]
    assert pairs.pairs[1].hand_in(told[0])["decision"] == "approve"
