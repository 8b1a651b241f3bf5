"""OpenPGP signatures are verified in this process, by Sequoia through pysequoia: step 5's first engine.

What `OpenPgpKeys.verify` gives passed our own checks and verified; gpg must still agree before it counts (`agree`).
pysequoia is loaded at the first verification. Sequoia judges certificates at the signature's own time and refuses what
lies over half an hour ahead of the host's clock; that only takes away.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from gitops_bot.core.errors import Reason, Refused, refuse
from gitops_bot.signed.evidence import Commit, Signed, Window
from gitops_bot.signed.openpgp.facts import CertificateFacts, Revocation
from gitops_bot.signed.openpgp.keyring import Admitted, Keyring

if TYPE_CHECKING:
    from pysequoia import Cert


class OpenPgpKeys:
    """The OpenPGP certificates of a policy. One thread at a time."""

    def __init__(self, certificates: Iterable[CertificateFacts], remembered: Iterable[Revocation] = ()) -> None:
        """Take certificates and the revocations that earlier ones held; parses nothing yet."""
        self._keyring = Keyring(certificates, remembered)
        self._parsed: dict[str, list[Cert]] = {}

    def standing(self, component: str, at: int) -> Refused | None:
        """Tell why a key (full fingerprint) does not count at a time (ms), or None; for the spend, which asks now."""
        return self._keyring.standing(component, at)

    def verify(self, commit: Commit, window: Window) -> Signed | Refused:
        """Verify a commit's OpenPGP signature, the own checks first; whose key it is, is *not* asked."""
        admitted = self._keyring.admit(commit, window)
        if isinstance(admitted, Refused):
            return admitted
        return self._stands(admitted, commit.payload)

    def accept(self, commit: Commit, window: Window, proven: Signed) -> Signed | Refused:
        """Judge a commit as `verify` does, but take the word of a verifying process where it names exactly the key
        and time that the own checks found."""
        admitted = self._keyring.admit(commit, window)
        if isinstance(admitted, Refused):
            return admitted
        return proven if proven == admitted.signed else self._stands(admitted, commit.payload)

    def _stands(self, admitted: Admitted, payload: bytes) -> Signed | Refused:
        from pysequoia import Sig, verify

        certificates = self._certificate(admitted.holder.certificate)
        try:
            found = verify(bytes=payload, store=lambda _: certificates, signature=Sig.from_bytes(admitted.packet))
        except RuntimeError:
            # pysequoia raises this for each error of Sequoia; its text holds a stack and decides nothing.
            return refuse(Reason.BAD_SIGNATURE)
        signed = admitted.signed
        said = [(valid.certificate.upper(), valid.signing_key.upper()) for valid in found.valid_sigs]
        if said != [(signed.key, signed.component)]:
            return refuse(Reason.BAD_SIGNATURE, "The engine names another key than the signature.")
        return signed

    def _certificate(self, certificate: CertificateFacts) -> "list[Cert]":
        parsed = self._parsed.get(certificate.fingerprint)
        if parsed is None:
            from pysequoia import Cert

            try:
                parsed = [Cert.from_bytes(certificate.content)]
            except RuntimeError:
                parsed = []
            self._parsed[certificate.fingerprint] = parsed
        return parsed
