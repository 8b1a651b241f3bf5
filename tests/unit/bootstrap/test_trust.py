"""The trust file is private, durable and strict; a bundle other than the pinned one starts nothing (I18)."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from gitops_bot.bootstrap.trust import LedgerHead, Trust, pin, pinned_policy, read_trust, write_trust
from gitops_bot.core.canonical import Digest
from gitops_bot.core.errors import ConfigError

HASH = Digest("sha256:" + "a" * 64)
TRUST = Trust(2, HASH, 3, {"alice": "b" * 40}, LedgerHead(7, HASH))


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    folder = tmp_path / "policies"
    folder.mkdir()
    (folder / "policy.toml").write_bytes(b'schema = "gitops-bot/policy/v1"\nversion = 1\n')
    return folder


@pytest.fixture
def trust_file(tmp_path: Path) -> Path:
    return tmp_path / "trust.json"


def test_what_is_written_is_read_back(trust_file: Path) -> None:
    """The accepting twin of every refusal below; the file is private from its first moment."""
    write_trust(trust_file, TRUST)
    assert read_trust(trust_file) == TRUST
    assert trust_file.stat().st_mode & 0o777 == 0o600
    write_trust(trust_file, replace(TRUST, policy_version=4, ledger_head=None))
    assert read_trust(trust_file) == replace(TRUST, policy_version=4, ledger_head=None)
    assert [entry.name for entry in trust_file.parent.iterdir()] == ["trust.json"]


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o660, 0o606, 0o700, 0o400])
def test_another_mode_is_refused(trust_file: Path, mode: int) -> None:
    """What others could write is no pin; it is not silently repaired either."""
    write_trust(trust_file, TRUST)
    trust_file.chmod(mode)
    for act in (read_trust, lambda path: write_trust(path, TRUST)):
        with pytest.raises(ConfigError):
            act(trust_file)
    trust_file.chmod(0o600)
    assert read_trust(trust_file) == TRUST


def test_another_owner_is_refused(trust_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of another user proves nothing to this one."""
    write_trust(trust_file, TRUST)
    stranger = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: stranger)
    with pytest.raises(ConfigError):
        read_trust(trust_file)


def test_a_folder_that_others_may_write_is_refused(trust_file: Path) -> None:
    """In such a folder the file could be replaced whole."""
    write_trust(trust_file, TRUST)
    trust_file.parent.chmod(0o777)
    with pytest.raises(ConfigError, match="go-w"):
        read_trust(trust_file)
    trust_file.parent.chmod(0o755)
    assert read_trust(trust_file) == TRUST


def test_a_link_or_pipe_in_its_place_is_refused(trust_file: Path) -> None:
    """Neither is followed or waited for."""
    real = trust_file.with_name("real.json")
    write_trust(real, TRUST)
    trust_file.symlink_to(real)
    with pytest.raises(ConfigError):
        read_trust(trust_file)
    trust_file.unlink()
    os.mkfifo(trust_file, 0o600)
    with pytest.raises(ConfigError, match="regular file"):
        read_trust(trust_file)


@pytest.mark.parametrize(
    "change",
    [
        {"v": 2},
        {"v": True},
        {"epoch": 0},
        {"epoch": True},
        {"epoch": "1"},
        {"extra": 1},
        {"policy": {"digest": "a" * 64, "version": 1}},
        {"policy": {"digest": HASH}},
        {"branch_tips": {"Alice": "b" * 40}},
        {"branch_tips": {"alice": "b" * 39}},
        {"branch_tips": []},
        {"ledger_head": {"seq": 0, "hash": HASH}},
        {"ledger_head": {"seq": 1}},
        {"ledger_head": 1},
    ],
)
def test_a_document_of_another_form_is_refused(trust_file: Path, change: dict[str, object]) -> None:
    """An unknown version or member is a no (I13)."""
    write_trust(trust_file, TRUST)
    document = json.loads(trust_file.read_bytes())
    trust_file.write_text(json.dumps({**document, **change}))
    with pytest.raises(ConfigError, match="no trust file of version 1"):
        read_trust(trust_file)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"[" * 100_000, b'{"v":1,"v":1}', b"\xff", b"x" * (1 << 20), b"1" * 5000]
)
def test_other_bytes_are_refused(trust_file: Path, content: bytes) -> None:
    """I20: whatever stands there costs one message."""
    write_trust(trust_file, TRUST)
    trust_file.write_bytes(content)
    with pytest.raises(ConfigError):
        read_trust(trust_file)


def test_the_pinned_bundle_loads_and_another_does_not(bundle: Path, trust_file: Path) -> None:
    """I18: a changed or rolled-back bundle is told apart from the pinned one, with the way out."""
    with pytest.raises(ConfigError, match="no trust file"):
        pinned_policy(bundle, trust_file)
    policy = pin(bundle, trust_file)
    assert pinned_policy(bundle, trust_file) == policy == pin(bundle, trust_file)
    assert read_trust(trust_file) == Trust(1, policy.digest, 1)
    kept = (bundle / "policy.toml").read_bytes()
    (bundle / "policy.toml").write_bytes(kept + b"# changed\n")
    for act in (pinned_policy, pin):
        with pytest.raises(ConfigError, match="bring version 1 back"):
            act(bundle, trust_file)
    (bundle / "policy.toml").write_bytes(kept)
    assert pinned_policy(bundle, trust_file) == policy


def test_a_bundle_that_does_not_load_is_not_pinned(bundle: Path, trust_file: Path) -> None:
    """The first pin is of something that was checked."""
    (bundle / "policy.toml").write_bytes(b"version = 1\n")
    with pytest.raises(ConfigError, match="policy check"):
        pin(bundle, trust_file)
    assert not trust_file.exists()


def test_a_bundle_is_its_tables_and_keys(bundle: Path) -> None:
    """Hidden files and others beside it are not part of it; what is no plain file is refused, not waited for."""
    from gitops_bot.bootstrap.bundle import read_bundle

    (bundle / "keys").mkdir()
    (bundle / "keys" / "a.asc").write_bytes(b"certificate")
    (bundle / ".hidden.toml").write_bytes(b"x")
    (bundle / "README.md").write_bytes(b"x")
    assert set(read_bundle(bundle)) == {"policy.toml", "keys/a.asc"}
    os.mkfifo(bundle / "pipe.toml")
    with pytest.raises(ConfigError, match="regular file"):
        read_bundle(bundle)
    (bundle / "pipe.toml").unlink()
    (bundle / "big.toml").write_bytes(b"#" * ((1 << 20) + 1))
    with pytest.raises(ConfigError, match="larger than"):
        read_bundle(bundle)


@pytest.mark.parametrize("where", ["nowhere", "."])
def test_a_folder_without_a_policy_is_told(tmp_path: Path, where: str) -> None:
    """A mistyped folder is not an empty policy."""
    from gitops_bot.bootstrap.bundle import read_bundle

    with pytest.raises(ConfigError, match="name the folder"):
        read_bundle(tmp_path / where)
