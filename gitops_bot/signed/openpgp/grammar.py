"""Bytes of OpenPGP signatures become values: armor, packets, subpackets (RFC 4880, RFC 9580).

Whoever holds a `Signature` from `read_detached` holds the one signature packet of a strict armor; what it says of its
key, time and digest is claimed, not verified. Every reader is linear in its input and has a size cap.
"""

import base64
import binascii
import re
from dataclasses import dataclass
from typing import Final

from gitops_bot.core.errors import Malformed, Reason, Refused, refuse

MAX_ARMOR: Final = 32 * 1024
MAX_PACKETS: Final = 4_096
SIGNATURE: Final = 2
BINARY: Final = 0x00
STRONG_DIGESTS: Final = {8: "sha256", 9: "sha384", 10: "sha512"}
CREATED, EXPIRES, ISSUER, NOTATION, SIGNER, FINGERPRINT = 2, 3, 16, 20, 28, 33
_UNDERSTOOD: Final = frozenset({CREATED, EXPIRES, ISSUER, SIGNER, FINGERPRINT})
_KEY_BLOCK: Final = 38
_MPIS: Final = {1: 1, 3: 1, 17: 2, 19: 2, 22: 2}
_OCTETS: Final = {27: 64, 28: 114}
_SALT: Final = {8: 16, 9: 24, 10: 32, 12: 16, 14: 32}

_BEGIN: Final = b"-----BEGIN PGP SIGNATURE-----\n"
_END: Final = b"-----END PGP SIGNATURE-----"
_ARMOR: Final = re.compile(
    _BEGIN
    + rb"\n((?:[A-Za-z0-9+/]{1,76}\n)*(?:[A-Za-z0-9+/]{1,76}={1,2}\n)?)(?:=([A-Za-z0-9+/]{4})\n)?"
    + _END
    + rb"\n?"
)
_CRC_INIT: Final = 0xB704CE
_CRC_POLYNOMIAL: Final = 0x1864CFB
_CRC_FOLDS: Final = (
    (71_854, (0, 4, 5, 13, 16)),
    (36_908, (0, 1, 3, 16, 20)),
    (20_127, (0, 2, 8, 9, 14)),
    (10_559, (0, 1, 2, 10, 11)),
    (5_969, (0, 9, 10, 12, 22)),
    (3_118, (0, 2, 9, 10, 11, 12, 15)),
    (1_771, (0, 5, 6, 11, 14, 18, 22)),
    (1_075, (0, 4, 7, 8, 12, 14, 18)),
    (663, (0, 1, 5, 7, 9, 12, 23)),
    (369, (0, 4, 8, 14, 16, 19, 20, 21, 22)),
    (212, (0, 5, 7, 8, 9, 10, 11, 13, 22)),
    (111, (0, 1, 2, 3, 5, 9, 12, 20, 21, 22, 23)),
    (67, (0, 1, 4, 8, 10, 12, 16, 20, 21)),
    (38, (0, 1, 3, 6, 8, 12, 14, 16, 22)),
)
"""Widths and powers: x^width is the sum of x^power modulo the polynomial; of each range of widths one with few."""


@dataclass(frozen=True, slots=True)
class Packet:
    """One packet: its tag, its body, and its whole bytes as they stood."""

    tag: int
    body: bytes
    whole: bytes


@dataclass(frozen=True, slots=True)
class Subpacket:
    """One subpacket of a signature."""

    kind: int
    critical: bool
    body: bytes


@dataclass(frozen=True, slots=True)
class Signature:
    """A signature packet of version 4 or 6 (`kind` is its class). Seconds and ids are the signer's claims; `created`,
    `expires` and `issuer` are None where they are absent. Only `hashed` is under the signature; `trailer` is what is
    hashed after the signed thing."""

    version: int
    kind: int
    algorithm: int
    digest: int
    hashed: tuple[Subpacket, ...]
    unhashed: tuple[Subpacket, ...]
    created: int | None
    expires: int | None
    issuer: str | None
    key_id: str | None
    left: bytes
    salt: bytes
    trailer: bytes
    numbers: bytes

    def first(self, kind: int) -> bytes | None:
        """Give the body of the first hashed subpacket of a kind."""
        for item in self.hashed:
            if item.kind == kind:
                return item.body
        return None


def read_armor(armor: bytes) -> bytes | Refused:
    """Take the bytes out of a strict armor: one block of a detached signature, no header lines, nothing around it.

    `malformed_commit` for what could be changed without the key, `multiple_signatures` for two blocks,
    `bad_signature` for what is no detached signature or does not decode. An absent checksum is allowed.
    """
    if len(armor) > MAX_ARMOR:
        return refuse(Reason.TOO_LARGE, f"A signature has at most {MAX_ARMOR} bytes of armor.")
    found = _ARMOR.fullmatch(armor)
    if found is None:
        return _blame(armor)
    text = found[1].replace(b"\n", b"")
    try:
        data = binascii.a2b_base64(text, strict_mode=True)
    except binascii.Error:
        return refuse(Reason.BAD_SIGNATURE, "The armor's base64 does not decode.")
    if not data or binascii.b2a_base64(data, newline=False) != text:
        return refuse(Reason.BAD_SIGNATURE, "The armor's base64 is empty or not the usual spelling.")
    if found[2] is not None and int.from_bytes(base64.b64decode(found[2]), "big") != _crc24(data):
        return refuse(Reason.BAD_SIGNATURE, "The armor's checksum is wrong.")
    return data


def _blame(armor: bytes) -> Refused:
    blocks = armor.count(_BEGIN)
    if blocks == 0 or b"-----BEGIN PGP SIGNED MESSAGE-----" in armor:
        return refuse(Reason.BAD_SIGNATURE, "There is no detached OpenPGP signature in this.")
    if blocks > 1:
        return refuse(Reason.MULTIPLE_SIGNATURES)
    _, _, inside = armor.partition(_BEGIN)
    inside, end, after = inside.partition(_END)
    if not armor.startswith(_BEGIN) or after.strip(b"\n"):
        return refuse(Reason.MALFORMED_COMMIT, "There is text outside the armor of the signature.")
    if not end:
        return refuse(Reason.BAD_SIGNATURE, "The armor of the signature does not end.")
    if not inside.startswith(b"\n") or after not in (b"", b"\n"):
        return refuse(Reason.MALFORMED_COMMIT, "The armor of the signature has header lines or blank lines of its own.")
    return refuse(Reason.BAD_SIGNATURE, "The armor's base64 does not decode.")


def _crc24(data: bytes) -> int:
    """Compute the armor's checksum (RFC 4880 §6.1): the remainder of one long polynomial, shortened fold by fold."""
    rest = (_CRC_INIT << 8 * len(data)) ^ (int.from_bytes(data, "big") << 24)
    for width, powers in _CRC_FOLDS:
        while high := rest >> width:
            rest &= (1 << width) - 1
            for power in powers:
                rest ^= high << power
    while (over := rest.bit_length() - 25) >= 0:
        rest ^= _CRC_POLYNOMIAL << over
    return rest


def read_packets(data: bytes, *, where: str = "signature") -> tuple[Packet, ...]:
    """Split bytes into packets of definite length (RFC 4880 §4.2).

    Raises:
        Malformed: a length is cut, partial or indeterminate, or there are more than 4096 packets.
    """
    packets: list[Packet] = []
    at = 0
    while at < len(data):
        if len(packets) == MAX_PACKETS:
            raise Malformed(f"more than {MAX_PACKETS} packets", where=where)
        first = data[at]
        if not first & 0x80:
            raise Malformed("no OpenPGP packet begins here", where=where)
        if first & 0x40:
            tag = first & 0x3F
            body, size = _new_length(data, at + 1, where)
        else:
            tag, octets = (first >> 2) & 0x0F, 1 << (first & 3)
            if octets == 8:
                raise Malformed("a packet of indeterminate length", where=where)
            body, size = at + 1 + octets, int.from_bytes(data[at + 1 : at + 1 + octets], "big")
        if body + size > len(data):
            raise Malformed("a packet is cut short", where=where)
        packets.append(Packet(tag, data[body : body + size], data[at : body + size]))
        at = body + size
    return tuple(packets)


def _new_length(data: bytes, at: int, where: str) -> tuple[int, int]:
    first = data[at] if at < len(data) else 255
    if first < 192:
        return at + 1, first
    if first < 224:
        second = data[at + 1] if at + 1 < len(data) else len(data)
        return at + 2, ((first - 192) << 8) + second + 192
    if first < 255:
        raise Malformed("a packet of partial length", where=where)
    return at + 5, int.from_bytes(data[at + 1 : at + 5], "big") if at + 5 <= len(data) else len(data)


def read_signature(body: bytes, *, where: str = "signature") -> Signature:
    """Read a signature packet's body, versions 4 and 6 (RFC 4880 §5.2.3, RFC 9580 §5.2.3).

    Raises:
        Malformed: another version, a cut or overlong field, a time or issuer of another size, or one said twice.
    """
    version = body[0] if body else 0
    if version not in (4, 6):
        raise Malformed(f"a signature of version {version}", where=where)
    wide = 2 if version == 4 else 4
    hashed_end = 4 + wide + int.from_bytes(body[4 : 4 + wide], "big")
    unhashed = hashed_end + wide
    unhashed_end = unhashed + int.from_bytes(body[hashed_end:unhashed], "big")
    if unhashed_end + 2 > len(body):
        raise Malformed("a signature is cut short", where=where)
    inner = _subpackets(body[4 + wide : hashed_end], where)
    outer = _subpackets(body[unhashed:unhashed_end], where)
    numbers, salt = unhashed_end + 2, b""
    if version == 6:
        size = body[numbers] if numbers < len(body) else 0
        salt = body[numbers + 1 : numbers + 1 + size]
        numbers += 1 + size
        if size != _SALT.get(body[3]) or len(salt) != size:
            raise Malformed("a signature's salt is not of its digest's size", where=where)
    _check_numbers(body[2], body[numbers:], where)
    prefix = body[:hashed_end]
    issuer, key_id = (_named(inner, outer, kind, where) for kind in (FINGERPRINT, ISSUER))
    return Signature(
        version=version,
        kind=body[1],
        algorithm=body[2],
        digest=body[3],
        hashed=inner,
        unhashed=outer,
        created=_seconds(_only(inner, CREATED, where), where),
        expires=_seconds(_only(inner, EXPIRES, where), where),
        issuer=None if issuer is None else _issuer(issuer, where),
        key_id=None if key_id is None else key_id.hex().upper(),
        left=body[unhashed_end : unhashed_end + 2],
        salt=salt,
        trailer=prefix + bytes((version, 0xFF)) + len(prefix).to_bytes(4, "big"),
        numbers=body[numbers:],
    )


def _subpackets(area: bytes, where: str) -> tuple[Subpacket, ...]:
    found: list[Subpacket] = []
    at, end = 0, len(area)
    while at < end:
        size = area[at]
        at += 1
        if size >= 192:
            wide = 1 if size < 255 else 4
            tail = int.from_bytes(area[at : at + wide], "big")
            size = ((size - 192) << 8) + tail + 192 if wide == 1 else tail
            at += wide
        if size == 0 or at + size > end:
            raise Malformed("a subpacket is empty or cut short", where=where)
        kind = area[at]
        found.append(Subpacket(kind & 0x7F, kind >= 0x80, area[at + 1 : at + size]))
        at += size
    return tuple(found)


def _only(area: tuple[Subpacket, ...], kind: int, where: str) -> bytes | None:
    value: bytes | None = None
    for item in area:
        if item.kind == kind:
            if value is not None:
                raise Malformed(f"subpacket {kind} twice", where=where)
            value = item.body
    return value


def _named(inner: tuple[Subpacket, ...], outer: tuple[Subpacket, ...], kind: int, where: str) -> bytes | None:
    signed, beside = _only(inner, kind, where), _only(outer, kind, where)
    if signed is not None and beside not in (None, signed):
        raise Malformed(f"subpacket {kind} says two things", where=where)
    return beside if signed is None else signed


def _seconds(body: bytes | None, where: str) -> int | None:
    if body is None:
        return None
    if len(body) != 4:
        raise Malformed("a time is not of four octets", where=where)
    return int.from_bytes(body, "big")


def _issuer(body: bytes, where: str) -> str:
    if (body[:1], len(body)) not in ((b"\x04", 21), (b"\x06", 33)):
        raise Malformed("an issuer's fingerprint is of no known version or size", where=where)
    return body[1:].hex().upper()


def _check_numbers(algorithm: int, numbers: bytes, where: str) -> None:
    if algorithm in _OCTETS:
        exact = len(numbers) == _OCTETS[algorithm]
    elif algorithm in _MPIS:
        exact = len(read_numbers(numbers, _MPIS[algorithm], where=where)[-1]) == 0
    else:
        exact = True
    if not exact:
        raise Malformed("a signature's numbers are not exactly those of its algorithm", where=where)


def read_numbers(data: bytes, count: int, *, where: str) -> tuple[bytes, ...]:
    """Read `count` multiprecision integers (RFC 4880 §3.2) as big-endian bytes; the last item is what follows them.

    Raises:
        Malformed: one is cut short.
    """
    values: list[bytes] = []
    at = 0
    for _ in range(count):
        end = at + 2 + (int.from_bytes(data[at : at + 2], "big") + 7) // 8
        if at + 2 > len(data) or end > len(data):
            raise Malformed("a number is cut short", where=where)
        values.append(data[at + 2 : end])
        at = end
    return (*values, data[at:])


def read_detached(armor: bytes) -> tuple[Signature, bytes] | Refused:
    """Read a commit's armor down to its one signature and check what needs no key; give it with its packet's bytes.

    In order: the armor, one signature packet and nothing else, class binary, a strong digest, nothing critical that is
    not understood. A signature must say when it was made, and name its key by the full fingerprint.
    """
    data = read_armor(armor)
    if isinstance(data, Refused):
        return data
    try:
        packets = read_packets(data)
        signatures = [packet for packet in packets if packet.tag == SIGNATURE]
        if len(signatures) > 1:
            return refuse(Reason.MULTIPLE_SIGNATURES)
        if len(packets) != 1 or not signatures:
            return refuse(Reason.BAD_SIGNATURE, "This is no detached signature.")
        signature = read_signature(packets[0].body)
    except Malformed as error:
        return refuse(Reason.BAD_SIGNATURE, f"The packet cannot be read: {error.message}.")
    if signature.kind != BINARY:
        return refuse(Reason.WRONG_SIGNATURE_CLASS, signature_class=f"{signature.kind:02x}")
    if signature.digest not in STRONG_DIGESTS:
        return refuse(Reason.WEAK_DIGEST, digest=signature.digest)
    fault = _fault(signature)
    return (signature, data) if fault is None else refuse(Reason.BAD_SIGNATURE, fault)


def _fault(signature: Signature) -> str | None:
    for item in signature.hashed:
        if item.critical and item.kind not in _UNDERSTOOD:
            what = "notation" if item.kind == NOTATION else f"subpacket {item.kind}"
            return f"It holds a critical {what} that is not understood here."
        if item.kind == _KEY_BLOCK:
            return "It carries a key of its own."
    if any(item.kind not in (ISSUER, FINGERPRINT) for item in signature.unhashed):
        return "It holds more outside what is signed than the name of its key."
    if signature.created is None:
        return "It does not say when it was made."
    if signature.issuer is None:
        return "It does not name its key by the full fingerprint."
    tail = signature.issuer[-16:] if signature.version == 4 else signature.issuer[:16]
    return None if signature.key_id in (None, tail) else "It names two keys."
