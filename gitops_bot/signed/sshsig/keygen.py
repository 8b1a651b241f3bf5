"""`ssh-keygen -Y verify` as the second engine: it must say the same of a signature before that may count.

It is told exactly one key under one principal, the namespace, the key's own dates, and the time of receipt as the time
to judge them at: an SSH signature carries no date of its own, and the committer's is the signer's choice (our own
checks hold both dates against the key before). It reads no configuration and asks no agent: its environment is made
from scratch. It judges no touch of a security key, so those flags are ours alone to read.

A no that it words as such is `bad_signature`; a tool that is missing, killed, out of time or out of means is
`Unavailable`, which holds the commit; anything else that it says or leaves unsaid is `engines_disagree`.
"""

import re
import tempfile
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from gitops_bot import process
from gitops_bot.core.errors import Reason, Refused, Unavailable, refuse
from gitops_bot.policy.model import SshKey
from gitops_bot.process import Completed, Limits
from gitops_bot.signed.evidence import Commit, Signed, Window
from gitops_bot.signed.sshsig.admission import Admitted, Door, prove

SECONDS: Final = 10.0
_PRINCIPAL: Final = "signer"
_LIMITS: Final = Limits(cpu_seconds=10, file_bytes=1024 * 1024)
_SAYS_NO: Final = re.compile(
    rb"^(Signature verification failed: (incorrect signature|invalid format|error in libcrypto)"
    rb"|Couldn't verify signature: |Couldn't parse signature|.{0,200}: key (is not yet valid|has expired): )",
    re.MULTILINE,
)
_OUT_OF_MEANS: Final = re.compile(
    rb"Cannot allocate memory|memory allocation failed|Too many open files|No space left|Permission denied"
    rb"|No such file or directory|No user exists for uid|error while loading shared libraries"
)
_NAMES: Final = {
    "ssh-ed25519": "ED25519",
    "ssh-rsa": "RSA",
    "ecdsa-sha2-nistp256": "ECDSA",
    "ecdsa-sha2-nistp384": "ECDSA",
    "ecdsa-sha2-nistp521": "ECDSA",
    "sk-ssh-ed25519@openssh.com": "ED25519-SK",
    "sk-ecdsa-sha2-nistp256@openssh.com": "ECDSA-SK",
}
"""What ssh-keygen calls the types of keys."""


class SshKeygen:
    """The policy's SSH keys of all persons, less those that were ever revoked, as ssh-keygen judges them."""

    def __init__(
        self,
        keys: Iterable[SshKey],
        revoked: Iterable[str] = (),
        *,
        program: str = "ssh-keygen",
        timeout: float = SECONDS,
    ) -> None:
        """Take the keys, the lines (`type base64`) of revoked ones, the program, and the seconds that it may take."""
        self._door = Door(keys, revoked)
        self._program = program
        self._timeout = timeout

    def verify(self, commit: Commit, window: Window) -> Signed | Refused:
        """Have ssh-keygen verify a commit's one SSH signature, after the same own checks as our verifier makes.

        Raises:
            Unavailable: ssh-keygen is missing, was killed, takes too long, or lacks memory or files.
        """
        admitted = self._door.admit(commit, window)
        if isinstance(admitted, Refused):
            return admitted
        refused = _judge(self._ask(commit, admitted, window.received_at), admitted.key)
        return prove(admitted) if refused is None else refused

    def _ask(self, commit: Commit, admitted: Admitted, at: int) -> Completed:
        try:
            with tempfile.TemporaryDirectory(prefix="gitops-bot-ssh-") as name:
                folder = Path(name)
                (folder / "allowed").write_text(allowed_signers(admitted.key), encoding="ascii")
                (folder / "signature").write_bytes(commit.armor.removesuffix(b"\n") + b"\n")
                argv = [self._program, "-Y", "verify", "-f", "allowed", "-I", _PRINCIPAL, "-n", "git"]
                argv += ["-s", "signature", "-O", f"verify-time={_stamp(at)}"]
                env = {"TZ": "UTC0", "HOME": name}
                return process.run(
                    argv, cwd=folder, env=env, stdin=commit.payload, timeout=self._timeout, limits=_LIMITS
                )
        except OSError as error:
            raise Unavailable(f"the files for ssh-keygen cannot be written: {error.strerror}") from error


def agree(in_process: Signed, keygen: Signed | Refused) -> Signed | Refused:
    """Give what both engines say of one commit; `engines_disagree` unless ssh-keygen said exactly the same."""
    if keygen == in_process:
        return in_process
    said = keygen.reason.value if isinstance(keygen, Refused) else "something else of it"
    return refuse(Reason.ENGINES_DISAGREE, f"ssh-keygen says {said}; the verifier in process accepts it.")


def allowed_signers(key: SshKey) -> str:
    """Write the file that allows one key, for git alone, from its first to its last second (UTC)."""
    options = ['namespaces="git"', f'valid-before="{_stamp(key.not_after - 1_000)}"']
    if key.not_before > 0:
        # ssh-keygen reads no date before 1970.
        options.append(f'valid-after="{_stamp(key.not_before)}"')
    return f"{_PRINCIPAL} {','.join(options)} {key.line}\n"


def _judge(told: Completed, key: SshKey) -> Refused | None:
    """Give None for exactly the one line that says yes to this key."""
    name = _NAMES[key.line.partition(" ")[0]]
    good = f'Good "git" signature for {_PRINCIPAL} with {name} key {key.key.fingerprint}\n'
    if told.returncode == 0:
        return None if told.stdout == good.encode("ascii") else _garbage("a yes in other words")
    if told.returncode < 0 or told.returncode in (126, 127):
        raise Unavailable(f"ssh-keygen ended with {told.returncode}")
    if _SAYS_NO.search(told.stderr):
        return refuse(Reason.BAD_SIGNATURE, "ssh-keygen refuses it.")
    if _OUT_OF_MEANS.search(told.stderr):
        raise Unavailable("ssh-keygen lacks memory, files or its user")
    return _garbage("neither yes nor no")


def _garbage(what: str) -> Refused:
    return refuse(Reason.ENGINES_DISAGREE, f"ssh-keygen says {what}.")


def _stamp(at: int) -> str:
    return datetime.fromtimestamp(at // 1_000, UTC).strftime("%Y%m%d%H%M%S")
