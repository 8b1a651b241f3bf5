"""Which SSH signatures are worth verifying: those in form, by a key of the policy that counts, at a date that counts.

Both engines stand behind this one door, so that they differ in nothing but the cryptography (step 5: own checks come
first, then comparison). What a security key says about touch and PIN is read here after an engine verified it, for
`ssh-keygen -Y verify` ignores it. Whether a counter falls is the channel's to compare with the one it stored.
"""

import base64
from collections.abc import Iterable
from dataclasses import dataclass

from gitops_bot.core.errors import Reason, Refused, refuse
from gitops_bot.policy.model import KeyKind, SshKey
from gitops_bot.signed.evidence import Commit, SignatureKind, Signed, Window
from gitops_bot.signed.sshsig import grammar
from gitops_bot.signed.sshsig.grammar import PublicKey, Signature


@dataclass(frozen=True, slots=True)
class Admitted:
    """A signature that may count if it verifies. `message` is what `public` must have signed."""

    key: SshKey
    public: PublicKey
    signature: Signature
    message: bytes
    signed_at: int


class Door:
    """The policy's SSH keys of all persons, and the lines (`type base64`) of those that were ever revoked."""

    def __init__(self, keys: Iterable[SshKey], revoked: Iterable[str] = ()) -> None:
        """Take the keys.

        Raises:
            ValueError: one key comes twice with different dates; a policy that loaded has none such.
        """
        self._keys: dict[bytes, SshKey] = {}
        for key in keys:
            if self._keys.setdefault(_blob(key.line), key) != key:
                raise ValueError(f"{key.key.fingerprint} comes twice, with different dates")
        self._revoked = frozenset(map(_blob, revoked))
        self._read: dict[bytes, PublicKey | Refused] = {}

    def admit(self, commit: Commit, window: Window) -> Admitted | Refused:
        """Judge everything but the cryptography. A key must count both at receipt and at the committer's date: the
        first cannot be chosen by the signer, the second is what the signature itself says."""
        if commit.kind is not SignatureKind.SSH:
            return refuse(Reason.BAD_SIGNATURE, "It is no SSH signature.")
        blob = grammar.read_armor(commit.armor)
        if isinstance(blob, Refused):
            return blob
        envelope = grammar.read_envelope(blob)
        if isinstance(envelope, Refused):
            return envelope
        if envelope.key in self._revoked:
            return refuse(Reason.KEY_REVOKED)
        key = self._keys.get(envelope.key)
        if key is None:
            return refuse(Reason.UNKNOWN_KEY)
        late = _dated(key, commit.committed_at, window)
        if late is not None:
            return late
        public = self._public(envelope.key)
        if isinstance(public, Refused):
            return public
        signature = grammar.read_signature(envelope.signature, public)
        if isinstance(signature, Refused):
            return signature
        message = grammar.signed_bytes(envelope.hash_name, commit.payload)
        if signature.touch is not None and public.application is not None:
            message = grammar.touched_bytes(public.application, signature.touch, message)
        return Admitted(key, public, signature, message, commit.committed_at)

    def standing(self, component: str, at: int) -> Refused | None:
        """Tell why a key (its fingerprint, `SHA256:…`) does not count at a time (ms), or None."""
        for blob, key in self._keys.items():
            if key.key.fingerprint == component:
                return refuse(Reason.KEY_REVOKED) if blob in self._revoked else _inside(key, (at,))
        return refuse(Reason.UNKNOWN_KEY)

    def _public(self, blob: bytes) -> PublicKey | Refused:
        found = self._read.get(blob)
        if found is None:
            found = self._read[blob] = grammar.read_key(blob)
        return found


def prove(admitted: Admitted) -> Signed | Refused:
    """Say what a signature proves that an engine verified: a software key nothing but itself, a security key a touch,
    or a touch and a PIN or finger. A security key that was not touched proves nothing, whatever else it claims."""
    proof, counter, touch = KeyKind.ANY, None, admitted.signature.touch
    if touch is not None:
        if not touch.flags & grammar.PRESENT:
            return refuse(Reason.NO_USER_PRESENCE)
        proof = KeyKind.VERIFIED if touch.flags & grammar.VERIFIED else KeyKind.PRESENCE
        counter = touch.counter
    key = admitted.key
    return Signed(SignatureKind.SSH, key.line, key.key.fingerprint, admitted.signed_at, proof, counter)


def _dated(key: SshKey, committed_at: int, window: Window) -> Refused | None:
    outside = _inside(key, (committed_at, window.received_at))
    if outside is not None or window.holds(committed_at):
        return outside
    return refuse(Reason.SIGNATURE_TIME)


def _inside(key: SshKey, times: tuple[int, ...]) -> Refused | None:
    if max(times) >= key.not_after:
        return refuse(Reason.KEY_EXPIRED)
    return refuse(Reason.KEY_NOT_YET_VALID) if min(times) < key.not_before else None


def _blob(line: str) -> bytes:
    return base64.b64decode(line.partition(" ")[2], validate=True)
