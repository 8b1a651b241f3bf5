"""A policy change is told in sentences: whoever reads them knows who gains and who loses."""

import pytest

from gitops_bot.policy.diff import difference
from tests.policy_bundles import ADOPT, CAPTURE, GONE, TRANSFER, Patch, ed25519, load, sk, ssh

CHANGES: dict[str, tuple[Patch, str]] = {
    "a person joins": (
        {"people/erin": {"kind": "human", "github": 5}},
        "erin joins as a human, with GitHub account 5.",
    ),
    "a person is removed": (
        {"people/agent": GONE},
        "agent is removed; the name is never used again.",
    ),
    "an account changes": ({"people/bob/github": 9}, "bob gains the GitHub account 9."),
    "a key goes": ({"people/carol/ssh": [*ssh(sk(3)), *ssh(ed25519(30))]}, "carol gains the SSH key ssh-ed25519"),
    "an owner changes": ({"people/agent/owner": "bob"}, "The owner of agent changes from alice to bob."),
    "a suspension": ({"people/alice/suspended": True}, "alice is suspended."),
    "a voter gains": (
        {f"{CAPTURE}/voters/people": ["alice", "bob", "carol"]},
        "carol may now vote on capture.approve.",
    ),
    "a voter loses": ({f"{CAPTURE}/voters/people": ["alice"]}, "bob may no longer vote on capture.approve."),
    "a floor falls": (
        {f"{CAPTURE}/voters": {"people": ["alice", "bob"]}},
        "The permission that voters on capture.approve need changes from write to none.",
    ),
    "everybody gains": (
        {f"{CAPTURE}/voters/undeclared": True},
        "Accounts that nobody declared may now vote on capture.approve.",
    ),
    "a threshold falls": ({f"{TRANSFER}/approve": 1}, "For payments.transfer approving takes 1 instead of 2."),
    "a channel is added": (
        {f"{CAPTURE}/channels": ["forge", "workspace", "operator"]},
        "capture.approve can be answered through operator now.",
    ),
    "a channel goes": (
        {f"{CAPTURE}/channels": ["forge"]},
        "capture.approve can be answered through workspace no longer.",
    ),
    "keys weaken": ({f"{TRANSFER}/keys": "any"}, "For payments.transfer keys must be any instead of verified."),
    "a delay shrinks": ({f"{ADOPT}/delay": "2h"}, "A grant waits 2h instead of 1h for policy.adopt."),
    "a verb comes": (
        {"verbs/note.publish": {"channels": ["workspace"], "voters": {"people": ["bob"]}, "approve": 1}},
        "note.publish can now be decided: by bob, 1 to approve, through workspace.",
    ),
    "a verb goes": ({CAPTURE: GONE}, "capture.approve can no longer be decided by anybody."),
    "questions go": ({"asks": GONE}, "Plain questions can no longer be answered by anybody."),
    "a tier changes": ({f"{TRANSFER}/tiers/0/expires": "1h"}, "Tier 1 of payments.transfer changes its expires."),
    "an executor changes": ({f"{TRANSFER}/executor": GONE}, "The executor of payments.transfer changes."),
    "a limit changes": (
        {f"{TRANSFER}/limits/sum/amount_minor/le": 1},
        "The sum of amount_minor within 1d for each currency in payments.transfer may be at most 1 now.",
    ),
    "a limit changes from": (
        {f"{TRANSFER}/limits/sum/amount_minor/le": 1},
        "The sum of amount_minor within 1d for each currency in payments.transfer no longer ends at 50000000.",
    ),
    "a limit comes": (
        {f"{TRANSFER}/limits/sum/amount_minor/per": "1h"},
        "The sum of amount_minor within 1h for each currency in payments.transfer may be at most 50000000 now.",
    ),
    "a limit goes": (
        {f"{TRANSFER}/limits": GONE},
        "The sum of amount_minor within 1d for each currency in payments.transfer no longer ends at 50000000.",
    ),
    "a risk rises": (
        {f"{CAPTURE}/risk": "high"},
        "The risk of capture.approve is high instead of normal.",
    ),
    "a spare is given up": (
        {f"{TRANSFER}/accept_no_spare": True},
        "payments.transfer no longer keeps one voter to spare.",
    ),
    "an owner may approve": (
        {f"{TRANSFER}/owner_may_approve": True},
        "The owner of the asking agent may now approve payments.transfer.",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_told(name: str) -> None:
    """Each kind of change has its sentence, and the sentence names whom or what it concerns."""
    patch, sentence = CHANGES[name]
    if name == "a suspension":
        patch = {**patch, f"{TRANSFER}/accept_no_spare": True, f"{ADOPT}/accept_no_spare": True}
    said = difference(load({}), load({"version": 4, **patch}))
    assert any(one.startswith(sentence) for one in said), said


def test_the_same_bytes_change_nothing() -> None:
    """No sentence without a change, and never none with one."""
    assert difference(load({}), load({})) == ()
    assert len(difference(load({}), load({"version": 4}))) == 2
