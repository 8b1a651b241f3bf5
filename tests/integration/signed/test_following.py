"""This host's pin follows an adoption only by verifying it: honest ones do move it, nothing else does."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from gitops_bot.bootstrap.gate import Gate
from gitops_bot.bootstrap.trust import write_trust
from gitops_bot.core.errors import Unavailable
from gitops_bot.store import asks, bundles
from tests.signed_pin import PinHost


def fewer(tables: dict[str, Any]) -> None:
    del tables["verbs"]["note.publish"]


def adopted_elsewhere(host: PinHost, monkeypatch: pytest.MonkeyPatch) -> str:
    """Adopt a policy as a process does that dies between its commit and this host's trust file."""
    before = host.trust
    found = host.propose(fewer)
    with monkeypatch.context() as patch:
        patch.setattr(Gate, "repin", lambda _self, _digest: None)
        host.adopt(found["ask"])
    assert (host.in_force, host.trust.policy_digest) == (found["digest"], before.policy_digest)
    host.restart()
    digest: str = found["digest"]
    return digest


def test_a_crash_between_the_adoption_and_the_trust_file_is_followed(
    pin_host: PinHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then the channel decides nothing, and ordinary asks go on."""
    digest = adopted_elsewhere(pin_host, monkeypatch)
    assert pin_host.rules.policy.version == 1
    with pin_host.database.read() as tx, pytest.raises(Unavailable, match="closed"):
        Gate(pin_host.database, pin_host.settings.trust_file, pin_host.rules.policy, 1).sound(tx)
    pin_host.keep()
    assert pin_host.trust.policy_digest == digest
    assert pin_host.broker.adopted.is_set()
    pin_host.restart()
    assert pin_host.rules.policy.version == 2
    pin_host.keep()
    assert pin_host.kinds("policy.followed", "channel.closed") == ["policy.followed"]
    with pin_host.database.read() as tx:
        Gate(pin_host.database, pin_host.settings.trust_file, pin_host.rules.policy, 1).sound(tx)


def test_several_adoptions_are_followed_one_by_one(pin_host: PinHost) -> None:
    """Another broker host that was away for two adoptions."""
    assert pin_host.in_force is not None
    away = pin_host.trust
    pin_host.change_policy(fewer)
    last = pin_host.change_policy(fewer, version=3)
    pin_host.restart()
    write_trust(pin_host.settings.trust_file, away)
    pin_host.keep()
    assert (pin_host.trust.policy_digest, pin_host.trust.policy_version) == (last, 3)
    assert pin_host.kinds("policy.followed") == ["policy.followed", "policy.followed"]


def move_pointer(host: PinHost, digest: str, ask: str | None = None) -> None:
    host.hand("UPDATE policy_in_force SET digest = :d, ask = :a", d=digest, a=ask)


def forged_pointer(host: PinHost) -> None:
    """The proposal that nobody signed is put in force."""
    found = host.propose(fewer)
    move_pointer(host, found["digest"], found["ask"])


def forged_grant(host: PinHost) -> None:
    """The ask is marked as approved, with a grant that was spent."""
    found = host.propose(fewer)
    host.announce()
    host.hand("UPDATE asks SET state = 'APPROVED', ended_at = opened_at WHERE id = :a", a=found["ask"])
    host.hand(
        "INSERT INTO grants (id, ask, action_hash, state, epoch, minted_at, spend_after, spend_before, ended_at, nonce)"
        " SELECT '01jdxm2r7q8v9w0a1b2c3d4e5f', id, action_hash, 'SPENT', 1, opened_at, opened_at, expires_at,"
        " opened_at, 'aa' FROM asks WHERE id = :a",
        a=found["ask"],
    )
    move_pointer(host, found["digest"], found["ask"])


def missing_vote(host: PinHost) -> None:
    """One of the two signed."""
    found = host.propose(fewer)
    host.announce()
    host.vote("alice", found["ask"])
    host.look()
    host.hand("UPDATE asks SET state = 'APPROVED', ended_at = opened_at WHERE id = :a", a=found["ask"])
    host.hand(
        "INSERT INTO grants (id, ask, action_hash, state, epoch, minted_at, spend_after, spend_before, ended_at, nonce)"
        " SELECT '01jdxm2r7q8v9w0a1b2c3d4e5f', id, action_hash, 'SPENT', 1, opened_at, opened_at, expires_at,"
        " expires_at, 'aa' FROM asks WHERE id = :a",
        a=found["ask"],
    )
    move_pointer(host, found["digest"], found["ask"])


def other_bytes(host: PinHost, monkeypatch: pytest.MonkeyPatch) -> None:
    """What people signed was adopted; the bytes that are stored under its digest were changed since."""
    digest = adopted_elsewhere(host, monkeypatch)
    with host.database.read() as tx:
        old = bundles.get(tx, host.trust.policy_digest)
    assert old is not None
    host.hand("DROP TRIGGER policy_bundles_no_update")
    host.hand("UPDATE policy_bundles SET files = :f WHERE digest = :d", f=old.content, d=digest)
    host.hand(
        "CREATE TRIGGER policy_bundles_no_update BEFORE UPDATE ON policy_bundles "
        "BEGIN SELECT RAISE(ABORT, 'policy_bundles is append-only'); END"
    )


def another_action(host: PinHost, monkeypatch: pytest.MonkeyPatch) -> None:
    """Real signatures for one bundle, and the ask and grant rewritten to name another."""
    evil = host.propose(lambda tables: tables["verbs"].pop("payments.close"), version=3)
    adopted_elsewhere(host, monkeypatch)
    with host.database.read() as tx:
        force = bundles.in_force(tx)
        other = asks.get(tx, evil["ask"])
    assert force is not None and other is not None
    host.hand("UPDATE asks SET state = 'WITHDRAWN', ended_at = opened_at WHERE id = :a", a=evil["ask"])
    host.hand(
        "UPDATE asks SET action = :n, action_hash = :h WHERE id = :a",
        n=other.action,
        h=other.binding.action_hash,
        a=force[1],
    )
    host.hand("UPDATE grants SET action_hash = :h", h=other.binding.action_hash)
    move_pointer(host, evil["digest"], force[1])


@pytest.mark.parametrize("forge", [forged_pointer, forged_grant, missing_vote, other_bytes, another_action])
def test_what_does_not_verify_moves_nothing_and_closes_the_channel(
    pin_host: PinHost, forge: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its accepting twins are above. The channel is closed, told once, and the way to open it is shown."""
    assert pin_host.in_force is not None
    before = pin_host.trust.policy_digest
    forge(*((pin_host, monkeypatch) if forge in (other_bytes, another_action) else (pin_host,)))
    pin_host.restart()
    for _ in range(3):
        pin_host.keep()
    assert pin_host.trust.policy_digest == before
    assert not pin_host.broker.adopted.is_set()
    assert pin_host.kinds("channel.closed", "policy.followed") == ["channel.closed"]
    status, out, _ = pin_host.bot("approval", "list")
    assert status == 0 and "CLOSED  the signed channel decides nothing" in out and "trust repin" in out
    status, out, _ = pin_host.bot("doctor", "--json")
    lines = [one for one in json.loads(out)["findings"] if one["name"] == "signed channel" and not one["ok"]]
    assert len(lines) == 1 and "trust repin" in lines[0]["fix"]
