"""A suspended person counts nowhere from that instant on, and comes back by the host or by an adopted bundle alone."""

import json
from typing import Any

import pytest

from gitops_bot.authority.settling import Voice, answer
from gitops_bot.authority.suspension import standing_policy
from gitops_bot.core.errors import Refused
from gitops_bot.core.principals import PrincipalName
from gitops_bot.core.verdicts import Answer, Channel
from gitops_bot.signed.spend import SPEND
from gitops_bot.store import asks, grants_read, signed_commits, suspensions
from tests.signed_bundle import ssh_keys
from tests.signed_pin import PinHost

ALICE = PrincipalName("alice")


def suspend(host: PinHost, *more: str) -> dict[str, Any]:
    status, out, err = host.bot("person", "suspend", "alice", *more, "--json")
    assert status == 0, err
    document: dict[str, Any] = json.loads(out)
    return document


def test_nothing_that_a_suspended_person_signs_counts(pin_host: PinHost) -> None:
    """Approve and deny alike: keys that somebody else may hold say nothing. After the lift they do again."""
    ask = pin_host.ask()
    pin_host.announce()
    assert suspend(pin_host, "--reason", "her laptop was stolen")["suspended"] is True
    refused = pin_host.vote("alice", ask)
    pin_host.vote("bob", ask)
    pin_host.look()
    with pin_host.database.read() as tx:
        found = signed_commits.get(tx, ALICE, refused)
    assert found is not None and found.code == "suspended"
    assert pin_host.state_of(ask)[0] == "OPEN"
    assert suspend(pin_host, "--lift")["suspended"] is False
    pin_host.vote("alice", ask)
    pin_host.look()
    assert pin_host.state_of(ask)[0] == "APPROVED"
    told = pin_host.kinds("person.suspended", "person.reinstated")
    assert told == ["person.suspended", "person.reinstated"]


def test_a_vote_of_before_no_longer_reaches_the_quorum(pin_host: PinHost) -> None:
    """Alice signed while her key was her own, or not: nobody can tell, so it does not count any more."""
    ask = pin_host.ask()
    pin_host.announce()
    pin_host.vote("alice", ask)
    pin_host.look()
    suspend(pin_host)
    pin_host.vote("bob", ask)
    pin_host.look()
    assert pin_host.state_of(ask)[0] == "OPEN"


def test_a_grant_that_counts_them_falls_at_once(pin_host: PinHost) -> None:
    """Not only when it would be spent: the delay is not waited for."""
    ask = pin_host.ask()
    pin_host.announce()
    for person in ("alice", "bob"):
        pin_host.vote(person, ask)
    pin_host.look()
    with pin_host.database.read() as tx:
        grant = grants_read.of_ask(tx, ask)
    assert grant is not None
    assert suspend(pin_host)["grants"] == [grant.id]
    pin_host.drain(SPEND)
    with pin_host.database.read() as tx:
        after = grants_read.of_ask(tx, ask)
    assert after is not None and after.state.value == "REVOKED"
    assert pin_host.kinds("grant.spent", "grant.revoked") == ["grant.revoked"]


def test_every_other_surface_refuses_them_in_the_same_transaction(pin_host: PinHost) -> None:
    """The one deciding function of forge, workspace and operator reads it."""
    suspend_first = pin_host.ask()
    with pin_host.database.write() as tx:
        suspensions.suspend(tx, ALICE, None)
        ask = asks.get(tx, suspend_first)
        assert ask is not None
        assert standing_policy(tx, pin_host.rules.policy).people[ALICE].principal.suspended
        alice = pin_host.rules.policy.people[ALICE].principal
        voice = Voice(alice, Channel.SIGNED, b"{}")
        said = answer(tx, pin_host.rules, ask.id, Answer("deny", None, ask.binding), voice)
    assert isinstance(said, Refused) and said.reason == "suspended"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(("mallory",), "unknown_principal"), (("bot",), "unknown_principal"), (("bob", "--lift"), "not_found")],
)
def test_only_people_of_the_policy_are_suspended_and_only_those_are_reinstated(
    pin_host: PinHost, arguments: tuple[str, ...], code: str
) -> None:
    assert pin_host.in_force is not None
    status, _, err = pin_host.bot("person", "suspend", *arguments)
    assert status == 4 and err.startswith(f"gitops-bot: {code}: ")


def new_keys(tables: dict[str, Any]) -> None:
    """Alice signs with another key, and no certificate."""
    tables["people"]["alice"]["ssh"] = ssh_keys("outsider-sk")
    del tables["people"]["alice"]["openpgp"]


def same_keys(tables: dict[str, Any]) -> None:
    """Something else changes."""
    tables["verbs"]["payments.transfer"]["expires"] = "12h"


@pytest.mark.parametrize(("change", "still"), [(new_keys, False), (same_keys, True)])
def test_an_adopted_bundle_reinstates_whom_it_gives_other_keys(pin_host: PinHost, change: Any, still: bool) -> None:
    """A bundle that was proposed for another reason does not bring a stolen key back."""
    assert pin_host.in_force is not None
    suspend(pin_host)
    proposed = pin_host.propose(change)
    pin_host.adopt(proposed["ask"], "bob", "carol")
    assert pin_host.in_force == proposed["digest"]
    with pin_host.database.read() as tx:
        assert (ALICE in suspensions.suspended(tx)) is still
