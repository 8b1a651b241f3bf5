"""What the API shows of a gated ask: its votes are the signed ones, with every attempt that was refused, and why."""

import threading
import time
from typing import Any

import pytest

from gitops_bot.core.errors import Reason
from gitops_bot.core.principals import PrincipalName
from gitops_bot.core.verdicts import Decision
from gitops_bot.store import signed_commits, signed_votes
from gitops_bot.store.roles import Role
from gitops_bot.store.signed_commits import Judgement
from gitops_bot.store.signed_votes import SignedVote
from tests.signed_in import PersonClient
from tests.unit.workspace.api.conftest import answer, bound, gated, saying
from tests.unit.workspace.conftest import Workplace

COMMIT = "d" * 40


@pytest.fixture
def alice(workplace: Workplace) -> PersonClient:
    return workplace.person("alice")


def sign(workplace: Workplace, ask: dict[str, Any], seq: int = 1, decision: Decision = Decision.APPROVE) -> None:
    """Let the broker take a signed vote of bob's, and refuse a commit of carol's."""
    with workplace.fresh.open(Role.BROKER).write() as tx:
        evidence = (COMMIT, b"commit", b"blob", "openpgp", "f" * 40, None, "sha256:" + "0" * 64, tx.now)
        assert signed_votes.add(tx, SignedVote(ask["id"], PrincipalName("bob"), seq, decision, *evidence))
        signed_commits.receive(tx, "carol", ["e" * 40])
        refused = Judgement(Reason.UNKNOWN_KEY.value, "no key of carol's", ask["id"], "approve")
        signed_commits.judge(tx, "carol", "e" * 40, refused)


def test_a_gated_asks_votes_are_the_signed_ones_and_refused_attempts_stand_beside(
    workplace: Workplace, alice: PersonClient
) -> None:
    ask = gated(workplace)
    assert alice.ok("GET", f"/asks/{ask['id']}")["votes"] == []
    alice.call("POST", f"/asks/{ask['id']}/answer", saying(ask, option="approve"))
    sign(workplace, ask)
    shown = alice.ok("GET", f"/asks/{ask['id']}")
    (vote,) = shown["votes"]
    assert (vote["principal"], vote["decision"], vote["channel"], vote["counts"]) == ("bob", "approve", "signed", True)
    assert shown["quorum"]["approved_by"] == ["bob"] and shown["state"] == "OPEN"
    refused = {(one["who"], one["channel"], one["reason"]): one for one in shown["attempts"]}
    assert set(refused) == {("alice", "workspace", "gated"), ("carol", "signed", "unknown_key")}
    assert refused["carol", "signed", "unknown_key"]["commit"] == "e" * 40
    for one in refused.values():
        assert one["sentence"].endswith(".") and one["remedy"].endswith(".")
    seen = workplace.ok("GET", f"/asks/{ask['id']}", "shell")
    assert (seen["votes"], seen["attempts"]) == (shown["votes"], shown["attempts"])


def test_what_was_taken_back_no_longer_counts(workplace: Workplace, alice: PersonClient) -> None:
    ask = gated(workplace)
    sign(workplace, ask)
    sign(workplace, ask, 2, Decision.REVOKE)
    shown = alice.ok("GET", f"/asks/{ask['id']}")
    assert [(one["decision"], one["counts"]) for one in shown["votes"]] == [("approve", False), ("revoke", False)]
    assert shown["quorum"]["approved_by"] == []


def test_an_ask_of_another_kind_shows_its_own_votes_and_attempts(workplace: Workplace, alice: PersonClient) -> None:
    """The twin: a bound ask's votes are those of its channels."""
    ask = bound(workplace, verb="release.two")
    assert alice.call("POST", f"/asks/{ask['id']}/answer", saying(ask, option="approve")).status_code == 422
    answer(alice, ask, option="approve")
    shown = alice.ok("GET", f"/asks/{ask['id']}")
    assert [(one["principal"], one["channel"], one["counts"]) for one in shown["votes"]] == [
        ("alice", "workspace", True)
    ]
    assert [(one["who"], one["reason"]) for one in shown["attempts"]] == [("alice", "assertion_required")]


def test_a_long_poll_ends_with_a_signed_vote(workplace: Workplace, alice: PersonClient) -> None:
    ask = gated(workplace)
    later = threading.Timer(0.2, lambda: sign(workplace, ask))
    later.start()
    began = time.monotonic()
    shown = alice.ok("GET", f"/asks/{ask['id']}?wait=30")
    later.join()
    assert [one["principal"] for one in shown["votes"]] == ["bob"]
    assert time.monotonic() - began < 25
