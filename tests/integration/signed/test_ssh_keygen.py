"""The real ssh-keygen says the same as our verifier, or holds or refuses the commit by the right code."""

import os
import shutil
import stat
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from gitops_bot import process
from gitops_bot.core.errors import Reason, Refused, Unavailable
from gitops_bot.signed.evidence import Commit, Signed, Window
from gitops_bot.signed.sshsig.keygen import SshKeygen, agree, allowed_signers
from gitops_bot.signed.sshsig.verifier import SshKeys
from tests.signed_keys import field, ssh_keygen, ssh_line, ssh_path
from tests.sshsig_stage import (
    AT,
    DAY,
    EVERY,
    FIRST,
    LAST,
    NOW,
    PAYLOAD,
    SOFTWARE,
    WINDOW,
    Blob,
    commit,
    edited,
    entry,
    having,
    making,
    signed,
)

ENTRIES = [entry(name) for name in EVERY]
OURS, THEIRS = SshKeys(ENTRIES), SshKeygen(ENTRIES)


def reason(answer: Signed | Refused) -> Reason | None:
    return answer.reason if isinstance(answer, Refused) else None


@pytest.mark.parametrize("name", SOFTWARE)
def test_what_ssh_keygen_signs_is_accepted_by_both(name: str) -> None:
    one = commit(ssh_keygen(name)(PAYLOAD, 0))
    ours = OURS.verify(one, WINDOW)
    assert isinstance(ours, Signed) and ours == THEIRS.verify(one, WINDOW)
    other = Commit(one.id, one.raw, one.tree, None, AT, one.message, PAYLOAD + b"!", one.armor, one.kind)
    assert (reason(OURS.verify(other, WINDOW)), reason(THEIRS.verify(other, WINDOW))) == (Reason.BAD_SIGNATURE,) * 2


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("digest", ["sha256", "sha512"])
def test_what_we_make_in_its_place_is_accepted_by_both(name: str, digest: str) -> None:
    """Security keys too: no hardware makes these, and ssh-keygen takes them for what a security key made."""
    one = signed(name, digest=digest, flags=5, counter=9)
    ours = OURS.verify(one, WINDOW)
    assert isinstance(ours, Signed) and agree(ours, THEIRS.verify(one, WINDOW)) == ours


def test_rsa_over_sha256_is_accepted_by_both() -> None:
    one = signed("bob", algorithm="rsa-sha2-256")
    assert isinstance(OURS.verify(one, WINDOW), Signed) and OURS.verify(one, WINDOW) == THEIRS.verify(one, WINDOW)


def raw_verdict(one: Commit, name: str, folder: Path, at: str = "20260201000000") -> bool:
    """Ask ssh-keygen alone, without any check of ours."""
    (folder / "allowed").write_text(allowed_signers(entry(name)))
    (folder / "signature").write_bytes(one.armor)
    argv = ["ssh-keygen", "-Y", "verify", "-f", "allowed", "-I", "signer", "-n", "git", "-s", "signature", "-O"]
    told = process.run([*argv, f"verify-time={at}"], cwd=folder, env={"TZ": "UTC0"}, stdin=one.payload, timeout=60)
    return told.returncode == 0


def test_ssh_keygen_takes_an_untouched_key_and_we_do_not(tmp_path: Path) -> None:
    """Why the flags are ours to read."""
    one = signed("alice-sk", flags=0)
    assert raw_verdict(one, "alice-sk", tmp_path)
    assert reason(THEIRS.verify(one, WINDOW)) is Reason.NO_USER_PRESENCE
    assert reason(THEIRS.verify(signed("alice-sk", flags=1), WINDOW)) is None


@pytest.mark.parametrize(("reserved", "blamed"), [(b"free room", Reason.BAD_SIGNATURE), (b"", None)])
def test_ssh_keygen_ignores_what_is_reserved_and_we_do_not(
    reserved: bytes, blamed: Reason | None, tmp_path: Path
) -> None:
    """Anybody could write there, and would have a second commit under the same signature."""
    one = edited("alice", having(reserved=reserved))
    assert raw_verdict(one, "alice", tmp_path)
    assert reason(OURS.verify(one, WINDOW)) is blamed


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize(
    "change",
    [
        having(after=b"x"),
        having(namespace=b"file"),
        having(hash_name=b"sha256"),
        having(hash_name=b"sha1"),
        having(version=b"\0\0\0\2"),
        making(lambda name, value, rest: field(name) + field(value[:-1] + bytes((value[-1] ^ 1,))) + rest),
        making(lambda name, value, rest: field(name) + field(value) + rest + b"\0"),
        making(lambda name, value, rest: field(b"ssh-rsa") + field(value) + rest),
    ],
)
def test_whatever_we_accept_of_damaged_blobs_ssh_keygen_accepts(
    name: str, change: Callable[[Blob], Blob], tmp_path: Path
) -> None:
    one = edited(name, change)
    assert isinstance(OURS.verify(one, WINDOW), Refused)
    assert not raw_verdict(one, name, tmp_path)


@pytest.mark.parametrize(
    ("at", "good"),
    [
        ("20241003000000", False),
        ("20241004000000", True),
        ("20270630235959", True),
        ("20270701000000", False),
    ],
)
def test_ssh_keygen_is_told_the_first_and_the_last_second_of_a_key(at: str, good: bool, tmp_path: Path) -> None:
    assert (FIRST, LAST) == (20_000 * DAY, 21_000 * DAY)
    assert raw_verdict(signed(), "alice", tmp_path, at) is good


def test_dates_before_1970_are_no_error_of_ssh_keygen() -> None:
    keys = [entry("alice", -5 * DAY, LAST)]
    assert isinstance(SshKeygen(keys).verify(signed(), WINDOW), Signed)


def test_ssh_keygen_judges_at_receipt_whatever_today_is() -> None:
    window = Window(30_500 * DAY, 300_000)
    later = signed(at=30_500 * DAY - 60_000)
    assert isinstance(SshKeygen([entry("alice", FIRST, 31_000 * DAY)]).verify(later, window), Signed)
    assert reason(THEIRS.verify(later, window)) is Reason.KEY_EXPIRED


def program(folder: Path, script: str) -> str:
    path = folder / "ssh-keygen"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


GOOD = f'Good "git" signature for signer with ED25519 key {entry("alice").key.fingerprint}'


def test_the_stand_in_that_says_what_ssh_keygen_says_is_believed(tmp_path: Path) -> None:
    """The twin of all that follow."""
    keygen = SshKeygen(ENTRIES, program=program(tmp_path, f"cat >/dev/null; echo '{GOOD}'"))
    assert isinstance(keygen.verify(signed(), WINDOW), Signed)


@pytest.mark.parametrize(
    "script",
    [
        "echo nonsense",
        "true",
        f"echo '{GOOD}'; echo '{GOOD}'",
        f"echo '{GOOD}x'",
        f"printf '%s' '{GOOD}'",
        f"echo '{GOOD.replace('alice', 'bob').replace('SHA256:', 'SHA256:A')}'",
        f"echo '{GOOD.replace('git', 'file')}'",
        f"echo '{GOOD}'; exit 1",
        "echo 'Could not verify signature.'; exit 255",
        "head -c 3000000 /dev/zero 2>/dev/null; true",
    ],
)
def test_anything_but_the_one_line_is_disagreement(script: str, tmp_path: Path) -> None:
    keygen = SshKeygen(ENTRIES, program=program(tmp_path, script))
    assert reason(keygen.verify(signed(), WINDOW)) is Reason.ENGINES_DISAGREE


@pytest.mark.parametrize(
    "script",
    [
        "kill -KILL $$",
        "kill -SEGV $$",
        "sleep 60",
        "exit 127",
        "echo 'allowed: No such file or directory' >&2; exit 255",
        "echo 'xmalloc: Cannot allocate memory' >&2; exit 255",
        "echo 'No user exists for uid 12345' >&2; exit 255",
    ],
)
def test_a_tool_that_is_killed_slow_or_lacks_means_holds_the_commit(script: str, tmp_path: Path) -> None:
    keygen = SshKeygen(ENTRIES, program=program(tmp_path, script), timeout=0.5)
    with pytest.raises(Unavailable):
        keygen.verify(signed(), WINDOW)


def test_a_missing_tool_holds_the_commit(tmp_path: Path) -> None:
    with pytest.raises(Unavailable):
        SshKeygen(ENTRIES, program=str(tmp_path / "none")).verify(signed(), WINDOW)


def test_no_room_for_its_files_holds_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/nonexistent")
    with pytest.raises(Unavailable):
        THEIRS.verify(signed(), WINDOW)


def test_it_is_told_one_key_and_gets_neither_agent_nor_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSH_AUTH_SOCK", "/agent")
    script = f"pwd > {tmp_path}/seen; env >> {tmp_path}/seen; cat allowed >> {tmp_path}/seen; echo '{GOOD}'"
    assert isinstance(SshKeygen(ENTRIES, program=program(tmp_path, script)).verify(signed(), WINDOW), Signed)
    told = (tmp_path / "seen").read_text()
    assert "SSH_AUTH_SOCK" not in told and f"HOME={Path.home()}\n" not in told
    assert [line for line in told.splitlines() if line.startswith("signer ")] == [
        'signer namespaces="git",valid-before="20270630235959",valid-after="20241004000000" '
        + " ".join(ssh_line("alice").split()[:2])
    ]
    assert not Path(told.splitlines()[0]).exists()


def git(folder: Path, *arguments: str, env: Mapping[str, str] | None = None) -> bytes:
    clean = {"HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, **(env or {})}
    told = process.run(["git", *arguments], cwd=folder, env=clean, timeout=60)
    assert told.returncode == 0, told.stderr
    return told.stdout


@pytest.mark.parametrize("name", SOFTWARE)
def test_what_plain_git_signs_and_stores_is_accepted_by_both(name: str, tmp_path: Path) -> None:
    key = tmp_path / "key"
    shutil.copyfile(ssh_path(name), key)
    key.chmod(0o600)
    git(tmp_path, "init", "-q", "--bare", "r.git")
    date = {"GIT_AUTHOR_DATE": f"{AT // 1000} +0000", "GIT_COMMITTER_DATE": f"{AT // 1000} +0000"}
    for role in ("AUTHOR", "COMMITTER"):
        date |= {f"GIT_{role}_NAME": "alice", f"GIT_{role}_EMAIL": "alice@example.org"}
    options = ["-c", "gpg.format=ssh", "-c", f"user.signingKey={key}"]
    tree = git(tmp_path, "-C", "r.git", "mktree").decode().strip()
    made = git(tmp_path, "-C", "r.git", *options, "commit-tree", "-S", "-m", "yes", tree, env=date).decode().strip()
    raw = git(tmp_path, "-C", "r.git", "cat-file", "commit", made)
    head, _, rest = raw.partition(b"gpgsig ")
    folded, end, tail = rest.partition(b"-----END SSH SIGNATURE-----")
    one = commit(folded.replace(b"\n ", b"\n") + end, head + tail.removeprefix(b"\n"))
    ours = OURS.verify(one, WINDOW)
    assert isinstance(ours, Signed) and ours == THEIRS.verify(one, WINDOW)


def test_receipt_is_inside_the_stage() -> None:
    assert FIRST < AT < NOW < LAST
