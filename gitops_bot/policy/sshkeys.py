"""An SSH public-key line is read far enough to say whose key it is and how strong: type, material, bits.

The blob is that of RFC 4253 section 6.6, RFC 5656, RFC 8709 and OpenSSH's PROTOCOL.u2f. Signatures are verified
elsewhere; this reader only keeps weak, malformed and shared keys out of the policy.
"""

import base64
import binascii
import hashlib
import re
from typing import Final

from gitops_bot.core.errors import Malformed
from gitops_bot.policy.faults import DoesNotLoad, LoadFault
from gitops_bot.policy.model import ComponentKey

MIN_RSA: Final = 3_072
MAX_RSA: Final = 16_384
_LINE: Final = re.compile(r"([a-z0-9@.-]{1,64}) ([A-Za-z0-9+/]{16,4000}={0,2})(?: [ -~]{0,200})?", re.ASCII)
_CURVES: Final = {"nistp256": 32, "nistp384": 48, "nistp521": 66}
_TYPES: Final = (
    "ssh-ed25519",
    "ssh-rsa",
    *(f"ecdsa-sha2-{curve}" for curve in _CURVES),
    "sk-ssh-ed25519@openssh.com",
    "sk-ecdsa-sha2-nistp256@openssh.com",
)


def read_ssh_line(line: str, *, where: str) -> tuple[str, ComponentKey, bool]:
    """Read `type base64 [comment]`; give the identity `type base64`, the key, and whether a security key holds it.

    Raises:
        Malformed: no such line, an unknown type, or a blob that is not exactly one key of that type.
        DoesNotLoad: `weak_key`: RSA below 3072 bits, or DSA.
    """
    found = _LINE.fullmatch(line)
    if found is None:
        raise Malformed("an SSH key is `type base64`, without options before it", where=where)
    name = found[1]
    if name == "ssh-dss":
        raise DoesNotLoad(LoadFault.WEAK_KEY, "DSA keys do not count", where=where)
    if name not in _TYPES:
        raise Malformed(f"unknown SSH key type; one of {', '.join(_TYPES)}", where=where)
    try:
        blob = base64.b64decode(found[2], validate=True)
    except (binascii.Error, ValueError):
        raise Malformed("the SSH key's base64 does not decode", where=where) from None
    if base64.b64encode(blob).decode("ascii") != found[2]:
        raise Malformed("the SSH key's base64 is not the usual spelling", where=where)
    fields = _fields(blob, where)
    if fields[0] != name.encode("ascii"):
        raise Malformed("the SSH key's blob is of another type than its line says", where=where)
    fingerprint = base64.b64encode(hashlib.sha256(blob).digest()).decode("ascii").rstrip("=")
    algorithm, bits, curve, material = _material(name, fields[1:], where)
    key = ComponentKey(f"SHA256:{fingerprint}", algorithm, bits, curve, material)
    return f"{name} {found[2]}", key, name.startswith("sk-")


def _fields(blob: bytes, where: str) -> list[bytes]:
    fields: list[bytes] = []
    while blob:
        length = int.from_bytes(blob[:4], "big")
        if len(blob) < 4 or length > len(blob) - 4:
            raise Malformed("the SSH key's blob is cut short", where=where)
        fields.append(blob[4 : 4 + length])
        blob = blob[4 + length :]
    return fields or [b""]


def _material(name: str, fields: list[bytes], where: str) -> tuple[str, int, str | None, str]:
    wrong = Malformed("the SSH key's blob does not hold one key of its type", where=where)
    if name == "ssh-rsa":
        if len(fields) != 2 or not 0 < len(fields[1]) <= MAX_RSA // 8 + 1:
            raise wrong
        modulus = int.from_bytes(fields[1], "big")
        if modulus.bit_length() < MIN_RSA:
            raise DoesNotLoad(
                LoadFault.WEAK_KEY, f"RSA of {modulus.bit_length()} bits; at least {MIN_RSA}", where=where
            )
        return "rsa", modulus.bit_length(), None, f"rsa:{modulus:x}"
    if name.startswith("sk-"):
        if not fields or not fields[-1].startswith(b"ssh:"):
            raise Malformed("the SSH key's application must begin with ssh:", where=where)
        fields = fields[:-1]
    if name in ("ssh-ed25519", "sk-ssh-ed25519@openssh.com"):
        if len(fields) != 1 or len(fields[0]) != 32:
            raise wrong
        return "eddsa", 256, "ed25519", f"ed25519:{fields[0].hex()}"
    curve = "nistp256" if name.startswith("sk-") else name.removeprefix("ecdsa-sha2-")
    size = _CURVES[curve]
    if len(fields) != 2 or fields[0] != curve.encode("ascii"):
        raise wrong
    if len(fields[1]) != 1 + 2 * size or fields[1][0] != 4:
        raise wrong
    return "ecdsa", int(curve.removeprefix("nistp")), curve, f"{curve}:{fields[1].hex()}"
