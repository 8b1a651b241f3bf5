"""OpenPGP signatures are verified by gpg: step 5's second engine, a process of its own that shares no code with ours.

Each certificate has a home of its own, kept with python-gnupg and named by the hash of its bytes, so that gpg can
believe no other key, a changed certificate costs one import (2,000 in one home cost 13 s), and no old home is mistaken
for a new one. A home that is damaged is made again. No agent or dirmngr is ever started.

gpg judges expiry at its clock; it is given the time of receipt (`--faked-system-time`), so that a stored commit is
judged later as it was at receipt. That is sound: the time is the broker's, never the signer's, our own checks of dates
come first and are stricter, and gpg's verdict can only take away.
"""

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from gitops_bot import process
from gitops_bot.core.errors import Malformed, Reason, Refused, Unavailable, refuse
from gitops_bot.signed.evidence import Commit, Signed, Window
from gitops_bot.signed.openpgp.facts import CertificateFacts, Revocation
from gitops_bot.signed.openpgp.homes import ENDED_BY_ITSELF, FLAGS, Homes
from gitops_bot.signed.openpgp.keyring import Admitted, Keyring
from gitops_bot.signed.openpgp.transcript.grammar import NO_KEY, Transcript, Verdict, read_transcript

TIMEOUT: Final = 10.0
_LIMITS: Final = process.Limits(cpu_seconds=10, memory_bytes=512 * 1024 * 1024, file_bytes=process.OUTPUT_CAP)
_BLAME: Final = {
    Verdict.KEY_EXPIRED: Reason.KEY_EXPIRED,
    Verdict.KEY_REVOKED: Reason.KEY_REVOKED,
    Verdict.SIGNATURE_EXPIRED: Reason.SIGNATURE_TIME,
    Verdict.BAD: Reason.BAD_SIGNATURE,
}


class Gpg:
    """gpg over the certificates of a policy; `folder` is ours alone (0700) and may be deleted at any time."""

    def __init__(
        self,
        certificates: Iterable[CertificateFacts],
        remembered: Iterable[Revocation] = (),
        *,
        folder: Path,
        program: str = "gpg",
        timeout: float = TIMEOUT,
    ) -> None:
        """Take the same keys as `OpenPgpKeys`, the folder for the homes, and how many seconds one call may take."""
        self._keyring = Keyring(certificates, remembered)
        self._homes = Homes(folder, program, timeout)
        self._program = program
        self._timeout = timeout

    def verify(self, commit: Commit, window: Window) -> Signed | Refused:
        """Verify a commit's OpenPGP signature with gpg, the own checks first; whose key it is, is *not* asked.

        Raises:
            Unavailable: gpg is missing, was killed, took too long or did not get as far as the signature.
        """
        admitted = self._keyring.admit(commit, window)
        if isinstance(admitted, Refused):
            return admitted
        home = self._homes.of(admitted.holder.certificate)
        if home is None:
            return refuse(Reason.ENGINES_DISAGREE, "gpg cannot read this certificate.")
        try:
            transcript = read_transcript(self._ask(home, commit, window))
        except Malformed as error:
            return refuse(Reason.ENGINES_DISAGREE, f"gpg's answer cannot be read: {error.message}.")
        if transcript.error == NO_KEY and not self._homes.stands(admitted.holder.certificate):
            raise Unavailable("gpg's home was lost while it was read")
        return _judge(admitted, transcript)

    def _ask(self, home: Path, commit: Commit, window: Window) -> bytes:
        """Run gpg with the signature as a file, the payload on its input and the status lines alone on its output."""
        argv = [self._program, "--homedir", str(home), *FLAGS, "--status-fd", "1"]
        argv += ["--faked-system-time", f"{window.received_at // 1_000}!"]
        try:
            with tempfile.NamedTemporaryFile(dir=home.parent, prefix="signature-") as signature:
                signature.write(commit.armor)
                signature.flush()
                argv += ["--verify", "--", signature.name, "-"]
                env = {"LC_ALL": "C"}
                done = process.run(argv, cwd=home, env=env, stdin=commit.payload, timeout=self._timeout, limits=_LIMITS)
        except OSError as error:
            raise Unavailable(f"gpg cannot be asked: {error.strerror}") from error
        if done.returncode not in ENDED_BY_ITSELF:
            raise Unavailable(f"gpg ended with status {done.returncode}")
        if done.returncode != 0 and b"[GNUPG:] NEWSIG" not in done.stdout:
            raise Unavailable("gpg did not get as far as the signature")
        return done.stdout


def _judge(admitted: Admitted, said: Transcript) -> Signed | Refused:
    signed, valid = admitted.signed, said.valid
    if said.verdict is Verdict.ERROR:
        if said.error == NO_KEY:
            return refuse(Reason.UNKNOWN_KEY)
        return refuse(Reason.ENGINES_DISAGREE, f"gpg could not verify it (error {said.error}).")
    # gpg counts a soft revocation whatever its date; one dated after receipt does not count yet.
    good = said.verdict is Verdict.GOOD or (said.verdict is Verdict.KEY_REVOKED and admitted.late)
    if not good:
        return refuse(_BLAME[said.verdict])
    assert valid is not None, "read_transcript gives the fields of every good signature"
    found = (valid.primary, valid.component, valid.created * 1_000, valid.version, valid.digest, valid.kind)
    ours = admitted.signature
    if found != (signed.key, signed.component, signed.signed_at, ours.version, ours.digest, ours.kind):
        return refuse(Reason.ENGINES_DISAGREE, "gpg names another key, time or digest than the signature.")
    return signed
