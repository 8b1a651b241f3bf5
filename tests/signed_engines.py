"""The real programs as judges of signatures: git, gpg, Sequoia and ssh-keygen, each asked alone and as it comes.

They know the keys of `tests/vectors/signed` and none of our rules: what they accept is more than what may count.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pysequoia

from gitops_bot.process import run
from tests.signed_keys import certificate, gpg_home, ssh_line

VERDICTS: Final = ("GOODSIG", "EXPSIG", "EXPKEYSIG", "REVKEYSIG", "BADSIG", "ERRSIG")
PRINCIPAL: Final = "somebody"


def split(raw: bytes) -> tuple[bytes, bytes]:
    """Give the payload and the armor of a commit with one `gpgsig`, as git takes them apart."""
    head, _, message = raw.partition(b"\n\n")
    kept: list[bytes] = []
    armor: list[bytes] = []
    inside = False
    for line in head.split(b"\n"):
        inside = line.startswith(b"gpgsig ") or (inside and line.startswith(b" "))
        (armor if inside else kept).append(line)
    text = b"\n".join(line.removeprefix(b"gpgsig").removeprefix(b" ") for line in armor)
    return b"\n".join(kept) + b"\n\n" + message, text + b"\n"


@dataclass(frozen=True, slots=True)
class Engines:
    """A gpg home with certificates and a file of allowed SSH signers."""

    home: Path
    allowed: Path

    def git(self, repository: Path, commit: str) -> bool:
        """Ask `git verify-commit`, which asks gpg or ssh-keygen."""
        argv = ["git", "-c", f"gpg.ssh.allowedSignersFile={self.allowed}", "verify-commit", commit]
        env = {"GNUPGHOME": str(self.home), "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"}
        done = run(argv, cwd=repository, env={**env, "HOME": str(self.home), "GIT_DIR": str(repository)}, timeout=60)
        return done.returncode == 0

    def gpg(self, payload: bytes, armor: bytes) -> Mapping[str, list[str]]:
        """Ask gpg, and give the status lines by their keyword; an empty map when it said nothing."""
        with TemporaryDirectory() as folder:
            for name, content in (("signature", armor), ("data", payload)):
                (Path(folder) / name).write_bytes(content)
            argv = ["gpg", "--no-options", "--batch", "--trust-model", "always", "--status-fd", "1"]
            argv += ["--verify", "signature", "data"]
            done = run(argv, cwd=Path(folder), env={"GNUPGHOME": str(self.home)}, timeout=60)
        lines = [line.split() for line in done.stdout.decode(errors="replace").splitlines()]
        return {words[1]: words[2:] for words in lines if len(words) > 1 and words[0] == "[GNUPG:]"}

    def keygen(self, payload: bytes, armor: bytes, *, namespace: str = "git") -> bool:
        """Ask `ssh-keygen -Y verify`."""
        path = self.home / "signature"
        path.write_bytes(armor)
        argv = [
            "ssh-keygen",
            "-Y",
            "verify",
            "-f",
            str(self.allowed),
            "-I",
            PRINCIPAL,
            "-n",
            namespace,
            "-s",
            str(path),
        ]
        return run(argv, cwd=self.home, stdin=payload, timeout=60).returncode == 0


def gpg_verdict(status: Mapping[str, list[str]]) -> str | None:
    """Give the word in which gpg put its verdict."""
    return next((word for word in VERDICTS if word in status), None)


def sequoia(name: str, payload: bytes, armor: bytes) -> bool:
    """Ask Sequoia about one certificate, at its own reading of time: the signature's."""

    def store(_ids: object) -> list[Any]:
        return [pysequoia.Cert.from_bytes(certificate(name))]

    try:
        pysequoia.verify(bytes=payload, store=store, signature=pysequoia.Sig.from_bytes(armor))
    except RuntimeError:  # whatever does not verify or parse
        return False
    return True


@contextmanager
def engines(certificates: Iterable[str] = (), ssh: Iterable[str] = ()) -> Iterator[Engines]:
    """Set the engines up with the certificates and SSH keys of those names."""
    with gpg_home(*certificates) as home:
        allowed = home / "allowed"
        allowed.write_text("".join(f"{PRINCIPAL} {ssh_line(name)}\n" for name in ssh))
        yield Engines(home, allowed)
