"""Commits as the strict reader hands them on, signed by the keys of `tests/vectors/signed`, and engines over those."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from gitops_bot.signed.evidence import Commit, ObjectId, SignatureKind, Window
from gitops_bot.signed.openpgp.certificates import read_certificate
from gitops_bot.signed.openpgp.engine import OpenPgpKeys
from gitops_bot.signed.openpgp.facts import CertificateFacts, Revocation
from gitops_bot.signed.openpgp.gpg import Gpg
from tests import signed_keys as keys

NOW: Final = 1_764_600_000
"""2025-12-01 14:40 UTC, in seconds; every key of the vectors is older."""

PAYLOAD: Final = b"tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\nauthor a <a@example.com> 1 +0000\n\nyes\n"
WINDOW: Final = Window(received_at=NOW * 1_000, skew=300_000, opened_at=(NOW - 3_600) * 1_000)


def commit(armor: bytes, payload: bytes = PAYLOAD) -> Commit:
    """Give a commit with some armor over some payload."""
    return Commit(
        id=ObjectId("ab" * 20),
        raw=payload,
        tree=ObjectId("4b825dc642cb6eb9a060e54bf8d69288fbee4904"),
        parent=ObjectId("cd" * 20),
        committed_at=NOW * 1_000,
        message=b"yes\n",
        payload=payload,
        armor=armor,
        kind=SignatureKind.OPENPGP,
    )


def signed(name: str = "alice", *, at: int = NOW, **options: Any) -> Commit:
    """Give a commit that a key signed, with the options of `signed_keys.openpgp`."""
    return commit(keys.openpgp(name, **options)(PAYLOAD, at))


def certificates(*names: str) -> tuple[CertificateFacts, ...]:
    """Read certificates of the vectors."""
    return tuple(read_certificate(keys.certificate(name), where=f"keys/{name}.asc") for name in names)


def engine(*names: str, remembered: Iterable[Revocation] = ()) -> OpenPgpKeys:
    """Give the in-process engine over some certificates."""
    return OpenPgpKeys(certificates(*names), remembered)


def gpg(folder: Path, *names: str, remembered: Iterable[Revocation] = (), **options: Any) -> Gpg:
    """Give gpg over some certificates, its homes under a folder."""
    return Gpg(certificates(*names), remembered, folder=folder / "gpg", **options)
