"""A broker whose signed channel is not in order does not start, and `doctor` names each thing with its fix."""

import datetime
import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gitops_bot.bootstrap.broker import build
from gitops_bot.core.errors import ConfigError
from gitops_bot.store import branches
from gitops_bot.store import settings as stored
from gitops_bot.store.roles import Role
from tests import signed_keys as keys
from tests.payee import listening, said
from tests.signed_bundle import NOT_BEFORE, ssh_keys
from tests.signed_host import SignedHost
from tests.store_fixtures import FreshDatabase


def others_read(name: str) -> Callable[[SignedHost], None]:
    """Let others read a secret of the host's."""

    def change(host: SignedHost) -> None:
        host.private(name, b"hunter7").chmod(0o644)

    return change


def setting(**signed: Any) -> Callable[[SignedHost], None]:
    """Change keys of `[signed]`."""
    return lambda host: host.write(**signed)


def bot_key(content: bytes, mode: int = 0o600) -> Callable[[SignedHost], None]:
    """Put another key in the place of the bot's."""
    return lambda host: host.private("bot.key", content).chmod(mode)


TOKEN, SSH_KEY = ".gitops-bot/keys/approvals-token", ".gitops-bot/keys/approvals-ssh"
SECRET_IN_ADDRESS = "https://bot:hunter7@forge.example/a.git"
WRONG: dict[str, tuple[Callable[[SignedHost], None], str, str]] = {
    "no number, no forge to ask": (setting(repository_id=0), "number of the repository", "repository_id"),
    "an address that is none": (setting(remote="approvals.git"), "address of the repository", "remote"),
    "a secret in the address": (setting(remote=SECRET_IN_ADDRESS), "address of the repository", "remote"),
    "a token that others read": (others_read(TOKEN), "others may read", "chmod 600"),
    "an SSH key that others read": (others_read(SSH_KEY), "others may read", "chmod 600"),
    "a bot's key that others read": (bot_key(b"x", 0o640), "its owner alone may read", "chmod 600"),
    "no key of the bot's": (setting(bot_key_file=None), "no key to publish", "bot_key_file"),
    "a bot's key of nobody": (bot_key(keys.ssh_path("outsider").read_bytes()), "none of the policy", "[people.bot]"),
    "a person's as the bot's": (bot_key(keys.ssh_path("alice").read_bytes()), "none of the policy", "[people.bot]"),
    "a bot's key that is none": (bot_key(b"x"), "neither", "ssh-keygen"),
}


@pytest.mark.parametrize("name", WRONG)
def test_the_broker_fails_closed_and_says_how_to_mend_it(host: SignedHost, name: str) -> None:
    change, message, fix = WRONG[name]
    change(host)
    with pytest.raises(ConfigError) as caught:
        build(host.settings)
    assert message in caught.value.message
    assert fix in caught.value.fix
    assert "hunter7" not in str(caught.value), "a secret stands in no error"


@pytest.mark.parametrize("kind", ["ssh", "openpgp"])
def test_its_twin_starts(tmp_path: Path, sqlite_database: FreshDatabase, kind: str) -> None:
    host = SignedHost(tmp_path / "host", sqlite_database, bot_kind=kind)
    host.private(".gitops-bot/keys/approvals-token", b"hunter7")
    host.private(".gitops-bot/keys/approvals-ssh", b"hunter7")
    broker = build(host.settings)
    assert broker.signed is not None
    assert broker.signed.announcer is not None
    broker.close()
    host.close()


def test_a_repository_of_another_number_is_another_one(host: SignedHost) -> None:
    assert host.channel.place.repository_id == 7001
    host.broker.close()
    host.write(repository_id=7002)
    with pytest.raises(ConfigError, match="has the number 7002 now"):
        build(host.settings)


def findings(host: SignedHost) -> tuple[int, dict[str, dict[str, Any]]]:
    """Run doctor and give what it found by name."""
    status, out, _ = host.bot("doctor", "--json")
    return status, {one["name"]: one for one in json.loads(out)["findings"]}


def test_doctor_finds_a_channel_in_order(host: SignedHost) -> None:
    status, found = findings(host)
    assert (found["approvals repository"]["ok"], found["last look"]["ok"]) == (True, True), "before the first start"
    ask = host.ask()
    host.announce()
    host.vote("alice", ask)
    host.look()
    status, found = findings(host)
    assert status == 0, found
    assert found["approvals remote"]["detail"].endswith("with 1 people's branches; it has requests")
    assert found["object ids"]["detail"].startswith("SHA-1; ")
    assert "OpenSSH" in found["ssh-keygen"]["detail"]
    assert found["bot key"]["detail"] == "ssh key, of the policy's service for requests"
    assert found["keys"]["ok"]
    assert "payments.transfer" in found["key kind"]["detail"]
    assert "payments.close" not in found["key kind"]["detail"]
    assert host.channel.bot is not None
    host.announce()  # the running broker's copy of the key was left alone


def test_doctor_names_what_is_broken_in_the_channel(tmp_path: Path, sqlite_database: FreshDatabase) -> None:
    soon = datetime.date.today() + datetime.timedelta(days=12)

    def change(tables: dict[str, Any]) -> None:
        tables["people"]["bob"]["ssh"] = [
            *ssh_keys("bob", start=NOT_BEFORE, end=soon),
            *ssh_keys("bob-sk", start=NOT_BEFORE, end=datetime.date(2021, 1, 1)),
        ]

    host = SignedHost(tmp_path / "host", sqlite_database, change=change)
    with host.database.write() as tx:
        for state in (branches.BranchState.FROZEN, branches.BranchState.UNREADABLE):
            person = "alice" if state == "frozen" else "bob"
            branches.put(tx, branches.Branch(person, state, None, None, None, "fetch_refused", "x", tx.now, tx.now))
        stored.set_cursor(tx, "signed.looked_at", str(tx.now - 3_600_000))
    with (host.folder / ".gitops-bot/signed/approvals.git/config").open("a") as config:
        config.write("[core]\n")
    host.private("bot.key", keys.ssh_path("alice").read_bytes())
    _, out, _ = host.bot("doctor", "--json")
    broken = [one for one in json.loads(out)["findings"] if not one["ok"]]
    assert all(one["fix"] for one in broken)
    assert sorted(one["name"] for one in broken) == [
        "approvals repository", "bot key", "branch", "branch", "key", "key", "last look",
    ]  # fmt: skip
    ends = [one["detail"] for one in broken if one["name"] == "key"]
    assert any(text.endswith("of bob has ended") for text in ends)
    assert any("of bob ends in 1" in text for text in ends)
    host.write(remote="file:///nowhere/at/all.git", bot_key_file=None)
    status, found = findings(host)
    assert status == 1
    assert not found["approvals remote"]["ok"]
    assert "nobody can sign" in found["bot key"]["detail"]
    host.close()


def test_doctor_says_when_the_ids_of_the_remote_are_of_another_kind(host: SignedHost, tmp_path: Path) -> None:
    from gitops_bot.process import run

    far = tmp_path / "far"
    made = run(("git", "init", "--quiet", "--bare", "--object-format=sha256", str(far)), cwd=tmp_path, timeout=60)
    assert made.returncode == 0, made.stderr
    script = """
        commit=$(git -c user.name=x -c user.email=x@x commit-tree -m x "$(git mktree < /dev/null)")
        git update-ref refs/heads/gated/production/approvals/alice "$commit"
    """
    done = run(("sh", "-ec", script), cwd=far, timeout=60)
    assert done.returncode == 0, done.stderr
    host.write(remote=f"file://{far}")
    status, found = findings(host)
    assert (status, found["object ids"]["ok"]) == (1, False)


def test_the_host_may_read_what_is_remembered_of_keys_and_write_none_of_it(host: SignedHost) -> None:
    from gitops_bot.store import signatures

    _ = host.database
    opened = host.fresh.open(Role.HOST)
    with opened.read() as tx:
        assert signatures.revocations(tx) == ()
        assert signatures.counter(tx, "x") is None
    with pytest.raises(Exception, match=r"not authorized|prohibited"), opened.write() as tx:
        signatures.set_counter(tx, "x", 1)


@pytest.mark.parametrize("dedupes", [True, False])
def test_doctor_finds_out_whether_an_executor_dedupes(
    tmp_path: Path, sqlite_database: FreshDatabase, dedupes: bool
) -> None:
    """Declared idempotent, it must answer `dup` to the second call of a check that names no action."""
    seen: list[bytes] = []

    def answer(connection: socket.socket, request: bytes) -> None:
        body = request.partition(b"\r\n\r\n")[2]
        known = dedupes and body in seen
        seen.append(body)
        connection.sendall(said("200 OK", b'{"dup": true}' if known else b"{}"))

    def to_loopback(tables: dict[str, Any]) -> None:
        for rule in tables["verbs"].values():
            if "executor" in rule:
                rule["executor"] = {"http": f"http://127.0.0.1:{payee.port}/pay", "idempotent": True}

    with listening(answer) as payee:
        host = SignedHost(tmp_path / "host", sqlite_database, change=to_loopback)
        host.broker.close()
        _, out, _ = host.bot("doctor", "--executors", "--json")
        found = [one for one in json.loads(out)["findings"] if one["name"] == "executor"]
        host.close()
    assert found
    assert [one["ok"] for one in found] == [dedupes] * len(found), found
    assert all(b"execution-check" in body and b'action"' not in body for body in seen)
