"""A public-key packet of version 4 becomes a key: fingerprint, strength, material, numbers (RFC 4880 §5.5.2, RFC 9580).

What cannot be judged (an unknown algorithm or curve) is read as such, so that the policy can call it weak.
"""

import hashlib
from dataclasses import dataclass
from typing import Final

from gitops_bot.core.errors import Malformed
from gitops_bot.policy.model import ComponentKey
from gitops_bot.signed.openpgp.grammar import read_numbers

MAX_BITS: Final = 16_384
_CURVES: Final = {
    "2a8648ce3d030107": ("nistp256", 256),
    "2b81040022": ("nistp384", 384),
    "2b81040023": ("nistp521", 521),
    "2b2403030208010107": ("brainpoolp256r1", 256),
    "2b240303020801010b": ("brainpoolp384r1", 384),
    "2b240303020801010d": ("brainpoolp512r1", 512),
    "2b06010401da470f01": ("ed25519", 256),
    "2b060104019755010501": ("x25519", 256),
    "2b8104000a": ("secp256k1", 256),
}
_BY_CURVE: Final = {18: "ecdh", 19: "ecdsa", 22: "eddsa"}
_FIXED: Final = {
    25: ("ecdh", "x25519", 256, 32),
    26: ("ecdh", "x448", 448, 56),
    27: ("eddsa", "ed25519", 256, 32),
    28: ("eddsa", "ed448", 448, 57),
}
_PRIMES: Final = {16: ("elgamal", 3), 17: ("dsa", 4)}


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A key of a certificate. `hashed` is what signatures over it begin with; `made_at` is in ms; `number` is the
    algorithm's. `numbers` are those of RSA (n, e), or one point without a 0x40 before it; empty for what never signs
    here."""

    key: ComponentKey
    made_at: int
    number: int
    numbers: tuple[bytes, ...]
    hashed: bytes

    @property
    def fingerprint(self) -> str:
        """Give the full fingerprint in upper-case hex."""
        return self.key.fingerprint


def read_key(body: bytes, *, where: str) -> PublicKey:
    """Read a public key's or subkey's packet body.

    Raises:
        Malformed: another version than 4, a field that is cut or too long, RSA over 16384 bits or with a wide exponent.
    """
    version = body[0] if body else 0
    if version != 4:
        raise Malformed(f"a key of version {version}; only version 4 is read by every engine", where=where)
    if len(body) < 7 or len(body) > 0xFFFF:
        raise Malformed("a key is cut short or too long", where=where)
    hashed = b"\x99" + len(body).to_bytes(2, "big") + body
    # The fingerprint of version 4 is SHA-1 by its definition; it names the key and protects nothing here.
    fingerprint = hashlib.sha1(hashed, usedforsecurity=False).hexdigest().upper()
    algorithm, bits, curve, material, numbers = _material(body[5], body[6:], where)
    key = ComponentKey(fingerprint, algorithm, bits, curve, material)
    return PublicKey(key, int.from_bytes(body[1:5], "big") * 1_000, body[5], numbers, hashed)


_Material = tuple[str, int, str | None, str, tuple[bytes, ...]]


def _material(number: int, data: bytes, where: str) -> _Material:
    if number in (1, 2, 3):
        return _rsa(data, where)
    if number in _BY_CURVE:
        return _point(number, data, where)
    if number in _FIXED:
        algorithm, curve, bits, size = _FIXED[number]
        if len(data) != size:
            raise Malformed("a key's point is not of its curve's size", where=where)
        return algorithm, bits, curve, f"{curve}:{data.hex()}", (data,)
    if number in _PRIMES:
        algorithm, count = _PRIMES[number]
        *values, rest = read_numbers(data, count, where=where)
        if rest:
            raise Malformed("a key has more numbers than its algorithm", where=where)
        bits = int.from_bytes(values[0], "big").bit_length()
        return algorithm, bits, None, f"{algorithm}:{hashlib.sha256(data).hexdigest()}", ()
    return f"algorithm-{number}", 0, None, f"algorithm-{number}:{hashlib.sha256(data).hexdigest()}", ()


def _rsa(data: bytes, where: str) -> _Material:
    modulus, exponent, rest = read_numbers(data, 2, where=where)
    number, power = int.from_bytes(modulus, "big"), int.from_bytes(exponent, "big")
    # A wide exponent would make each verification dear.
    if rest or not 0 < number.bit_length() <= MAX_BITS or not 2 < power < 2**32 or power % 2 == 0:
        raise Malformed("no RSA key of usual size and exponent", where=where)
    return "rsa", number.bit_length(), None, f"rsa:{number:x}", (modulus, exponent)


def _point(number: int, data: bytes, where: str) -> _Material:
    end = 1 + (data[0] if data else 0)
    name = data[1:end].hex()
    point, rest = read_numbers(data[end:], 1, where=where)
    if rest and number != 18:
        raise Malformed("a key has more than a point", where=where)
    algorithm = _BY_CURVE[number]
    if name not in _CURVES:
        return algorithm, 0, f"oid-{name}", f"oid-{name}:{point.hex()}", ()
    curve, bits = _CURVES[name]
    native = curve in ("ed25519", "x25519")
    size, begin = (33, b"\x40") if native else (1 + 2 * ((bits + 7) // 8), b"\x04")
    if len(point) != size or not point.startswith(begin):
        raise Malformed("a key's point is not of its curve's form", where=where)
    bare = point[1:] if native else point
    return algorithm, bits, curve, f"{curve}:{bare.hex()}", (bare,)
