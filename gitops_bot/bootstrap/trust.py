"""This host's trust file: what it pinned outside the database; a rolled-back policy or database is noticed (I18).

One JSON document, mode 0600, owned by the user who runs the product, replaced atomically and durably. `pin` makes the
first pin; moving it follows an adoption that this host verified itself, or a person on the host.
"""

import contextlib
import fcntl
import json
import os
import re
import stat
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final, cast

from gitops_bot.bootstrap.bundle import load_bundle
from gitops_bot.core.canonical import MAX_INTEGER, Digest, canonical
from gitops_bot.core.errors import ConfigError
from gitops_bot.policy.model import Policy

VERSION: Final = 1
MAX_TRUST: Final = 1 << 20
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)
_OID: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}", re.ASCII)
_BRANCH: Final = re.compile(r"[a-z][a-z0-9-]{0,31}", re.ASCII)
_KEYS: Final = ("v", "epoch", "policy", "branch_tips", "ledger_head")


@dataclass(frozen=True, slots=True)
class LedgerHead:
    """The newest sealed ledger row that this host has seen: its place and its hash."""

    seq: int
    hash: Digest


@dataclass(frozen=True, slots=True)
class Trust:
    """What this host pinned. `branch_tips` maps a person to the full id of their branch's tip."""

    epoch: int
    policy_digest: Digest
    policy_version: int
    branch_tips: Mapping[str, str] = field(default_factory=dict)
    ledger_head: LedgerHead | None = None


def read_trust(path: Path) -> Trust:
    """Read a trust file.

    Raises:
        ConfigError: it is missing, not private to this user, or not a trust file of version 1.
    """
    return _parse(_read_private(path), path)


def write_trust(path: Path, trust: Trust) -> None:
    """Replace a trust file: when this returns, the new one is on disk; a crash leaves the old or the new one whole.

    Raises:
        ConfigError: there is one that is not private to this user, or it cannot be written.
    """
    if _present(path):
        _read_private(path)
    _write(path, trust, replace=True)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep other processes and threads from rewriting a trust file between reading and writing it.

    Raises:
        ConfigError: there can be no lock beside it.
    """
    try:
        handle = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        fix = f"give this user the right to write in {path.parent}"
        raise ConfigError(f"cannot lock the trust file {path}: {error.strerror}", fix=fix) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def pin(folder: Path, trust_file: Path) -> Policy:
    """Pin the bundle in a folder for the first time; pinning the pinned one again changes nothing.

    Raises:
        ConfigError: it does not load, or the trust file pins another bundle already.
    """
    policy = load_bundle(folder)
    if not _present(trust_file):
        _write(trust_file, Trust(1, policy.digest, policy.version), replace=False)
    return _match(policy, read_trust(trust_file), folder)


def pinned_policy(folder: Path, trust_file: Path) -> Policy:
    """Load the bundle in a folder, which must be the pinned one.

    Raises:
        ConfigError: nothing is pinned, the bundle does not load, or it is another one than the pinned.
    """
    trust = read_trust(trust_file)
    return _match(load_bundle(folder), trust, folder)


def _match(policy: Policy, trust: Trust, folder: Path) -> Policy:
    if (policy.digest, policy.version) == (trust.policy_digest, trust.policy_version):
        return policy
    message = (
        f"the policy in {folder} is version {policy.version}, {policy.digest}, but this host pinned version "
        f"{trust.policy_version}, {trust.policy_digest}"
    )
    fix = (
        f"bring version {trust.policy_version} back into {folder}; or propose the changed one with gitops-bot policy "
        "propose; or, without the people to adopt it, gitops-bot trust repin"
    )
    raise ConfigError(message, fix=fix)


def _present(path: Path) -> bool:
    return path.is_symlink() or path.exists()


def _read_private(path: Path) -> bytes:
    """Read the file if nobody but this user could have written it."""
    _check_folder(path.parent)
    try:
        # O_NONBLOCK: a pipe in its place must not hold the start; O_NOFOLLOW: a link could be changed by its owner.
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        fix = f"gitops-bot trust pin; but if there was a pin, find out who removed {path}, then gitops-bot trust repin"
        raise ConfigError(f"there is no trust file {path}", fix=fix) from None
    except OSError as error:
        raise ConfigError(f"cannot open the trust file {path}: {error.strerror}", fix="make it a plain file") from error
    with os.fdopen(handle, "rb") as file:
        state = os.fstat(handle)
        if not stat.S_ISREG(state.st_mode):
            raise ConfigError(
                f"{path} is no regular file", fix="the trust file is a plain file; see what put this there"
            )
        if state.st_uid != os.geteuid():
            raise ConfigError(f"{path} belongs to another user", fix=f"run as its owner, or check and chown {path}")
        if stat.S_IMODE(state.st_mode) != 0o600:
            message = f"{path} has mode {stat.S_IMODE(state.st_mode):04o}; others may have touched it"
            raise ConfigError(message, fix=f"check its content, then chmod 600 {path}")
        content = file.read(MAX_TRUST + 1)
    if len(content) > MAX_TRUST:
        raise ConfigError(f"{path} is larger than {MAX_TRUST} bytes", fix="this is no trust file")
    return content


def _check_folder(folder: Path) -> None:
    """Refuse a folder in which another user could replace the file."""
    try:
        state = folder.stat()
    except OSError as error:
        raise ConfigError(f"cannot read the folder {folder}: {error.strerror}", fix=f"mkdir -m 700 {folder}") from error
    if state.st_uid not in (os.geteuid(), 0) or state.st_mode & 0o022:
        fix = f"chmod go-w {folder}, or keep the trust file in a folder of your own"
        raise ConfigError(f"others may write in {folder}, so its trust file proves nothing", fix=fix)


def _parse(content: bytes, path: Path) -> Trust:
    wrong = ConfigError(f"{path} is no trust file of version {VERSION}", fix="restore it, or move it away and pin anew")
    try:
        raw = json.loads(content.decode("utf-8"), object_pairs_hook=_once)
    # RecursionError: the standard reader has no limit of depth but the interpreter's.
    except (ValueError, RecursionError):
        raise wrong from None
    if not isinstance(raw, dict) or set(raw) != set(_KEYS) or raw["v"] != VERSION or isinstance(raw["v"], bool):
        raise wrong
    policy, tips, head = raw["policy"], raw["branch_tips"], raw["ledger_head"]
    if not isinstance(policy, dict) or set(policy) != {"digest", "version"} or not isinstance(tips, dict):
        raise wrong
    if not (_count(raw["epoch"]) and _count(policy["version"]) and _fits(_DIGEST, policy["digest"])):
        raise wrong
    if not all(_fits(_BRANCH, name) and _fits(_OID, oid) for name, oid in tips.items()):
        raise wrong
    branch_tips = MappingProxyType(cast("dict[str, str]", tips))
    return Trust(raw["epoch"], Digest(policy["digest"]), policy["version"], branch_tips, _head(head, wrong))


def _head(raw: object, wrong: ConfigError) -> LedgerHead | None:
    if raw is None:
        return None
    if not isinstance(raw, dict) or set(raw) != {"seq", "hash"}:
        raise wrong
    if not _count(raw["seq"]) or not _fits(_DIGEST, raw["hash"]):
        raise wrong
    return LedgerHead(raw["seq"], Digest(raw["hash"]))


def _count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_INTEGER


def _fits(form: re.Pattern[str], value: object) -> bool:
    return isinstance(value, str) and form.fullmatch(value) is not None


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key twice")
    return found


def _write(path: Path, trust: Trust, *, replace: bool) -> None:
    document = {
        "v": VERSION,
        "epoch": trust.epoch,
        "policy": {"digest": trust.policy_digest, "version": trust.policy_version},
        "branch_tips": dict(trust.branch_tips),
        "ledger_head": (
            None if trust.ledger_head is None else {"seq": trust.ledger_head.seq, "hash": trust.ledger_head.hash}
        ),
    }
    _check_folder(path.parent)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        temporary = Path(name)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(canonical(document) + b"\n")
                file.flush()
                os.fsync(handle)
            if replace:
                temporary.replace(path)
            else:
                # A link fails where a file stands already, so that two first pins cannot overwrite each other.
                with contextlib.suppress(FileExistsError):
                    path.hardlink_to(temporary)
        finally:
            temporary.unlink(missing_ok=True)
        _sync(path.parent)
    except OSError as error:
        fix = f"give this user the right to write in {path.parent}"
        raise ConfigError(f"cannot write the trust file {path}: {error.strerror}", fix=fix) from error


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
