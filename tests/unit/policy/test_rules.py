"""The quorum is a value with names in it; it counts people, not votes, and only those who may vote now."""

import pytest

from gitops_bot.core.principals import PrincipalName
from gitops_bot.core.verdicts import Decision
from gitops_bot.policy.lookup import lookup, lookup_question
from gitops_bot.policy.model import Policy, VerbRule
from gitops_bot.policy.rules import Quorum, QuorumState, tally
from tests.policy_bundles import CAPTURE, TRANSFER, load

PARAMS = {"amount_minor": 1, "currency": "EUR", "to": "DE89370400440532013000"}
APPROVE, DENY, REVOKE, ANSWER = Decision.APPROVE, Decision.DENY, Decision.REVOKE, Decision.ANSWER


def names(*given: str) -> tuple[PrincipalName, ...]:
    return tuple(PrincipalName(name) for name in given)


def count(
    policy: Policy,
    rule: object,
    *votes: tuple[str, Decision],
    requester: str = "agent",
    owner: str | None = "alice",
) -> Quorum:
    assert isinstance(rule, VerbRule)
    return tally(
        policy,
        rule,
        [(PrincipalName(name), decision) for name, decision in votes],
        requester=PrincipalName(requester),
        agent_owner=None if owner is None else PrincipalName(owner),
    )


@pytest.fixture
def policy() -> Policy:
    return load({})


@pytest.fixture
def transfer(policy: Policy) -> object:
    return lookup(policy, "payments.transfer", PARAMS)


def test_two_people_reach_two(policy: Policy, transfer: object) -> None:
    """Who voted and who is missing stand in the value from the first vote on; the owner is not among who may still."""
    none = count(policy, transfer)
    assert (none.state, none.missing, none.may_still) == (QuorumState.OPEN, 2, names("bob", "carol", "dave"))
    one = count(policy, transfer, ("bob", APPROVE))
    assert (one.state, one.missing, one.approved_by, one.may_still) == (
        QuorumState.OPEN,
        1,
        names("bob"),
        names("carol", "dave"),
    )
    two = count(policy, transfer, ("bob", APPROVE), ("carol", APPROVE))
    assert (two.state, two.missing, two.approved_by) == (QuorumState.APPROVED, 0, names("bob", "carol"))


def test_two_votes_of_one_person_are_one(policy: Policy, transfer: object) -> None:
    """Two keys of one person are one person (I15)."""
    quorum = count(policy, transfer, ("bob", APPROVE), ("bob", APPROVE), ("bob", APPROVE))
    assert (quorum.state, quorum.approved_by) == (QuorumState.OPEN, names("bob"))


def test_one_denial_denies(policy: Policy, transfer: object) -> None:
    """`deny` is 1 when absent, and a denial outweighs any number of approvals."""
    quorum = count(policy, transfer, ("bob", APPROVE), ("carol", APPROVE), ("dave", DENY))
    assert (quorum.state, quorum.denied_by) == (QuorumState.DENIED, names("dave"))


@pytest.mark.parametrize("last", [DENY, REVOKE])
def test_after_ones_own_deny_or_revoke_no_approve_counts(last: Decision, policy: Policy, transfer: object) -> None:
    """A vote taken back stays taken back on this ask, and its person is not waited for."""
    quorum = count(policy, transfer, ("bob", APPROVE), ("bob", last), ("bob", APPROVE), ("carol", APPROVE))
    assert quorum.approved_by == names("carol")
    assert "bob" not in quorum.may_still
    assert quorum.state is (QuorumState.DENIED if last is DENY else QuorumState.OPEN)


@pytest.mark.parametrize("name", ["alice", "agent", "bot", "erin", "github:1"])
def test_votes_of_those_who_may_not_do_not_count(name: str, policy: Policy, transfer: object) -> None:
    """Owner, services and strangers add nothing, even when a row says that they voted."""
    quorum = count(policy, transfer, (name, APPROVE), ("bob", APPROVE))
    assert (quorum.approved_by, quorum.state) == (names("bob"), QuorumState.OPEN)


def test_the_owner_may_deny(policy: Policy, transfer: object) -> None:
    """Denying is always allowed to a person who may vote."""
    assert count(policy, transfer, ("alice", DENY)).state is QuorumState.DENIED


def test_a_person_suspended_since_the_vote_no_longer_counts() -> None:
    """The policy as it is now judges the votes that were counted before."""
    policy = load(
        {"people/bob/suspended": True, f"{TRANSFER}/accept_no_spare": True, "verbs/policy.adopt/accept_no_spare": True}
    )
    quorum = count(policy, lookup(policy, "payments.transfer", PARAMS), ("bob", APPROVE), ("carol", APPROVE))
    assert (quorum.approved_by, quorum.may_still) == (names("carol"), names("dave"))


def test_two_denials_where_the_policy_asks_for_two() -> None:
    """A deny threshold above 1 waits for as many people."""
    policy = load({f"{CAPTURE}/deny": 2})
    rule = lookup(policy, "capture.approve", {})
    assert count(policy, rule, ("bob", DENY)).state is QuorumState.OPEN
    assert count(policy, rule, ("bob", DENY), ("alice", DENY)).state is QuorumState.DENIED


def test_undeclared_accounts_count_where_they_are_admitted() -> None:
    """`github:<id>` counts only under `undeclared`."""
    policy = load({f"{CAPTURE}/voters/undeclared": True})
    quorum = count(policy, lookup(policy, "capture.approve", {}), ("github:77", APPROVE))
    assert (quorum.state, quorum.undeclared) == (QuorumState.APPROVED, True)
    policy = load({})
    assert count(policy, lookup(policy, "capture.approve", {}), ("github:77", APPROVE)).state is QuorumState.OPEN


def test_the_first_answer_settles_a_question(policy: Policy) -> None:
    """A question has no threshold: one valid answer ends it; an approve is no answer."""
    rule = lookup_question(policy)
    assert count(policy, rule).missing == 1
    assert count(policy, rule, ("alice", ANSWER)).state is QuorumState.ANSWERED
    assert count(policy, rule, ("bob", ANSWER)).state is QuorumState.OPEN
    assert count(policy, rule, ("alice", APPROVE)).state is QuorumState.OPEN
