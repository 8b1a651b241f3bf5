"""What somebody does who has a delivery, or a run's token, that was good: each refusal with its accepting twin."""

import json
import threading
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import jwt
import pytest
from sqlalchemy import update

from gitops_bot.core.ledger import EventKind
from gitops_bot.store import deliveries
from gitops_bot.store.work_tables import hook_deliveries
from tests.forge_stage import APPROVE
from tests.store_fixtures import FreshDatabase
from tests.ways_stage import HOUR, ISSUER, ORIGIN, Both, Told, both, run_token
from tests.workflow_runs import claims_of, key


@pytest.fixture
def pairs(sqlite_database: FreshDatabase, tmp_path: Path) -> Iterator[Both]:
    with both(sqlite_database, tmp_path) as found:
        yield found


def act(pairs: Both) -> None:
    for pair in pairs.pairs:
        pair.act()


def replay(pairs: Both, told: Told) -> None:
    """Send both deliveries again, by their ids and by new ones, to both processes."""
    for pair in pairs.pairs:
        pair.deliver([(told.guid, told.by_repository), (str(uuid4()), told.by_repository), (str(uuid4()), told.by_app)])
    act(pairs)


def test_a_replay_after_an_hour_and_after_all_is_forgotten_does_nothing(pairs: Both) -> None:
    """Known by its id and its bytes for a week; after that the claim itself is what is known."""
    old = pairs.say("alice", "/capture-help")
    replay(pairs, old)
    for age in (HOUR, 8 * 24 * HOUR):
        pairs.an_hour_passes()
        with pairs.owner.write() as tx:
            tx.execute(update(hook_deliveries).values(seen_at=hook_deliveries.c.seen_at - age))
            assert (deliveries.purge(tx, tx.now - 7 * 24 * HOUR, 1_000) > 0) is (age > HOUR)
        replay(pairs, old)
        assert (pairs.claims(), pairs.replies_to(old)) == (1, 1)
    new = pairs.say("alice", "/capture-help")
    replay(pairs, new)
    assert (pairs.claims(), pairs.replies_to(new)) == (2, 1), "another comment is heard"


@pytest.mark.parametrize(
    "event", ["pull_request", "pull_request_review", "check_run", "installation", "installation_repositories", "ping"]
)
def test_a_command_under_another_event_s_name_does_nothing(pairs: Both, event: str) -> None:
    """The name is not under the signature; and it takes nothing away from the delivery under its own."""
    told = pairs.say("alice", APPROVE)
    pairs.pairs[0].deliver([(str(uuid4()), told.by_repository)], event)
    act(pairs)
    assert (pairs.claims(), pairs.entries(EventKind.VOTE_COUNTED)) == (0, 0)
    pairs.pairs[0].deliver([(str(uuid4()), told.by_repository)])
    act(pairs)
    assert (pairs.claims(), pairs.entries(EventKind.VOTE_COUNTED)) == (1, 1)


@pytest.mark.parametrize(
    ("text", "votes"),
    [
        (f"{APPROVE}\r\n\U0001f680 as agreed\r\n", 1),
        (f"{APPROVE}  \r\n", 1),
        (f"\U0001f680 {APPROVE}", 0),
        (f"\r\n{APPROVE}", 0),
        (f"{APPROVE}\U0001f680", 0),
        (f"{APPROVE}\u2028", 0),
        (f"\ufeff{APPROVE}", 0),
    ],
)
def test_emoji_and_line_ends_are_what_they_are(pairs: Both, text: str, votes: int) -> None:
    """A line ends at LF, a CR before it is dropped, and nothing else is looked through."""
    told = pairs.say("alice", text)
    pairs.pairs[0].deliver([(told.guid, told.by_repository)])
    act(pairs)
    assert pairs.entries(EventKind.VOTE_COUNTED) == votes
    assert ("rocket" in pairs.reactions_to(told)) is (votes == 1)


def unsigned(head: dict[str, str]) -> str:
    """Write a token that says everything right, under a head, with no signature."""
    parts = (json.dumps(part).encode() for part in (head, claims_of(ISSUER, ORIGIN)))
    return ".".join([*(urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts), ""])


def test_a_run_s_token_without_the_issuer_s_signature_is_refused(pairs: Both) -> None:
    """No algorithm, a secret's, another key's, and a signature over something else."""
    told, claims = pairs.say("alice", "/capture-help"), claims_of(ISSUER, ORIGIN)
    good = run_token()
    forged = [
        unsigned({"alg": "none", "kid": "one"}),
        unsigned({"alg": "RS256", "kid": "one"}),
        jwt.encode(claims, "a secret of thirty-two characters", "HS256", headers={"kid": "one"}),
        jwt.encode(claims, key("two"), "RS256", headers={"kid": "one"}),
        jwt.encode(claims, key("two"), "RS256", headers={"kid": "two"}),
        ".".join([*good.split(".")[:2], run_token().split(".")[2]]),
    ]
    for token in forged:
        for pair in pairs.pairs:
            assert pair.shown(token, told)[0] in (401, 503), token
    assert pairs.claims() == 0
    assert pairs.pairs[0].shown(good, told)[0] == 200
    assert pairs.claims() == 1


def test_a_run_s_token_is_good_once_for_both_processes_together(pairs: Both) -> None:
    """Shown to both at one instant: one takes it, the other says so; the next token is good."""
    with ThreadPoolExecutor(2) as pool:
        for _ in range(10):
            told, token, barrier = pairs.say("alice", "/capture-help"), run_token(), threading.Barrier(2)

            def show(
                number: int, barrier: threading.Barrier = barrier, token: str = token, told: Told = told
            ) -> tuple[int, str]:
                barrier.wait(60)
                status, said = pairs.pairs[number].shown(token, told)
                return status, said["reason"]

            assert sorted(pool.map(show, (0, 1))) == [(200, "new"), (403, "not_authorised")]
    assert pairs.claims() == 10
