"""A policy changes by signatures under the one before it: proposed, adopted, pinned, and everything open follows."""

import json
from typing import Any

import pytest

from gitops_bot.bootstrap.workspace import Pinned
from gitops_bot.core.errors import Unavailable
from gitops_bot.signed.spend import EXECUTE, SPEND
from gitops_bot.store import asks, bundles, threads
from tests.signed_pin import PinHost

NOTE = "note.publish"


def without_notes(tables: dict[str, Any]) -> None:
    del tables["verbs"][NOTE]


def published(host: PinHost) -> set[str]:
    """Name every file on the requests branch."""
    repository = host.stage.repository
    ref = repository.references[f"refs/heads/gated/{host.settings.environment}/requests"]
    found: set[str] = set()

    def walk(tree: Any, above: str) -> None:
        for entry in tree:
            path = f"{above}{entry.name}"
            if entry.type_str == "tree":
                walk(entry, f"{path}/")
            else:
                found.add(path)

    walk(repository[ref.target].tree, "")
    return found


def test_a_proposal_is_one_ask_of_the_bots_and_its_bytes_are_published(pin_host: PinHost) -> None:
    """Nothing but the proposal changes: the bundle is stored and shown, the policy in force stays."""
    before = pin_host.in_force
    found = pin_host.propose(without_notes)
    assert found["changes"] == [
        "Version 1 becomes version 2.", "note.publish can no longer be decided by anybody.",
    ]  # fmt: skip
    assert (found["approve"], found["may_approve"], found["repeated"]) == (2, ["alice", "bob", "carol"], False)
    again = json.loads(pin_host.bot("policy", "propose", "--json")[1])
    assert (again["ask"], again["repeated"]) == (found["ask"], True)
    assert pin_host.kinds("policy.proposed", "policy.adopted") == ["policy.proposed"]
    with pin_host.database.read() as tx:
        ask = asks.get(tx, found["ask"])
    assert ask is not None and (ask.requester, ask.owner, ask.verb) == ("bot", None, "policy.adopt")
    pin_host.announce()
    request = pin_host.request(found["ask"])
    assert request.summary.startswith(f"Adopt policy version 2, {found['digest']}, in place of {before}")
    assert f"bundles/{found['digest'].removeprefix('sha256:')}/policy.toml" in published(pin_host)
    assert (pin_host.in_force, pin_host.trust.policy_digest) == (before, before)


@pytest.mark.parametrize(
    ("version", "change", "status", "said"),
    [
        (1, without_notes, 1, "does not follow"),
        (2, lambda tables: tables["verbs"]["policy.adopt"].update(approve=1), 1, "approve must be at least 2"),
        (2, lambda tables: tables["verbs"]["policy.adopt"].update(keys="any"), 1, 'keys must be "verified"'),
        (1, lambda tables: None, 1, "is the one in force"),
    ],
)
def test_what_may_not_follow_is_no_proposal(
    pin_host: PinHost, version: int, change: Any, status: int, said: str
) -> None:
    """Its accepting twin is above."""
    pin_host.put(change, version=version)
    told = pin_host.bot("policy", "propose")
    assert told[0] == status
    assert said in told[2]
    assert pin_host.kinds("policy.proposed") == []


def test_an_adopted_policy_is_pinned_and_everything_open_follows_it(pin_host: PinHost) -> None:
    """cases/lifecycle 13, and the table policy: one transaction an ask, a verb that vanished goes to the backlog."""
    transfer = pin_host.ask()
    with_verb = pin_host.ask(verb=NOTE, params={"title": "A title"}, owner="bob")
    pin_host.announce()
    pin_host.vote("alice", transfer)
    pin_host.look()
    rival = pin_host.propose(version=3)
    found = pin_host.propose(without_notes)
    workspace = Pinned(pin_host.settings, pin_host.database)
    before = workspace.now().policy.digest
    pin_host.adopt(found["ask"])
    assert (pin_host.in_force, pin_host.trust.policy_digest) == (found["digest"], found["digest"])
    assert (pin_host.trust.policy_version, pin_host.trust.epoch) == (2, 1)
    assert pin_host.broker.adopted.is_set(), "the broker begins anew by itself"
    assert workspace.now().policy.digest == found["digest"] != before, "and the workspace without a restart"
    pin_host.restart()
    assert pin_host.rules.policy.digest == found["digest"]
    pin_host.supersede()
    assert pin_host.state_of(transfer) == ("SUPERSEDED", "stale_policy")
    assert pin_host.state_of(with_verb)[0] == "WITHDRAWN"
    assert pin_host.state_of(rival["ask"])[0] == "WITHDRAWN"
    with pin_host.database.read() as tx:
        old = asks.get(tx, transfer)
        assert threads.is_in_backlog(tx, with_verb) and not threads.is_in_backlog(tx, rival["ask"])
    assert old is not None and old.superseded_by is not None
    pin_host.announce()
    assert pin_host.request(old.superseded_by).policy == found["digest"]
    pin_host.vote("bob", transfer)
    pin_host.look()
    assert pin_host.state_of(old.superseded_by)[0] == "OPEN", (
        "what was signed for the old ask is no vote on the new one"
    )
    pin_host.keep()
    assert not pin_host.broker.adopted.is_set()


def ask_of(found: dict[str, Any]) -> str:
    ask: str = found["ask"]
    return ask


def test_two_bundles_that_follow_the_same_one_are_adopted_once(pin_host: PinHost) -> None:
    """The second has its signatures too, and fails: the bundle that it named as the one before is in force no more."""
    first, second = pin_host.propose(without_notes), pin_host.propose(version=3)
    pin_host.announce()
    for ask in (ask_of(first), ask_of(second)):
        for person in ("alice", "carol"):
            pin_host.vote(person, ask)
    pin_host.look()
    pin_host.drain(SPEND)
    pin_host.drain(EXECUTE)
    assert pin_host.kinds("policy.adopted", "effect.done") == ["policy.adopted", "effect.done"]
    assert pin_host.in_force in (first["digest"], second["digest"])
    assert pin_host.trust.policy_digest == pin_host.in_force


def test_the_bytes_that_were_approved_are_the_bytes_that_are_adopted(pin_host: PinHost) -> None:
    """The stored bundle was changed by another hand after people signed: nothing is adopted, and the reason is told."""
    found = pin_host.propose(without_notes)
    pin_host.announce()
    for person in ("alice", "bob"):
        pin_host.vote(person, found["ask"])
    pin_host.look()
    trigger = "CREATE TRIGGER policy_bundles_no_update BEFORE UPDATE ON policy_bundles "
    pin_host.hand("DROP TRIGGER policy_bundles_no_update")
    with pin_host.database.read() as tx:
        other = bundles.get(tx, pin_host.in_force or "")
    assert other is not None
    pin_host.hand("UPDATE policy_bundles SET files = :new WHERE digest = :d", new=other.content, d=found["digest"])
    pin_host.hand(trigger + "BEGIN SELECT RAISE(ABORT, 'policy_bundles is append-only'); END")
    pin_host.drain(SPEND)
    pin_host.drain(EXECUTE)
    assert pin_host.kinds("policy.adopted", "effect.failed") == ["effect.failed"]
    assert pin_host.trust.policy_version == 1


def test_a_changed_bundle_on_disk_is_noticed_once_and_proposed_by_nobody(pin_host: PinHost) -> None:
    pin_host.put(without_notes)
    for _ in range(2):
        pin_host.keep()
    pin_host.restart()
    pin_host.keep()
    assert pin_host.kinds("policy.changed_on_disk", "policy.proposed") == ["policy.changed_on_disk"]
    told = pin_host.bot("doctor", "--json")[1]
    (line,) = [one for one in json.loads(told)["findings"] if one["name"] == "bundle on disk"]
    assert line["ok"] and "was never proposed" in line["detail"]
    (policy,) = [one for one in json.loads(told)["findings"] if one["name"] == "policy"]
    assert policy["ok"] and "version 1 is pinned" in policy["detail"], "the pinned bytes are in the database"


def test_the_workspace_decides_nothing_without_its_pin(pin_host: PinHost) -> None:
    workspace = Pinned(pin_host.settings, pin_host.database)
    trust = pin_host.state / "trust.json"
    kept = trust.read_bytes()
    trust.unlink()
    with pytest.raises(Unavailable, match="trust file"):
        workspace.now()
    trust.touch(mode=0o600)
    trust.write_bytes(kept)
    assert workspace.now().policy.version == 1


def test_the_explanation_says_who_is_left(pin_host: PinHost) -> None:
    told = pin_host.bot_plain("policy", "explain", "payments.transfer", "--dir", str(pin_host.folder / "policies"))
    assert "asked by an agent of carol: alice, bob could approve; it takes 2, 0 to spare" in told[1]
    assert "asked by anybody else: alice, bob, carol could approve; it takes 2, 1 to spare" in told[1]
