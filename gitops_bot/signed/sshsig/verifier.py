"""SSH signatures verified in process, over `cryptography`: the engine of step 5 that sees every commit.

A `Signed` that leaves it stands for the exact payload under one key of the policy at a date that counts. Whose key it
is, whether that person may vote, and whether a second engine agrees, is left to the channel.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from gitops_bot.core.errors import Reason, Refused, refuse
from gitops_bot.policy.model import SshKey
from gitops_bot.signed.evidence import Commit, Signed, Window
from gitops_bot.signed.sshsig.admission import Admitted, Door, prove
from gitops_bot.signed.sshsig.grammar import CurvePoint, EdPoint, Pair, PublicKey, Scheme, Signature

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.hashes import HashAlgorithm

_HASHES: Final = {
    Scheme.ECDSA_256: "SHA256",
    Scheme.SK_ECDSA: "SHA256",
    Scheme.ECDSA_384: "SHA384",
    Scheme.ECDSA_521: "SHA512",
    Scheme.RSA_256: "SHA256",
    Scheme.RSA_512: "SHA512",
}
"""RFC 5656 section 6.2.1 and RFC 8332 section 3."""

Check = Callable[[Signature, bytes], None]
"""Raises `InvalidSignature` of `cryptography` where a signature does not stand for a message."""


class SshKeys:
    """The policy's SSH keys of all persons, less those that were ever revoked, ready to verify."""

    def __init__(self, keys: Iterable[SshKey], revoked: Iterable[str] = ()) -> None:
        """Take the keys and the lines (`type base64`) of revoked ones."""
        self._door = Door(keys, revoked)
        self._checks: dict[str, Check | None] = {}

    def standing(self, component: str, at: int) -> Refused | None:
        """Tell why a key (its fingerprint, `SHA256:…`) does not count at a time (ms), or None; for the spend, which
        asks now."""
        return self._door.standing(component, at)

    def verify(self, commit: Commit, window: Window) -> Signed | Refused:
        """Verify a commit's one SSH signature. That a security key's counter does not fall is *not* checked."""
        admitted = self._door.admit(commit, window)
        return admitted if isinstance(admitted, Refused) else self._stands(admitted)

    def accept(self, commit: Commit, window: Window, proven: Signed) -> Signed | Refused:
        """Judge a commit as `verify` does, but take the word of a verifying process where it says exactly what the own
        checks found: key, date, touch and counter."""
        admitted = self._door.admit(commit, window)
        if isinstance(admitted, Refused):
            return admitted
        return proven if proven == prove(admitted) else self._stands(admitted)

    def _stands(self, admitted: Admitted) -> Signed | Refused:
        from cryptography.exceptions import InvalidSignature

        line = admitted.key.line
        if line not in self._checks:
            self._checks[line] = _check_of(admitted.public)
        check = self._checks[line]
        if check is None:
            return refuse(Reason.WEAK_KEY, "It is no point of its curve.")
        try:
            check(admitted.signature, admitted.message)
        except InvalidSignature:
            return refuse(Reason.BAD_SIGNATURE)
        return prove(admitted)


def _check_of(key: PublicKey) -> Check | None:
    """Give the check by one key; None for what is no key."""
    if isinstance(key.value, EdPoint):
        return _ed25519(key.value)
    if isinstance(key.value, CurvePoint):
        return _ecdsa(key.value)
    from cryptography.hazmat.primitives.asymmetric import padding, rsa

    public = rsa.RSAPublicNumbers(key.value.exponent, key.value.modulus).public_key()

    def check(signature: Signature, message: bytes) -> None:
        assert isinstance(signature.value, bytes)
        public.verify(signature.value, message, padding.PKCS1v15(), _hash(signature.scheme))

    return check


def _ed25519(point: EdPoint) -> Check | None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    public = Ed25519PublicKey.from_public_bytes(point.raw)

    def check(signature: Signature, message: bytes) -> None:
        assert isinstance(signature.value, bytes)
        public.verify(signature.value, message)

    return check


def _ecdsa(point: CurvePoint) -> Check | None:
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

    curves: dict[str, ec.EllipticCurve] = {
        "nistp256": ec.SECP256R1(),
        "nistp384": ec.SECP384R1(),
        "nistp521": ec.SECP521R1(),
    }
    try:
        public = ec.EllipticCurvePublicKey.from_encoded_point(curves[point.curve], point.raw)
    except ValueError:
        return None

    def check(signature: Signature, message: bytes) -> None:
        assert isinstance(signature.value, Pair)
        der = encode_dss_signature(signature.value.r, signature.value.s)
        public.verify(der, message, ec.ECDSA(_hash(signature.scheme)))

    return check


def _hash(scheme: Scheme) -> "HashAlgorithm":
    from cryptography.hazmat.primitives import hashes

    algorithm: HashAlgorithm = getattr(hashes, _HASHES[scheme])()
    return algorithm
