"""Who judges a generated commit: our steps 3 and 5 with both engines, and the real programs, each asked alone.

What is asked of git, gpg and ssh-keygen here goes past our adapters: their own arguments, their own homes, all keys
of a ring at once and none of our checks. `Bench.judge` may be called by several threads.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import local
from typing import Any, Final

import pysequoia

from gitops_bot.core.errors import Reason, Refused
from gitops_bot.policy.model import SshKey
from gitops_bot.policy.sshkeys import read_ssh_line
from gitops_bot.process import run
from gitops_bot.signed.evidence import Commit, ObjectId, SignatureKind, Signed, Window
from gitops_bot.signed.grammar import read_commit
from gitops_bot.signed.keys import Keys, Pair
from gitops_bot.signed.openpgp import keyring
from gitops_bot.signed.openpgp.certificates import read_certificate
from gitops_bot.signed.openpgp.engine import OpenPgpKeys
from gitops_bot.signed.openpgp.gpg import Gpg
from gitops_bot.signed.sshsig import keygen
from gitops_bot.signed.sshsig.keygen import SshKeygen
from gitops_bot.signed.sshsig.verifier import SshKeys
from tests import signed_keys as keys
from tests.interop import damages_openpgp, damages_sshsig
from tests.signed_engines import Engines, engines, gpg_verdict, split
from tests.signed_stage import NOW, OPENED

WINDOW: Final = Window((NOW + 60) * 1_000, 300_000, OPENED * 1_000)
DAY: Final = 86_400_000
_ALWAYS: Final = (0, 4_000_000_000_000)
_DATES: Final = {
    "ended": (0, WINDOW.received_at - DAY),
    "not yet": (WINDOW.received_at + DAY, 4_000_000_000_000),
}


@dataclass(frozen=True, slots=True)
class Judged:
    """What everybody said of a commit: our code, or None where it is accepted; and which others accept it."""

    code: Reason | None
    accepted_by: frozenset[str]
    commit: Commit | None


class Bench:
    """All judges of one kind of signature over one repository."""

    def __init__(
        self, repository: Path, ours: Mapping[str, Keys], theirs: Mapping[str, Engines], openpgp: bool
    ) -> None:
        self._repository = repository
        self._ours = ours
        self._theirs = theirs
        self._openpgp = openpgp
        self._mine = local()

    @property
    def others(self) -> frozenset[str]:
        """Who must accept what we accept."""
        return frozenset({"git", "gpg", "sequoia"} if self._openpgp else {"git", "ssh-keygen"})

    def judge(self, ring: str, oid: ObjectId, raw: bytes) -> Judged:
        """Ask everybody."""
        ours = read_commit(oid, raw)
        commit = None if isinstance(ours, Refused) else ours
        code = ours.reason if isinstance(ours, Refused) else self._step5(self._ours[ring], ours)
        payload, armor = split(raw)
        said = self._openpgp_says(ring, payload, armor) if self._openpgp else self._ssh_says(ring, payload, armor)
        if self._theirs[ring].git(self._repository, oid):
            said.add("git")
        return Judged(code, frozenset(said), commit)

    def _step5(self, ring: Keys, commit: Commit) -> Reason | None:
        if commit.kind not in ring.pairs:
            return Reason.BAD_SIGNATURE
        first = ring.verify(commit, WINDOW)
        both = ring.confirm(commit, WINDOW, first) if isinstance(first, Signed) else first
        return both.reason if isinstance(both, Refused) else None

    def _openpgp_says(self, ring: str, payload: bytes, armor: bytes) -> set[str]:
        status = self._theirs[ring].gpg(payload, armor)
        said = {"gpg"} if gpg_verdict(status) == "GOODSIG" and "VALIDSIG" in status else set()
        if self._sequoia(ring, payload, armor):
            said.add("sequoia")
        return said

    def _sequoia(self, ring: str, payload: bytes, armor: bytes) -> bool:
        """Ask Sequoia, which may not be shared between threads, with every certificate of the ring."""
        known = vars(self._mine).setdefault("certificates", {})
        if ring not in known:
            known[ring] = [pysequoia.Cert.from_bytes(keys.certificate(name)) for name in _theirs(ring)]
        try:
            pysequoia.verify(bytes=payload, store=lambda _: known[ring], signature=pysequoia.Sig.from_bytes(armor))
        except RuntimeError:  # whatever does not verify or parse
            return False
        return True

    def _ssh_says(self, ring: str, payload: bytes, armor: bytes) -> set[str]:
        allowed = self._theirs[ring].allowed
        with TemporaryDirectory() as folder:
            (Path(folder) / "signature").write_bytes(armor)
            argv = ["ssh-keygen", "-Y", "verify", "-f", str(allowed), "-I", "somebody", "-n", "git", "-s", "signature"]
            done = run(argv, cwd=Path(folder), stdin=payload, timeout=120)
        return {"ssh-keygen"} if done.returncode == 0 else set()


@contextmanager
def openpgp_bench(folder: Path, repository: Path) -> Iterator[Bench]:
    """Set up the judges of OpenPGP signatures."""
    ours: dict[str, Keys] = {}
    theirs: dict[str, Engines] = {}
    with ExitStack() as stack:
        for number, (ring, names) in enumerate(damages_openpgp.RINGS.items()):
            known = [read_certificate(keys.certificate(name), where=name) for name in names]
            second = Gpg(known, folder=folder / f"gpg-{number}", timeout=120)
            ours[ring] = _keys(SignatureKind.OPENPGP, Pair(OpenPgpKeys(known), second, keyring.agree))
            theirs[ring] = stack.enter_context(engines(_theirs(ring)))
        yield Bench(repository, ours, theirs, openpgp=True)


@contextmanager
def ssh_bench(repository: Path) -> Iterator[Bench]:
    """Set up the judges of SSH signatures."""
    with engines((), (*damages_sshsig.SOUND, *damages_sshsig.WEAK)) as theirs:
        ours = {}
        for ring in damages_sshsig.RINGS:
            first, last = _DATES.get(ring, _ALWAYS)
            known = [_entry(name, first, last) for name in damages_sshsig.SOUND]
            revoked = [key.line for key in known] if ring == "revoked" else []
            second = SshKeygen(known, revoked, timeout=120)
            ours[ring] = _keys(SignatureKind.SSH, Pair(SshKeys(known, revoked), second, keygen.agree))
        yield Bench(repository, ours, dict.fromkeys(ours, theirs), openpgp=False)


def _theirs(ring: str) -> tuple[str, ...]:
    return damages_openpgp.RINGS[ring] + (damages_openpgp.WEAK if ring == "sound" else ())


def _keys(kind: SignatureKind, pair: Pair) -> Keys:
    name: Any = "sha256:" + "0" * 64
    return Keys(name, {kind: pair})


def _entry(name: str, first: int, last: int) -> SshKey:
    line, key, security = read_ssh_line(keys.ssh_line(name), where=name)
    return SshKey(line, key, security, first, last)
