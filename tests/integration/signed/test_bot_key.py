"""The bot's key is the owner's alone, known to work before the first commit, and shown to nobody."""

import base64
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gitops_bot import process
from gitops_bot.core.errors import ConfigError
from gitops_bot.signed.bot_key import MAX_FILE, open_key
from gitops_bot.signed.evidence import SignatureKind
from gitops_bot.signed.publication import ledger_file
from tests import signed_keys as keys
from tests.publication_stage import AT, Stage, git, key_file

SSH: bytes = keys.ssh_path("bot").read_bytes()
PGP: bytes = keys.secret_file("bot")


def test_an_ssh_key_is_used_where_it_lies(tmp_path: Path) -> None:
    key = open_key(key_file(tmp_path, SSH), tmp_path / "home")
    assert (key.kind, key.identity) == (SignatureKind.SSH, keys.ssh_line("bot"))
    key.close()
    assert [path.name for path in tmp_path.iterdir()] == ["key"]


def test_an_openpgp_key_lives_in_a_home_of_its_own_until_closed(tmp_path: Path) -> None:
    home = tmp_path / "home"
    key = open_key(key_file(tmp_path, PGP), home)
    assert (key.kind, key.identity) == (SignatureKind.OPENPGP, keys.fingerprint("bot"))
    assert home.stat().st_mode & 0o777 == 0o700
    key.close()
    assert [path.name for path in tmp_path.iterdir()] == ["key"]
    assert not Path(key.environment["GNUPGHOME"]).exists()
    key.close()


def test_a_home_that_a_killed_broker_left_is_made_anew(tmp_path: Path) -> None:
    """The key may have been changed since; what was taken in before does not sign."""
    home = tmp_path / "home"
    left = open_key(key_file(tmp_path, PGP), home)
    key = open_key(key_file(tmp_path, keys.secret_file("worker")), home)
    try:
        assert key.identity == keys.fingerprint("worker")
    finally:
        key.close()
        left.close()


def test_a_folder_of_somebody_else_is_not_removed(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "pubring.kbx").write_bytes(b"precious")
    with pytest.raises(ConfigError, match="was not made for the bot's key"):
        open_key(key_file(tmp_path, PGP), home)
    assert (home / "pubring.kbx").read_bytes() == b"precious"
    (home / "pubring.kbx").unlink()
    open_key(key_file(tmp_path, PGP), home).close()


def test_a_long_path_is_no_hindrance(tmp_path: Path) -> None:
    """A socket's path has at most 107 bytes."""
    key = open_key(key_file(tmp_path, PGP), tmp_path / ("a" * 100) / ("b" * 100))
    key.close()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_key_that_others_may_read_does_not_start(tmp_path: Path, mode: int) -> None:
    file = key_file(tmp_path, SSH)
    file.chmod(mode)
    with pytest.raises(ConfigError, match="its owner alone may read"):
        open_key(file, tmp_path / "home")
    file.chmod(0o600)
    open_key(file, tmp_path / "home").close()


def with_passphrase(folder: Path) -> Path:
    """Give an SSH key that wants a passphrase."""
    file = folder / "secret"
    argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "correct horse", "-f", str(file)]
    assert process.run(argv, cwd=folder, timeout=30).returncode == 0
    return file


def pgp_with_passphrase(folder: Path) -> Path:
    """Give an OpenPGP key that wants a passphrase."""
    asked = ("--pinentry-mode", "loopback", "--passphrase", "correct horse")
    with keys.gpg_home() as home:
        (home / "gpg-agent.conf").write_text("s2k-count 65536\n")  # the agent would measure the machine for seconds
        keys.run_gpg(home, *asked, "--quick-gen-key", "Bot <bot@example.org>", "ed25519", "sign", "never")
        return key_file(folder, keys.run_gpg(home, *asked, "--armor", "--export-secret-keys"))


def linked(folder: Path) -> Path:
    """Give a symbolic link to a sound key."""
    (folder / "link").symlink_to(key_file(folder, SSH))
    return folder / "link"


FAULTS: dict[str, Callable[[Path], Path]] = {
    "no file": lambda folder: folder / "none",
    "a folder": lambda folder: folder,
    "a link": linked,
    "empty": lambda folder: key_file(folder, b""),
    "a public key": lambda folder: key_file(folder, keys.ssh_line("bot").encode()),
    "a certificate": lambda folder: key_file(folder, keys.certificate("bot")),
    "a damaged SSH key": lambda folder: key_file(folder, SSH[:100] + b"AAAA" + SSH[104:]),
    "half an OpenPGP key": lambda folder: key_file(folder, PGP[: len(PGP) // 2]),
    "two OpenPGP keys": lambda folder: key_file(folder, PGP + keys.secret_file("worker")),
    "an OpenPGP key that has ended": lambda folder: key_file(
        folder, keys.secret_file("alice") + keys.certificate("alice.revoked-hard")
    ),
    "a passphrase": with_passphrase,
    "a passphrase of an OpenPGP key": pgp_with_passphrase,
    "too large": lambda folder: key_file(folder, SSH + b" " * MAX_FILE),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_key_that_cannot_sign_does_not_start(tmp_path: Path, fault: str) -> None:
    with pytest.raises(ConfigError):
        open_key(FAULTS[fault](tmp_path), tmp_path / "home")
    assert not (tmp_path / "home" / "private-keys-v1.d").exists()


@pytest.mark.parametrize("content", [SSH, PGP], ids=["ssh", "openpgp"])
def test_the_key_is_in_no_argument_and_no_variable(
    tmp_path: Path, content: bytes, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Anybody on the host may read the process list."""
    started: list[str] = []
    start = process.start

    def watched(argv: Any, **options: Any) -> Any:
        started.append(repr([*argv, *dict(options.get("env") or {}).items()]))
        return start(argv, **options)

    monkeypatch.setattr(process, "start", watched)
    key = open_key(key_file(tmp_path, content), tmp_path / "home")
    try:
        stage = Stage(tmp_path)
        commit = stage.publisher(key).publish(ledger_file(1, "sha256:" + "0" * 64, 1, AT), AT).commit  # type: ignore[arg-type] # a digest in form
    finally:
        key.close()
    assert b"gpgsig" in git(stage.far, "cat-file", "commit", str(commit))
    body = [line for line in content.decode().splitlines() if re.fullmatch(r"[A-Za-z0-9+/=]{30,}", line)]
    told = "\n".join(started) + caplog.text + repr(key)
    assert body
    # The public half stands in the first lines of both forms.
    secret = [
        line
        for line in body
        if base64.b64encode(base64.b64decode(keys.ssh_line("bot").split()[1])).decode() not in line
    ]
    assert not [line for line in secret if line in told]
