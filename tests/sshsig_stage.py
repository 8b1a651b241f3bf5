"""SSH-signed commits as step 3 hands them on, their blobs open to be edited after an honest signature was made."""

import base64
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from gitops_bot.policy.model import SshKey
from gitops_bot.policy.sshkeys import read_ssh_line
from gitops_bot.signed.evidence import Commit, ObjectId, SignatureKind, Window
from tests.signed_keys import field, ssh, ssh_armor, ssh_line

DAY: Final = 86_400_000
FIRST: Final = 20_000 * DAY
LAST: Final = 21_000 * DAY
NOW: Final = 20_500 * DAY + 43_210_000
AT: Final = NOW - 60_000
WINDOW: Final = Window(NOW, 300_000, NOW - 3_600_000)
PAYLOAD: Final = b"tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n\nsay yes\n"

SOFTWARE: Final = ("alice", "bob", "carol", "carol-384", "carol-521")
"""One key of each software type: ed25519, RSA and the three curves."""
SECURITY: Final = ("alice-sk", "alice-sk-ecdsa")
EVERY: Final = SOFTWARE + SECURITY


def entry(name: str, first: int = FIRST, last: int = LAST) -> SshKey:
    """Give a key as a policy holds it."""
    line, key, security = read_ssh_line(ssh_line(name), where="test")
    return SshKey(line, key, security, first, last)


def commit(armor: bytes, payload: bytes = PAYLOAD, at: int = AT) -> Commit:
    """Give a commit that carries an armor; only what step 5 reads of it is true."""
    oid = ObjectId("0" * 40)
    return Commit(oid, payload, oid, None, at, b"say yes\n", payload, armor, SignatureKind.SSH)


@dataclass(frozen=True)
class Blob:
    """A blob taken apart; every part may be replaced."""

    magic: bytes
    version: bytes
    key: bytes
    namespace: bytes
    reserved: bytes
    hash_name: bytes
    made: bytes
    after: bytes = b""

    @property
    def raw(self) -> bytes:
        """Put it together."""
        said = (self.key, self.namespace, self.reserved, self.hash_name, self.made)
        return self.magic + self.version + b"".join(map(field, said)) + self.after


def strings(data: bytes, count: int) -> tuple[list[bytes], bytes]:
    """Read strings of the SSH protocols, and what is left."""
    found = []
    for _ in range(count):
        size = 4 + int.from_bytes(data[:4], "big")
        found.append(data[4:size])
        data = data[size:]
    return found, data


def blob_of(name: str = "alice", **options: Any) -> Blob:
    """Sign the payload and take the blob apart; `options` are those of `SshSigner`."""
    raw = base64.b64decode(b"".join(ssh(name, **options)(PAYLOAD, 0).splitlines()[1:-1]))
    parts, after = strings(raw[10:], 5)
    return Blob(raw[:6], raw[6:10], *parts, after)


def edited(name: str, change: Callable[[Blob], Blob], **options: Any) -> Commit:
    """Give a commit whose blob was changed after it was made."""
    return commit(ssh_armor(change(blob_of(name, **options)).raw))


def having(**parts: bytes) -> Callable[[Blob], Blob]:
    """Give the change that replaces parts of a blob."""
    return lambda blob: replace(blob, **parts)


def making(change: Callable[[bytes, bytes, bytes], bytes]) -> Callable[[Blob], Blob]:
    """Give the change that rebuilds the signature's own blob from its name, its value and what follows."""

    def remade(blob: Blob) -> Blob:
        (name, value), rest = strings(blob.made, 2)
        return replace(blob, made=change(name, value, rest))

    return remade


def signed(name: str = "alice", at: int = AT, **options: Any) -> Commit:
    """Give a commit that somebody signed."""
    return commit(ssh(name, **options)(PAYLOAD, at // 1_000), at=at)
