"""What `approval sign` refuses before anything is signed, each with its code and the same thing accepted beside it."""

import datetime
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gitops_bot.bootstrap import approver
from gitops_bot.bootstrap.trust import read_trust, write_trust
from gitops_bot.core.canonical import Digest, action_bytes, action_hash
from gitops_bot.core.errors import ConfigError, Reason, Refusal
from gitops_bot.process import run
from gitops_bot.signed.publication import request_files, spent_file
from gitops_bot.signed.rendering import Request
from tests import signed_keys as keys
from tests.approver_stage import Machine, Seat, plant, requests_ref, requests_tip
from tests.signed_bundle import ssh_keys
from tests.signed_host import SignedHost

NewMachine = Callable[..., Machine]


def asked(host: SignedHost, **changes: Any) -> str:
    ask = host.ask(**changes)
    host.announce()
    return ask


def refused(machine: Machine, ask: str, decision: str = "approve", **options: Any) -> tuple[Reason, str]:
    """Sign, be refused, and see that nothing was asked of the person or pushed."""
    seat = Seat()
    with pytest.raises(Refusal) as raised:
        machine.run(ask, decision, seat, **options)
    assert "code" not in seat.asked
    return raised.value.refused.reason, raised.value.refused.sentence


def planted(host: SignedHost, request: Request, **options: Any) -> None:
    """Publish a request that the broker never made, signed by the bot all the same."""
    plant(host.stage, request_files(request, {}), **options)


def altered(request: Request, **changes: Any) -> Request:
    """Give another request, its action hashed anew."""
    made = replace(request, **changes)
    action = action_bytes(made.repository, made.environment, made.verb, made.params)
    return replace(made, action_hash=action_hash(action))


def test_unknown_asks_and_ended_ones(host: SignedHost, machine: NewMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    """An ask that nobody published, one that is spent, one whose time is over; a deny is never too late here."""
    ask, spent = asked(host), asked(host, amount_minor=5)
    alice = machine()
    assert refused(alice, f"{ask[:-1]}{'0' if ask[-1] != '0' else '1'}")[0] is Reason.NOT_FOUND
    plant(host.stage, spent_file(host.request(spent).ask, host.request(spent).action_hash, "n", 1))
    assert refused(alice, spent)[0] is Reason.ALREADY_SETTLED
    assert refused(alice, spent, "deny")[0] is Reason.SPENT
    with monkeypatch.context() as later:
        later.setattr(approver, "wall_seconds", lambda: host.request(ask).expires_at // 1000)
        assert refused(alice, ask)[0] is Reason.EXPIRED
    assert alice.run(ask).status == 3


def test_a_request_of_another_place(host: SignedHost, machine: NewMachine) -> None:
    """Another environment, repository or number than this machine signs for."""
    ask = asked(host)
    alice, request = machine(), host.request(ask)
    assert refused(alice, ask, environment="staging")[0] is Reason.NOT_FOUND
    assert alice.run(ask, dry_run=True).status == 0
    assert refused(alice, ask, repository="github.com/acme/other")[0] is Reason.NOT_FOUND
    assert alice.run(ask).status == 3
    for changes in ({"environment": "staging"}, {"repository": "github.com/acme/other"}, {"repository_id": 7002}):
        planted(host, altered(request, **changes))
        assert refused(alice, ask, "deny")[0] is Reason.NOT_FOUND


def test_a_request_that_is_none(host: SignedHost, machine: NewMachine) -> None:
    """Bytes in another form, another ask's, and a sentence that the policy would not say of these parameters."""
    ask, other = asked(host), asked(host, amount_minor=3)
    alice, request = machine(), host.request(ask)
    path = next(iter(request_files(request, {})))
    raw = request_files(request, {})[path]
    for content in (raw + b"\n", raw.replace(b"payments.transfer", b"payments.transfers"), b"{}", b"\xff"):
        plant(host.stage, {path: content})
        assert refused(alice, ask)[0] is Reason.BYTES_DIFFER
    plant(host.stage, {path: next(iter(request_files(host.request(other), {}).values()))})
    assert refused(alice, ask)[0] is Reason.BYTES_DIFFER
    planted(host, replace(request, summary="Transfer 1.00 EUR to a friend"))
    reason, said = refused(alice, ask)
    assert (reason, "Transfer 1,250.00 EUR" in said) == (Reason.BYTES_DIFFER, True)
    planted(host, altered(request, params={**request.params, "amount_minor": 10**9}, summary="x"))
    assert refused(alice, ask)[0] is Reason.BAD_PARAMS
    planted(host, request)
    assert alice.run(ask).status == 3


def test_a_branch_that_the_bot_did_not_sign(host: SignedHost, machine: NewMachine) -> None:
    """A commit on top by anybody else hides nothing and lends nothing; the broker publishes over it."""
    ask = asked(host)
    alice = machine()
    for signer in (keys.ssh("alice"), keys.ssh("worker"), keys.openpgp("outsider")):
        plant(host.stage, {}, signer=signer)
        reason, said = refused(alice, ask)
        assert (reason, "not the bot's" in said) == (Reason.BAD_SIGNATURE, True)
    assert not (alice.state / "trust.json").exists()
    asked(host, amount_minor=2)
    assert alice.run(ask).status == 3


def test_a_bundle_whose_bytes_are_others(host: SignedHost, machine: NewMachine) -> None:
    """The pin is a digest: what lies under its name is hashed before it is believed, whoever signed the branch."""
    ask = asked(host)
    alice, request = machine(), host.request(ask)
    path = f"bundles/{request.policy.removeprefix('sha256:')}/policy.toml"
    content = (host.folder / "policies" / "policy.toml").read_bytes()
    plant(host.stage, {path: content + b"# nothing\n"})
    assert refused(alice, ask)[0] is Reason.BYTES_DIFFER
    plant(host.stage, {path: content})
    assert alice.run(ask).status == 3
    plant(host.stage, {path: content + b"\n"})
    assert refused(alice, ask, "deny")[0] is Reason.BYTES_DIFFER


def test_a_branch_that_was_taken_back(host: SignedHost, machine: NewMachine) -> None:
    """An older tip, a deleted branch, and an older one beside it; what the broker publishes then is taken."""
    ask = asked(host)
    alice = machine()
    early = requests_tip(host.stage)
    later = asked(host, amount_minor=4)
    assert alice.run(later).status == 3
    newest = requests_tip(host.stage)
    host.stage.point(requests_ref(host.stage), early)
    reason, said = refused(alice, ask)
    assert (reason, "try again in a minute" in said) == (Reason.HISTORY_REWRITTEN, True)
    (host.stage.folder / requests_ref(host.stage)).unlink()
    assert refused(alice, ask)[0] is Reason.HISTORY_REWRITTEN
    host.stage.point(requests_ref(host.stage), early)
    plant(host.stage, {}, at=1_700_000_000)
    assert refused(alice, ask)[0] is Reason.HISTORY_REWRITTEN
    host.stage.point(requests_ref(host.stage), early)
    plant(host.stage, {"asks/zz/x": b"beside what was seen, and newer"})
    assert alice.run(ask).status == 3
    host.stage.point(requests_ref(host.stage), newest)


def test_another_epoch_or_policy_than_is_pinned(host: SignedHost, machine: NewMachine) -> None:
    ask = asked(host)
    alice = machine()
    assert alice.run(ask, dry_run=True).status == 0
    assert alice.run(ask).status == 3
    pinned = read_trust(alice.state / "trust.json")
    write_trust(alice.state / "trust.json", replace(pinned, epoch=2))
    assert refused(alice, ask, "deny")[0] is Reason.EPOCH
    write_trust(alice.state / "trust.json", replace(pinned, policy_digest=Digest("sha256:" + "cd" * 32)))
    assert refused(alice, ask, "deny")[0] is Reason.NOT_FOUND
    write_trust(alice.state / "trust.json", pinned)
    stranger = replace(host.request(ask), policy=Digest("sha256:" + "cd" * 32))
    planted(host, stranger)
    reason, said = refused(alice, ask, "deny")
    assert (reason, "approval trust --pin" in said) == (Reason.STALE_POLICY, True)
    planted(host, host.request(ask))
    assert alice.run(ask, "deny").status == 3


def test_who_may_not_say_it(host: SignedHost, machine: NewMachine) -> None:
    ask = asked(host)
    for person, reason in (("mallory", Reason.UNKNOWN_PRINCIPAL), ("worker", Reason.UNKNOWN_PRINCIPAL)):
        assert refused(machine("alice"), ask, person=person)[0] is reason
    assert refused(machine("carol"), ask)[0] is Reason.SELF_APPROVAL
    assert machine("bob").run(ask).status == 3


def test_a_key_that_is_not_the_person_s(host: SignedHost, machine: NewMachine) -> None:
    """Refused before it signs, with the keys that the policy names; the agent's key is nobody's here either."""
    ask = asked(host)
    for kind, key in (("ssh", "bob"), ("openpgp", "outsider"), ("ssh", "worker")):
        alice = machine("alice", kind, key=key)
        reason, said = refused(alice, ask)
        assert (reason, "Nothing was signed" in said) == (Reason.UNKNOWN_KEY, True)
        alice.close()
        for file in alice.folder.glob(".gitconfig"):
            file.unlink()
    assert host.stage.tip("alice") is None
    assert machine("alice", "openpgp", key="alice").run(ask).status == 3


def test_a_key_that_proves_too_little(host: SignedHost, machine: NewMachine) -> None:
    """A verb that demands a touch; whoever has only a software key may say so to nobody, not even by a deny."""
    ask = asked(host, verb="payments.refund")
    alice = machine()
    reason, said = refused(alice, ask)
    assert (reason, "presence" in said) == (Reason.WEAK_KEY_KIND, True)
    assert alice.run(asked(host)).status == 3


def test_without_a_key_the_way_to_set_one_is_told(host: SignedHost, machine: NewMachine) -> None:
    ask = asked(host)
    alice = machine()
    (alice.folder / ".gitconfig").unlink()
    with pytest.raises(ConfigError, match=re.escape("gitops-bot.signingKey")):
        alice.run(ask)
    assert host.stage.tip("alice") is None


def test_the_everyday_key_is_warned_of(host: SignedHost, machine: NewMachine) -> None:
    """Stronger where each commit is signed with it; not at all where approvals have a key of their own."""
    ask = asked(host)
    alice = machine()

    def warned() -> str:
        seat = Seat(types="no")
        assert alice.run(ask, seat=seat).status == 1
        return seat.text

    assert "is also your git signing key" in warned()
    alice.set("commit.gpgSign", "true")
    assert "signs each of your commits" in warned()
    alice.set("gitops-bot.signingKey", str(alice.folder / "key"))
    assert "signs each of your commits" in warned()
    (alice.folder / "other.pub").write_text(keys.ssh_line("bob"))
    alice.set("user.signingKey", str(alice.folder / "other.pub"))
    assert "warning:" not in warned()


def dates(start: datetime.date, end: datetime.date) -> Callable[[dict[str, Any]], object]:
    touched = ssh_keys("alice-sk", "alice-sk-ecdsa")
    return lambda tables: tables["people"]["alice"].update(ssh=ssh_keys("alice", start=start, end=end) + touched)


@pytest.mark.parametrize(
    ("days", "outcome"), [((-9, -1), "key_expired"), ((3, 90), "key_not_yet_valid"), ((-9, 10), "ends in")]
)
def test_a_key_near_or_past_its_dates(sqlite_database: Any, tmp_path: Any, days: tuple[int, int], outcome: str) -> None:
    today = datetime.datetime.now(datetime.UTC).date()
    start, end = (today + datetime.timedelta(days=day) for day in days)
    host = SignedHost(tmp_path / "host", sqlite_database, change=dates(start, end))
    alice = Machine(tmp_path / "alice", host.stage.url)
    try:
        ask = asked(host)
        if outcome.startswith("key_"):
            assert refused(alice, ask)[0].value == outcome
        else:
            seat = Seat()
            assert alice.run(ask, seat=seat).status == 3
            assert "warning: This key ends in 9 days" in seat.text or "ends in 10 days" in seat.text
    finally:
        alice.close()
        host.close()


def test_what_the_broker_would_refuse_is_not_pushed(host: SignedHost, machine: NewMachine) -> None:
    """gpg.conf adds a comment to each armor: the commit is made, held against the channel's own steps, and kept."""
    ask = asked(host)
    alice = machine("alice", "openpgp")
    (alice.gnupg / "gpg.conf").write_text("comment hello\n")
    with pytest.raises(Refusal, match=r"malformed_commit.*Nothing was pushed"):
        alice.run(ask)
    assert host.stage.tip("alice") is None
    (alice.gnupg / "gpg.conf").unlink()
    assert alice.run(ask).status == 3


def test_a_branch_of_one_s_own_that_was_rewritten(host: SignedHost, machine: NewMachine) -> None:
    """This machine knows what it pushed: a branch that lost it is not built upon."""
    ask, other = asked(host), asked(host, amount_minor=6)
    alice = machine()
    first = alice.run(ask).document["commit"]
    host.stage.delete("alice")
    assert refused(alice, other)[0] is Reason.HISTORY_REWRITTEN
    host.stage.push("alice", first)
    assert alice.run(other).status == 3


@pytest.mark.parametrize("line", ["remote = 7", 'remotes = "x"', 'person = "Alice"', "person = 'a'\nperson = 'b'"])
def test_a_wrong_settings_file_is_named(host: SignedHost, machine: NewMachine, line: str) -> None:
    ask = asked(host)
    alice = machine()
    file = alice.folder / ".config" / "gitops-bot" / "approver.toml"
    file.parent.mkdir(parents=True)
    file.write_text(line + "\n")
    ran = alice.without_terminal("approval", "sign", ask, "--dry-run")
    assert ran.returncode == 1
    assert b"fix: " in ran.stderr
    file.write_text(f'remote = "{host.stage.url}"\nperson = "alice"\n')
    assert alice.without_terminal("approval", "sign", ask, "--dry-run").returncode == 0
    file.chmod(0o666)
    assert alice.without_terminal("approval", "sign", ask, "--dry-run").returncode == 1


def test_no_database_is_loaded_here() -> None:
    """The approver's side imports neither the store nor its library."""
    code = (
        "import sys, gitops_bot.bootstrap.approver, gitops_bot.cli.approval_sign;"
        "print([m for m in sys.modules if m.startswith(('sqlalchemy', 'gitops_bot.store', 'git.'))])"
    )
    done = run([sys.executable, "-c", code], cwd=Path(__file__).parents[3], timeout=60)
    assert done.stdout.strip() == b"[]", done.stderr
