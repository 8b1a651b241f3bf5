"""Bytes of an SSH signature become a value, or the code that is to blame; what they are worth is decided elsewhere.

The forms are OpenSSH's: PROTOCOL.sshsig (armor, blob, signed bytes), RFC 8709, RFC 8332 and RFC 5656 section 3.1.2
(signatures), PROTOCOL.u2f (security keys). Each is read in its one spelling and nothing may follow it: whatever of a
signature a stranger could change without the key would give a signed commit another id. One thing stays: of an ECDSA
signature (r, s) everybody can make (r, n - s), so a vote is never keyed by a commit id (protocols/signed-approvals,
step 8). Whose key it is, its dates, and whether anything verifies are *not* judged here.
"""

import base64
import binascii
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from gitops_bot.core.errors import Reason, Refused, refuse

BEGIN: Final = b"-----BEGIN SSH SIGNATURE-----"
END: Final = b"-----END SSH SIGNATURE-----"
NAMESPACE: Final = b"git"
MAX_ARMOR: Final = 16 * 1024
"""Bytes; RSA of 16,384 bits, the longest that is read, takes less than 6 KiB."""
MAX_RSA: Final = 16_384
MIN_RSA: Final = 3_072
PRESENT: Final = 0x01
VERIFIED: Final = 0x04

_MAGIC: Final = b"SSHSIG"
_VERSION: Final = (1).to_bytes(4, "big")
_COLUMNS: Final = 70
_BLANKS: Final = b" \t\r\n"
_HASHES: Final = MappingProxyType({b"sha256": "sha256", b"sha512": "sha512"})
_ORDERS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "nistp256": 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551,
        "nistp384": int(
            "ffffffffffffffffffffffffffffffffffffffffffffffffc7634d81f4372ddf581a0db248b0a77aecec196accc52973", 16
        ),
        "nistp521": int(
            "1fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffa"
            "51868783bf2f966b7fcc0148f709a5d03bb5c9b8899c47aebb6fb71e91386409",
            16,
        ),
    }
)
"""The orders of the curves' groups (FIPS 186-4, appendix D.1.2)."""
_ED25519_PRIME: Final = 2**255 - 19
_ED25519_EIGHTH: Final = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
_ED25519_SMALL: Final = frozenset({0, 1, _ED25519_PRIME - 1, _ED25519_EIGHTH, _ED25519_PRIME - _ED25519_EIGHTH})
"""The y of every point of small order: with such a key anybody can sign."""


class Scheme(StrEnum):
    """How a signature was made, by the name in its blob."""

    ED25519 = "ssh-ed25519"
    ECDSA_256 = "ecdsa-sha2-nistp256"
    ECDSA_384 = "ecdsa-sha2-nistp384"
    ECDSA_521 = "ecdsa-sha2-nistp521"
    RSA_256 = "rsa-sha2-256"
    RSA_512 = "rsa-sha2-512"
    SK_ED25519 = "sk-ssh-ed25519@openssh.com"
    SK_ECDSA = "sk-ecdsa-sha2-nistp256@openssh.com"


SECURITY: Final = frozenset({Scheme.SK_ED25519, Scheme.SK_ECDSA})
_CURVES: Final[Mapping[Scheme, str]] = MappingProxyType(
    {
        Scheme.ECDSA_256: "nistp256",
        Scheme.ECDSA_384: "nistp384",
        Scheme.ECDSA_521: "nistp521",
        Scheme.SK_ECDSA: "nistp256",
    }
)


@dataclass(frozen=True, slots=True)
class RsaNumbers:
    """An RSA public key; `size` is its modulus in bytes."""

    exponent: int
    modulus: int

    @property
    def size(self) -> int:
        """Give the bytes that a signature by it has."""
        return (self.modulus.bit_length() + 7) // 8


@dataclass(frozen=True, slots=True)
class EdPoint:
    """An Ed25519 public key: 32 bytes."""

    raw: bytes


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """A point that claims to be on a curve, uncompressed; that it is on it is *not* checked."""

    curve: str
    raw: bytes


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A public key as its blob names it. `application` is a security key's, else None."""

    kind: str
    value: RsaNumbers | EdPoint | CurvePoint
    application: bytes | None = None


@dataclass(frozen=True, slots=True)
class Pair:
    """An ECDSA signature; both lie between 1 and the order of the curve."""

    r: int
    s: int


@dataclass(frozen=True, slots=True)
class Touch:
    """What a security key says beside its signature, which covers it."""

    flags: int
    counter: int


@dataclass(frozen=True, slots=True)
class Signature:
    """One signature in its form; `touch` exactly when a security key made it."""

    scheme: Scheme
    value: bytes | Pair
    touch: Touch | None = None


@dataclass(frozen=True, slots=True)
class Envelope:
    """A blob of PROTOCOL.sshsig made for git over a strong hash. `key` and `signature` are still blobs."""

    key: bytes
    hash_name: str
    signature: bytes


def read_armor(armor: bytes) -> bytes | Refused:
    """Give the blob in an armor that is spelled as ssh-keygen does; the last line's own end may be missing, as git
    stores it. Who re-wraps or decorates it is told `malformed_commit`; where there is no signature, `bad_signature`."""
    if len(armor) > MAX_ARMOR:
        return _bad("It is larger than any signature.")
    if armor.count(b"-----BEGIN ") > 1:
        return refuse(Reason.MULTIPLE_SIGNATURES)
    if BEGIN not in armor or END not in armor:
        return _bad("There is no SSH signature in it.")
    whole = armor.removesuffix(b"\n")
    if not whole.startswith(BEGIN + b"\n") or not whole.endswith(END) or armor.count(END) > 1:
        return _other_spelling("text stands outside the armor")
    inside = whole[len(BEGIN) + 1 : -len(END)]
    if b":" in inside:
        return _other_spelling("the armor has headers")
    try:
        blob = binascii.a2b_base64(inside.translate(None, _BLANKS), strict_mode=True)
    except binascii.Error:
        return _bad("The armor does not decode.")
    if not blob:
        return _bad("The armor is empty.")
    if write_armor(blob) != whole + b"\n":
        return _other_spelling("the armor is wrapped or spelled otherwise than ssh-keygen does")
    return blob


def write_armor(blob: bytes) -> bytes:
    """Spell a blob as ssh-keygen does: 70 columns, a line end after the last line."""
    text = base64.b64encode(blob)
    lines = [text[at : at + _COLUMNS] for at in range(0, len(text), _COLUMNS)]
    return b"\n".join((BEGIN, *lines, END, b""))


def read_envelope(blob: bytes) -> Envelope | Refused:
    """Read a blob of version 1, made for git over SHA-256 or SHA-512, with nothing reserved and nothing after it."""
    start = len(_MAGIC) + len(_VERSION)
    if blob[:start] != _MAGIC + _VERSION:
        return _bad("It is no SSHSIG of version 1.")
    parts = _strings(blob[start:], 5)
    if parts is None or parts[1]:
        return _bad("Its blob is cut short or has something after it.")
    key, namespace, reserved, hash_name, signature = parts[0]
    if namespace != NAMESPACE:
        return refuse(Reason.WRONG_NAMESPACE)
    if hash_name not in _HASHES:
        return refuse(Reason.WEAK_DIGEST, "SSH signatures know SHA-256 and SHA-512.")
    if reserved:
        # OpenSSH ignores it and the signature does not cover it: anybody could write there.
        return _bad("Its reserved field is not empty.")
    return Envelope(key, _HASHES[hash_name], signature)


def read_signature(blob: bytes, key: PublicKey) -> Signature | Refused:
    """Read the signature's own blob, which must be of a scheme that belongs to the key."""
    parts = _strings(blob, 2)
    if parts is None:
        return _bad("The signature is cut short.")
    (name, raw), rest = parts
    if name == b"ssh-rsa":
        return refuse(Reason.WEAK_DIGEST, "This RSA signature is over SHA-1.")
    scheme = next((one for one in _schemes_of(key.kind) if one.value.encode("ascii") == name), None)
    if scheme is None:
        return _bad("It is not of the kind that its key makes.")
    touch = None
    if scheme in SECURITY:
        if len(rest) != 5:
            return _bad("A security key's flags and counter must follow it, and nothing else.")
        touch, rest = Touch(rest[0], int.from_bytes(rest[1:], "big")), b""
    value = _value(scheme, raw, key)
    if value is None or rest:
        return _bad("The signature is not exactly one of its kind.")
    return Signature(scheme, value, touch)


def read_key(blob: bytes) -> PublicKey | Refused:
    """Read a public key of the policy. What could not count is `weak_key`: RSA below 3072 bits or with an exponent
    that signs for everybody, a point of small order, an application other than `ssh:…`, a certificate."""
    head = _strings(blob, 1)
    if head is None:
        return _weak("It is cut short.")
    kind, rest = head[0][0].decode("ascii", "replace"), head[1]
    application: bytes | None = None
    if kind == "ssh-rsa":
        value: RsaNumbers | EdPoint | CurvePoint | None = _rsa(rest)
    elif kind in (Scheme.ED25519, Scheme.SK_ED25519):
        parts = _strings(rest, 1)
        value, rest = (None, b"") if parts is None else (_ed25519(parts[0][0]), parts[1])
    elif kind in _CURVES:
        parts = _strings(rest, 2)
        value, rest = (None, b"") if parts is None else (_point(Scheme(kind), *parts[0]), parts[1])
    else:
        return _weak("Keys of its kind do not count.")
    if kind in SECURITY:
        parts = _strings(rest, 1)
        if parts is None or not parts[0][0].startswith(b"ssh:"):
            return _weak("A security key's application must begin with ssh:.")
        (application,), rest = parts
    if value is None or (rest and kind != "ssh-rsa"):
        return _weak("Its blob does not hold one sound key of its kind.")
    return PublicKey(kind, value, application)


def signed_bytes(hash_name: str, payload: bytes) -> bytes:
    """Give what the key signs of a payload: PROTOCOL.sshsig, "Signed Data", in namespace git with nothing reserved."""
    digest = hashlib.new(hash_name, payload).digest()
    return _MAGIC + b"".join(map(string, (NAMESPACE, b"", hash_name.encode("ascii"), digest)))


def touched_bytes(application: bytes, touch: Touch, message: bytes) -> bytes:
    """Give what a security key signs of a message: PROTOCOL.u2f, "SSH U2F Signatures"."""
    said = bytes((touch.flags,)) + touch.counter.to_bytes(4, "big")
    return hashlib.sha256(application).digest() + said + hashlib.sha256(message).digest()


def string(data: bytes) -> bytes:
    """Write a string of RFC 4251 section 5."""
    return len(data).to_bytes(4, "big") + data


def _strings(data: bytes, count: int) -> tuple[tuple[bytes, ...], bytes] | None:
    """Read some strings of RFC 4251 section 5 and give what is left; None where one is cut short."""
    found: list[bytes] = []
    at = 0
    for _ in range(count):
        start = at + 4
        end = start + int.from_bytes(data[at:start], "big")
        if start > len(data) or end > len(data):
            return None
        found.append(data[start:end])
        at = end
    return tuple(found), data[at:]


def _mpint(data: bytes) -> int | None:
    """Read a positive mpint in its shortest form (RFC 4251 section 5)."""
    if not data or data[0] >= 0x80 or (data[0] == 0 and data[1:2] < b"\x80"):
        return None
    return int.from_bytes(data, "big")


def _schemes_of(kind: str) -> tuple[Scheme, ...]:
    return (Scheme.RSA_256, Scheme.RSA_512) if kind == "ssh-rsa" else (Scheme(kind),)


def _value(scheme: Scheme, raw: bytes, key: PublicKey) -> bytes | Pair | None:
    if scheme in _CURVES:
        order = _ORDERS[_CURVES[scheme]]
        if len(raw) > 2 * (4 + 67):
            return None
        parts = _strings(raw, 2)
        if parts is None or parts[1]:
            return None
        r, s = _mpint(parts[0][0]), _mpint(parts[0][1])
        return Pair(r, s) if r is not None and s is not None and r < order and s < order else None
    size = key.value.size if isinstance(key.value, RsaNumbers) else 64
    return raw if len(raw) == size else None


def _rsa(rest: bytes) -> RsaNumbers | None:
    parts = _strings(rest, 2)
    if parts is None or parts[1] or any(len(part) > MAX_RSA // 8 + 1 for part in parts[0]):
        return None
    exponent, modulus = _mpint(parts[0][0]), _mpint(parts[0][1])
    if exponent is None or modulus is None or not MIN_RSA <= modulus.bit_length() <= MAX_RSA:
        return None
    # OpenSSL takes no exponent of more than 64 bits with such a modulus.
    sound = exponent >= 3 and exponent % 2 and modulus % 2 and exponent.bit_length() <= 64
    return RsaNumbers(exponent, modulus) if sound else None


def _ed25519(raw: bytes) -> EdPoint | None:
    y = int.from_bytes(raw, "little") & (2**255 - 1)
    return EdPoint(raw) if len(raw) == 32 and y % _ED25519_PRIME not in _ED25519_SMALL else None


def _point(scheme: Scheme, name: bytes, raw: bytes) -> CurvePoint | None:
    curve = _CURVES[scheme]
    size = (_ORDERS[curve].bit_length() + 7) // 8
    sound = name == curve.encode("ascii") and len(raw) == 1 + 2 * size and raw[0] == 4
    return CurvePoint(curve, raw) if sound else None


def _bad(detail: str) -> Refused:
    return refuse(Reason.BAD_SIGNATURE, detail)


def _weak(detail: str) -> Refused:
    return refuse(Reason.WEAK_KEY, detail)


def _other_spelling(what: str) -> Refused:
    return refuse(Reason.MALFORMED_COMMIT, f"Of the signature, {what}.")
