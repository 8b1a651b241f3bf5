"""What is done to OpenPGP signatures: packets, subpackets, numbers, digests, classes, and whose key it is."""

from dataclasses import replace
from random import Random
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric import ec

from tests.interop.damages import COMMON, blob_drawn
from tests.interop.damages import HARMLESS as COMMON_HARMLESS
from tests.interop.drafts import Damage, Draft, Edit, flipped
from tests.signed_keys import EDDSA, STANDALONE, TEXT, fingerprint, gpg, mpi, notation, subpacket
from tests.signed_stage import NOW

ORDERS: Final = {
    "carol": ec.SECP256R1.group_order,
    "p384": ec.SECP384R1.group_order,
    "p521": ec.SECP521R1.group_order,
}
ED25519_ORDER: Final = 2**252 + 27742317777372353535851937790883648493


def option(**changes: Any) -> Damage:
    """Have the signature made otherwise."""
    return lambda draft, _rng: draft.option(**changes)


def on_packet(edit: Edit) -> Damage:
    """Edit the packet after it was made."""
    return lambda draft, _rng: replace(draft, blob=edit)


def signed_by(key: str, which: int = -1, ring: str = "sound") -> Damage:
    """Have another key sign, judged by another set of keys."""
    return lambda draft, _rng: replace(draft, key=key, which=which, ring=ring)


def dated(seconds: int) -> Damage:
    """Date the signature otherwise than the commit."""
    return lambda draft, _rng: replace(draft, dated=seconds)


def _backdated(draft: Draft, _rng: Random) -> Draft:
    return replace(draft, key="alice", which=-1, ring="alice.expired", dated=1_600_000_000 - NOW)


def _digest(draft: Draft, rng: Random) -> Draft:
    """Take any digest that is strong and as long as the key's curve."""
    fit = {"p384": ("sha384", "sha512"), "p521": ("sha512",)}.get(draft.key, ("sha256", "sha384", "sha512"))
    return draft.option(digest=rng.choice(fit))


def _short_digest(draft: Draft, rng: Random) -> Draft:
    """Take a strong digest that is shorter than the key's curve."""
    return replace(draft, key=rng.choice(("p384", "p521"))).option(digest="sha256")


def _program(draft: Draft, _rng: Random) -> Draft:
    """Have gpg itself sign."""
    return draft.commit(signer=gpg(draft.key))


def _body(packet: bytes) -> bytes:
    return packet[3:]


def _new_format(packet: bytes) -> bytes:
    body = _body(packet)
    size = len(body)
    length = bytes([size]) if size < 192 else bytes([((size - 192) >> 8) + 192, (size - 192) & 0xFF])
    return b"\xc2" + length + body


def _old(body: bytes) -> bytes:
    return b"\x89" + len(body).to_bytes(2, "big") + body


def _partial(packet: bytes) -> bytes:
    body = _body(packet)
    return b"\xc2\xe5" + body[:32] + bytes([len(body) - 32]) + body[32:] if len(body) < 192 else packet[:-1]


def _parts(packet: bytes) -> tuple[bytes, bytes, bytes]:
    """Give the hashed part, the other area's subpackets, and what stands behind."""
    body = _body(packet)
    hashed = 6 + int.from_bytes(body[4:6], "big")
    beside = int.from_bytes(body[hashed : hashed + 2], "big")
    return body[:hashed], body[hashed + 2 : hashed + 2 + beside], body[hashed + 2 + beside :]


def _unhashed(change: Edit) -> Edit:
    def edit(packet: bytes) -> bytes:
        hashed, beside, rest = _parts(packet)
        now = change(beside)
        return _old(hashed + len(now).to_bytes(2, "big") + now + rest)

    return edit


def _left(packet: bytes) -> bytes:
    hashed, beside, rest = _parts(packet)
    return _old(hashed + len(beside).to_bytes(2, "big") + beside + bytes([rest[0] ^ 1]) + rest[1:])


def _flip_numbers(packet: bytes, rng: Random) -> bytes:
    return flipped(packet, rng, len(packet) - len(_parts(packet)[2]) + 2)


def _flip_hashed(packet: bytes, rng: Random) -> bytes:
    return flipped(packet, rng, 3, 3 + len(_parts(packet)[0]))


def _flip_unhashed(packet: bytes, rng: Random) -> bytes:
    hashed, beside, _ = _parts(packet)
    return flipped(packet, rng, 5 + len(hashed), 5 + len(hashed) + len(beside))


def _numbers(packet: bytes) -> list[int]:
    rest, found = _parts(packet)[2][2:], []
    while rest:
        size = (int.from_bytes(rest[:2], "big") + 7) // 8
        found.append(int.from_bytes(rest[2 : 2 + size], "big"))
        rest = rest[2 + size :]
    return found


def _renumbered(packet: bytes, numbers: bytes) -> bytes:
    hashed, beside, rest = _parts(packet)
    return _old(hashed + len(beside).to_bytes(2, "big") + beside + rest[:2] + numbers)


def _padded(packet: bytes) -> bytes:
    """Write the last number with a zero octet before it."""
    *first, last = _numbers(packet)
    wide = mpi(last)
    size = int.from_bytes(wide[:2], "big")
    padded = (8 * (len(wide) - 2) + 8).to_bytes(2, "big") + b"\0" + wide[2:]
    assert size <= 8 * (len(wide) - 2)
    return _renumbered(packet, b"".join(map(mpi, first)) + padded)


def _miscounted(packet: bytes) -> bytes:
    """Say of the last number that it has all bits of its octets."""
    *first, last = _numbers(packet)
    wide = mpi(last)
    return _renumbered(packet, b"".join(map(mpi, first)) + (8 * (len(wide) - 2)).to_bytes(2, "big") + wide[2:])


def _other_half(draft: Draft, _rng: Random) -> Draft:
    """Give the other signature that anybody can make of an ECDSA one, and of Ed25519 one that is too large."""

    def edit(packet: bytes) -> bytes:
        numbers = _numbers(packet)
        if draft.key in ORDERS:
            numbers[1] = ORDERS[draft.key] - numbers[1]
        elif packet[5] == EDDSA:
            # s stands in the order of the bytes of the signature: the small end first.
            small = int.from_bytes(numbers[1].to_bytes(32, "big"), "little") + ED25519_ORDER
            numbers[1] = int.from_bytes(small.to_bytes(32, "little"), "big")
        else:
            numbers[0] += 2
        return _renumbered(packet, b"".join(map(mpi, numbers)))

    return replace(draft, blob=edit)


DAMAGES: Final[dict[str, Damage]] = {
    **COMMON,
    "digest": _digest,
    "made by gpg": _program,
    "packet of the new format": on_packet(_new_format),
    "length of five octets": on_packet(lambda p: b"\xc2\xff" + len(_body(p)).to_bytes(4, "big") + _body(p)),
    "length of four octets": on_packet(lambda p: b"\x8a" + len(_body(p)).to_bytes(4, "big") + _body(p)),
    "partial length": on_packet(_partial),
    "length that ends with the data": on_packet(lambda p: b"\x8b" + _body(p)),
    "marker packet before": on_packet(lambda p: b"\xca\x03PGP" + p),
    "packet after": on_packet(lambda p: p + b"\xcd\x01x"),
    "signature twice": on_packet(lambda p: p * 2),
    "octets after": on_packet(lambda p: p + b"\0\0"),
    "octet inside the packet": on_packet(lambda p: _old(_body(p) + b"\0")),
    "version 3": on_packet(lambda p: p[:3] + b"\x03" + p[4:]),
    "digest shorter than the curve": _short_digest,
    "digest SHA-1": option(digest="sha1"),
    "digest SHA-224": option(digest="sha224"),
    "digest MD5": option(digest="md5"),
    "class text": option(kind=TEXT),
    "class standalone": option(kind=STANDALONE),
    "class of a name": option(kind=0x10),
    "class said to be text": on_packet(lambda p: p[:4] + b"\x01" + p[5:]),
    "notation": option(hashed=notation("a@example.com", "x")),
    "critical notation": option(hashed=notation("a@example.com", "x", critical=True)),
    "signer's name": option(hashed=subpacket(28, b"alice@example.com")),
    "policy address": option(hashed=subpacket(26, b"https://example.com")),
    "critical unknown": option(hashed=subpacket(99, b"x", critical=True)),
    "unknown subpacket": option(hashed=subpacket(99, b"x")),
    "signature that expired": option(hashed=subpacket(3, (60).to_bytes(4, "big"))),
    "signature that will expire": option(hashed=subpacket(3, (2**31).to_bytes(4, "big"))),
    "made twice": option(hashed=subpacket(2, NOW.to_bytes(4, "big"))),
    "key inside": option(hashed=subpacket(38, b"\0")),
    "another issuer": option(issuer=fingerprint("outsider")),
    "notation unhashed": on_packet(_unhashed(lambda area: area + notation("a@example.com", "x"))),
    "date unhashed": on_packet(_unhashed(lambda area: area + subpacket(2, NOW.to_bytes(4, "big")))),
    "junk unhashed": on_packet(_unhashed(lambda area: area + subpacket(99, b"junk"))),
    "key id twice": on_packet(_unhashed(lambda area: area * 2)),
    "another key id": on_packet(_unhashed(lambda _: subpacket(16, bytes(8)))),
    "no key id": on_packet(_unhashed(lambda _: b"")),
    "empty subpacket": on_packet(_unhashed(lambda area: area + b"\0")),
    "first octets of the digest": on_packet(_left),
    "number with a zero before": on_packet(_padded),
    "number of another count": on_packet(_miscounted),
    "other half": _other_half,
    "bit of the numbers": blob_drawn(_flip_numbers),
    "bit of what is hashed": blob_drawn(_flip_hashed),
    "bit of what is not": blob_drawn(_flip_unhashed),
    "signature dated early": dated(-7_200),
    "signature dated later": dated(7_200),
    "unknown key": signed_by("outsider"),
    "primary key instead": signed_by("alice", 0),
    "weak RSA": signed_by("weak-rsa2048"),
    "short RSA": signed_by("weak-rsa1024"),
    "DSA": signed_by("weak-dsa2048"),
    "Brainpool curve": signed_by("brainpool256"),
    "key bound by SHA-1": signed_by("sha1-bound"),
    "expired key": signed_by("alice", ring="alice.expired"),
    "expired key, backdated": _backdated,
    "expired subkey": signed_by("alice", ring="alice.subkey-expired"),
    "key revoked hard": signed_by("alice", ring="alice.revoked-hard"),
    "key revoked without a reason": signed_by("alice", ring="alice.revoked-unexplained"),
    "key retired": signed_by("alice", ring="alice.revoked-retired"),
    "key retired later": signed_by("alice", ring="alice.revoked-retired-later"),
    "subkey revoked hard": signed_by("alice", ring="alice.subkey-revoked-hard"),
    "subkey retired": signed_by("alice", ring="alice.subkey-revoked-retired"),
    "unbound subkey": signed_by("alice.second-subkey", ring="alice.unbound-subkey"),
    "second subkey": signed_by("alice.second-subkey", ring="alice.second-subkey"),
    "key that ends one day": signed_by("alice", ring="alice.expires"),
}
HARMLESS: Final = frozenset(
    {*COMMON_HARMLESS, "digest", "made by gpg", "second subkey", "key that ends one day", "packet of the new format"}
)
"""What must count: the accepting twins."""
VARIANTS: Final = (
    "alice.expired",
    "alice.subkey-expired",
    "alice.revoked-hard",
    "alice.revoked-unexplained",
    "alice.revoked-retired",
    "alice.revoked-retired-later",
    "alice.subkey-revoked-hard",
    "alice.subkey-revoked-retired",
    "alice.unbound-subkey",
    "alice.second-subkey",
    "alice.expires",
)
"""Each is a set of keys of its own: they are the same keys."""
SOUND: Final = ("alice", "bot", "bob", "carol", "p384", "p521")
WEAK: Final = ("weak-rsa2048", "weak-rsa1024", "weak-dsa2048", "brainpool256", "sha1-bound")
"""What the programs are told to take beside; no policy with it would load."""
RINGS: Final = {"sound": SOUND, **{name: (name,) for name in VARIANTS}}
