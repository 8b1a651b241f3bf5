"""Signatures inside a certificate are verified over `cryptography`, so that its dates and revocations can be believed.

pysequoia tells neither the dates of subkeys nor why something was revoked, and gpg tells them only through a process.
Signatures of data are *not* verified here: that is the work of the two engines.
"""

import hashlib
from typing import TYPE_CHECKING, Final

from gitops_bot.core.errors import Malformed
from gitops_bot.signed.openpgp.grammar import Signature, read_numbers
from gitops_bot.signed.openpgp.keypackets import PublicKey

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.utils import Prehashed

_DIGESTS: Final = {2: "sha1", 8: "sha256", 9: "sha384", 10: "sha512", 11: "sha224"}
_RSA: Final = frozenset({1, 3})


def user_id(tag: int, body: bytes) -> bytes:
    """Give what a certification hashes of a user id (tag 13) or attribute (tag 17) after the key (RFC 4880 §5.2.4)."""
    return (b"\xb4" if tag == 13 else b"\xd1") + len(body).to_bytes(4, "big") + body


def verifies(key: PublicKey, signature: Signature, hashed: bytes) -> bool | None:
    """Tell whether a key made a signature over bytes; None where that cannot be computed here (an unknown digest or
    algorithm), which the caller takes for the worse. How strong digest and key are is *not* asked."""
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm

    name = _DIGESTS.get(signature.digest)
    if name is None or signature.version != 4 or not key.numbers:
        return None
    if signature.algorithm != key.number and not {signature.algorithm, key.number} <= _RSA:
        return False
    digest = hashlib.new(name, hashed + signature.trailer, usedforsecurity=False).digest()
    try:
        return _check(key, signature, name, digest)
    except (InvalidSignature, ValueError, Malformed):
        return False
    except UnsupportedAlgorithm:
        return None


def _check(key: PublicKey, signature: Signature, name: str, digest: bytes) -> bool | None:
    from cryptography.hazmat.primitives.asymmetric import ed448, ed25519

    match signature.algorithm:
        case 1 | 3:
            _check_rsa(key, signature, name, digest)
        case 19:
            return _check_ecdsa(key, signature, name, digest)
        case 22:
            r, s, _ = read_numbers(signature.numbers, 2, where="certificate")
            proof = r.rjust(32, b"\0") + s.rjust(32, b"\0")
            ed25519.Ed25519PublicKey.from_public_bytes(key.numbers[0]).verify(proof, digest)
        case 27:
            ed25519.Ed25519PublicKey.from_public_bytes(key.numbers[0]).verify(signature.numbers, digest)
        case 28:
            ed448.Ed448PublicKey.from_public_bytes(key.numbers[0]).verify(signature.numbers, digest)
        case _:
            return None
    return True


def _check_rsa(key: PublicKey, signature: Signature, name: str, digest: bytes) -> None:
    from cryptography.hazmat.primitives.asymmetric import padding, rsa

    modulus, exponent = (int.from_bytes(number, "big") for number in key.numbers)
    proof, _ = read_numbers(signature.numbers, 1, where="certificate")
    size = (modulus.bit_length() + 7) // 8
    public = rsa.RSAPublicNumbers(exponent, modulus).public_key()
    public.verify(proof.rjust(size, b"\0"), digest, padding.PKCS1v15(), _prehashed(name))


def _check_ecdsa(key: PublicKey, signature: Signature, name: str, digest: bytes) -> bool | None:
    from cryptography.hazmat.primitives.asymmetric import ec, utils

    curves: dict[str | None, ec.EllipticCurve] = {
        "nistp256": ec.SECP256R1(),
        "nistp384": ec.SECP384R1(),
        "nistp521": ec.SECP521R1(),
        "brainpoolp256r1": ec.BrainpoolP256R1(),
        "brainpoolp384r1": ec.BrainpoolP384R1(),
        "brainpoolp512r1": ec.BrainpoolP512R1(),
    }
    curve = curves.get(key.key.curve)
    if curve is None:
        return None
    r, s, _ = read_numbers(signature.numbers, 2, where="certificate")
    public = ec.EllipticCurvePublicKey.from_encoded_point(curve, key.numbers[0])
    proof = utils.encode_dss_signature(int.from_bytes(r, "big"), int.from_bytes(s, "big"))
    public.verify(proof, digest, ec.ECDSA(_prehashed(name)))
    return True


def _prehashed(name: str) -> "Prehashed":
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric.utils import Prehashed

    found: dict[str, hashes.HashAlgorithm] = {
        "sha1": hashes.SHA1(),  # noqa: S303 # of a revocation, where believing too much takes away only
        "sha224": hashes.SHA224(),
        "sha256": hashes.SHA256(),
        "sha384": hashes.SHA384(),
        "sha512": hashes.SHA512(),
    }
    return Prehashed(found[name])
