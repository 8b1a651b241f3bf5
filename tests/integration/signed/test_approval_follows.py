"""An approver's pin follows an adoption that it verified itself, from the persons' own signed votes, and no other."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from gitops_bot.bootstrap.trust import read_trust
from gitops_bot.core.asks import AskId
from gitops_bot.core.canonical import Digest, bundle_digest
from gitops_bot.core.errors import Reason, Refusal
from gitops_bot.core.principals import PrincipalName
from gitops_bot.signed.publication import bundle_files, request_files, spent_file
from gitops_bot.signed.rendering import Request
from gitops_bot.store.ids import new_id
from tests import signed_keys as keys
from tests.approver_stage import Machine, Seat, plant, requests_ref, requests_tip
from tests.signed_bundle import bundle
from tests.signed_host import SignedHost
from tests.signed_stage import transfer

NewMachine = Callable[..., Machine]


@dataclass
class Change:
    """A bundle on its way: its bytes, and the request to adopt it in place of another."""

    files: Mapping[str, bytes]
    request: Request

    @property
    def digest(self) -> Digest:
        return bundle_digest(self.files)

    def marker(self, **changes: Any) -> dict[str, bytes]:
        values = {"ask": self.request.ask, "action_hash": self.request.action_hash, "nonce": "n", "at": 1, **changes}
        return spent_file(**values)


def fresh() -> AskId:
    return AskId(new_id(int(time.time() * 1000)))


def now() -> dict[str, int]:
    at = int(time.time()) * 1000
    return {"opened_at": at, "expires_at": at + 86_400_000}


def change(previous: Digest, version: int = 2, requester: str = "bot") -> Change:
    """Give a bundle in which two approvals of a note are needed instead of one, and the request to adopt it."""

    def edit(tables: dict[str, Any]) -> None:
        tables["version"] = version
        tables["verbs"]["payments.transfer"]["expires"] = f"{version}h"

    files = bundle(edit)
    digest = bundle_digest(files)
    request = transfer(
        ask=fresh(),
        verb="policy.adopt",
        params={"digest": digest, "version": version, "previous": previous},
        summary=f"Adopt policy version {version}, {digest}, in place of {previous}",
        policy=previous,
        requester=PrincipalName(requester),
        **now(),
    )
    return Change(files, request)


def vote(host: SignedHost, person: str, request: Request, decision: str = "approve", **changes: Any) -> str:
    """Vote with a security key that was touched and unlocked."""
    signer = changes.pop("signer", keys.ssh(f"{person}-sk", flags=5))
    return host.stage.vote(person, decision, request=request, signer=signer, **changes)


def under(host: SignedHost, policy: Digest) -> str:
    """Publish a request under a policy, as the broker does once it is in force, and give its ask."""
    request = transfer(ask=fresh(), policy=policy, **now())
    plant(host.stage, request_files(request, {}))
    return request.ask


@pytest.fixture
def alice(host: SignedHost, machine: NewMachine) -> Machine:
    """A machine that pinned version 1."""
    ask = host.ask()
    host.announce()
    made = machine()
    assert made.run(ask).status == 3
    return made


def pinned(machine: Machine) -> tuple[int, str]:
    trust = read_trust(machine.state / "trust.json")
    return trust.policy_version, trust.policy_digest


def refused(machine: Machine, ask: str) -> tuple[Reason, str]:
    with pytest.raises(Refusal) as raised:
        machine.run(ask)
    return raised.value.refused.reason, raised.value.refused.sentence


def test_two_adoptions_are_followed_at_once(host: SignedHost, alice: Machine) -> None:
    """Each is verified under the bundle that it replaced; then the ask under the newest can be signed."""
    second = change(Digest(pinned(alice)[1]))
    third = change(second.digest, 3)
    for one, voters in ((second, ("bob", "carol")), (third, ("alice", "carol"))):
        plant(host.stage, bundle_files(one.digest, one.files) | request_files(one.request, {}))
        for person in voters:
            vote(host, person, one.request)
        plant(host.stage, one.marker())
    seat = Seat()
    assert alice.run(under(host, third.digest), seat=seat).status == 3
    assert pinned(alice) == (3, third.digest)
    assert [line for line in seat.shown if "was adopted by" in line] == [
        f"policy version {version} was adopted by {one.request.ask}, verified here"
        for version, one in ((2, second), (3, third))
    ]
    assert seat.asked == ["code"]


def test_the_branch_alone_moves_no_pin(host: SignedHost, alice: Machine) -> None:
    """The bot says that it was adopted: without the persons' votes, with one, with a stranger's, with the agent's."""
    before = pinned(alice)
    one = change(Digest(before[1]))
    plant(host.stage, bundle_files(one.digest, one.files) | request_files(one.request, {}) | one.marker())
    ask = under(host, one.digest)
    reason, said = refused(alice, ask)
    assert (reason, "0 of 2 approvals stand" in said, "trust show" in said) == (Reason.NOT_AUTHORISED, True, True)
    vote(host, "bob", one.request, signer=keys.ssh("bob"))  # too weak a key
    vote(host, "carol", one.request, signer=keys.ssh("alice-sk", flags=5))  # another's
    vote(host, "bob", one.request, signer=keys.ssh("bob-sk", flags=1))  # no PIN
    assert "0 of 2 approvals stand" in refused(alice, ask)[1]
    vote(host, "bob", one.request)
    assert "1 of 2 approvals stand" in refused(alice, ask)[1]
    assert pinned(alice) == before
    vote(host, "carol", one.request)
    assert alice.run(ask).status == 3
    assert pinned(alice) == (2, one.digest)


def test_votes_alone_move_no_pin(host: SignedHost, alice: Machine) -> None:
    """Two people voted and the broker did not act, or marked another action."""
    before = pinned(alice)
    one = change(Digest(before[1]))
    plant(host.stage, bundle_files(one.digest, one.files) | request_files(one.request, {}))
    for person in ("bob", "carol"):
        vote(host, person, one.request)
    ask = under(host, one.digest)
    assert refused(alice, ask)[0] is Reason.STALE_POLICY
    plant(host.stage, one.marker(action_hash=Digest("sha256:" + "00" * 32)))
    assert refused(alice, ask)[0] is Reason.STALE_POLICY
    assert pinned(alice) == before
    plant(host.stage, one.marker())
    assert alice.run(ask).status == 3


def test_a_deny_stops_the_pin_however_it_was_hidden(host: SignedHost, alice: Machine) -> None:
    """Carol's deny is taken out of the tree again; her branch still says it."""
    before = pinned(alice)
    one = change(Digest(before[1]))
    plant(host.stage, bundle_files(one.digest, one.files) | request_files(one.request, {}) | one.marker())
    for person in ("alice", "bob"):
        vote(host, person, one.request)
    root = host.stage.root("carol")
    vote(host, "carol", one.request, "deny")
    vote(host, "carol", one.request, tree=host.stage.tree_of(root))
    reason, said = refused(alice, under(host, one.digest))
    assert (reason, "denied by carol" in said) == (Reason.NOT_AUTHORISED, True)
    assert pinned(alice) == before
    host.stage.push("carol", root)  # and now out of the branch
    assert refused(alice, under(host, one.digest))[0] is Reason.HISTORY_REWRITTEN
    assert pinned(alice) == before


def test_who_asked_does_not_count(host: SignedHost, alice: Machine) -> None:
    one = change(Digest(pinned(alice)[1]), requester="alice")
    plant(host.stage, bundle_files(one.digest, one.files) | request_files(one.request, {}) | one.marker())
    for person in ("alice", "bob"):
        vote(host, person, one.request)
    ask = under(host, one.digest)
    assert "1 of 2 approvals stand" in refused(alice, ask)[1]
    vote(host, "carol", one.request)
    assert alice.run(ask).status == 3


def test_other_bytes_than_were_voted_for(host: SignedHost, alice: Machine) -> None:
    """The bundle's files under another digest, a version that does not rise, and none at all."""
    before = pinned(alice)
    old, one = change(Digest(before[1]), 1), change(Digest(before[1]))
    for made in (old, one):
        plant(host.stage, bundle_files(made.digest, made.files) | request_files(made.request, {}))
        for person in ("bob", "carol"):
            vote(host, person, made.request)
    plant(host.stage, old.marker())
    assert refused(alice, under(host, old.digest))[0] is Reason.STALE_POLICY
    path = f"bundles/{one.digest.removeprefix('sha256:')}/policy.toml"
    plant(host.stage, one.marker() | {path: one.files["policy.toml"] + b"#"})
    ask = under(host, one.digest)
    assert refused(alice, ask)[0] in (Reason.BYTES_DIFFER, Reason.STALE_POLICY)
    assert pinned(alice) == before
    plant(host.stage, {path: one.files["policy.toml"]})
    assert alice.run(ask).status == 3


def test_a_voter_s_branch_that_cannot_be_read_holds_it(host: SignedHost, alice: Machine) -> None:
    """Whoever may deny may have denied there."""
    one = change(Digest(pinned(alice)[1]))
    plant(host.stage, bundle_files(one.digest, one.files) | request_files(one.request, {}) | one.marker())
    for person in ("alice", "bob"):
        vote(host, person, one.request)
    tree = host.stage.write("tree", b"40000 x\0" + bytes.fromhex("12" * 20))
    host.stage.push("carol", host.stage.commit(replace(host.stage.root_recipe("carol"), tree=tree)))
    ask = under(host, one.digest)
    assert refused(alice, ask)[0] is Reason.HELD
    host.stage.delete("carol")
    assert alice.run(ask).status == 3


def test_an_adoption_is_shown_in_sentences_of_its_own_bytes(host: SignedHost, alice: Machine) -> None:
    one = change(Digest(pinned(alice)[1]))
    plant(host.stage, request_files(one.request, {}))
    with pytest.raises(Refusal, match="not_found"):
        alice.run(one.request.ask, dry_run=True)
    plant(host.stage, bundle_files(one.digest, one.files))
    seat = Seat()
    assert alice.run(one.request.ask, seat=seat, dry_run=True).status == 0
    assert "Version 1 becomes version 2." in seat.text
    assert "An ask expires after 2h instead of 1d for payments.transfer." in seat.text


def test_a_person_may_pin_anew_by_comparing_words(host: SignedHost, alice: Machine) -> None:
    """What cannot be followed is compared out of band; another digest than the branch has is not taken."""
    one = change(Digest(pinned(alice)[1]))
    plant(host.stage, bundle_files(one.digest, one.files))
    with alice.approver() as approver:
        with pytest.raises(Refusal, match="not_found"):
            approver.pin(Digest("sha256:" + "ef" * 32), Seat())
        assert approver.pin(one.digest, Seat()).policy_version == 2
    assert pinned(alice) == (2, one.digest)
    assert alice.run(under(host, one.digest)).status == 3


def test_the_newest_tip_is_of_a_bot_that_stands(host: SignedHost, alice: Machine) -> None:
    """After an adoption that gave the bot another key, the old one signs nothing any more."""

    def edit(tables: dict[str, Any]) -> None:
        tables["version"] = 2
        del tables["people"]["bot"]["ssh"]

    files = bundle(edit)
    made = change(Digest(pinned(alice)[1]))
    digest = bundle_digest(files)
    params = {**made.request.params, "digest": digest}
    summary = made.request.summary.replace(made.digest, digest)
    one = Change(files, transfer(**{**_members(made.request), "params": params, "summary": summary}))
    plant(host.stage, bundle_files(digest, files) | request_files(one.request, {}) | one.marker())
    for person in ("bob", "carol"):
        vote(host, person, one.request)
    ask = under(host, digest)
    assert refused(alice, ask)[0] is Reason.STALE_POLICY  # still the old key's: followed once the new one signs
    plant(host.stage, {}, signer=keys.openpgp("bot"))
    assert alice.run(ask).status == 3
    last = requests_tip(host.stage)
    plant(host.stage, {}, signer=keys.ssh("bot"))
    assert refused(alice, ask)[0] is Reason.BAD_SIGNATURE
    host.stage.point(requests_ref(host.stage), last)


def _members(request: Request) -> dict[str, Any]:
    return {name: getattr(request, name) for name in Request.__slots__ if name != "action_hash"}
