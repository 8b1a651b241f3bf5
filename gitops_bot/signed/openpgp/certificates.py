"""Bytes of `keys/` become the facts of one certificate: its keys, when each may sign, and what was taken back.

What `read_certificate` gives rests on self-signatures that verified, over SHA-256 or better; signatures of others are
not looked at. A revocation needs less: one that cannot be checked here counts. Of dates that contradict each other the
earlier end counts. How strong a key is, and whose, is for the policy.
"""

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from gitops_bot.core.errors import Malformed
from gitops_bot.policy.model import KeyFacts
from gitops_bot.signed.openpgp.facts import CertificateFacts, KeyDates, Revocation
from gitops_bot.signed.openpgp.grammar import SIGNATURE, STRONG_DIGESTS, Packet, Signature, read_packets, read_signature
from gitops_bot.signed.openpgp.keypackets import PublicKey, read_key
from gitops_bot.signed.openpgp.selfsigs import user_id, verifies

MAX_CERTIFICATE: Final = 1024 * 1024
MAX_KEYS: Final = 64
MAX_SELF_SIGNATURES: Final = 256
"""How many signatures may claim to be the certificate's own: each of them may cost a verification."""
_ARMOR: Final = re.compile(
    rb"\s*-----BEGIN PGP PUBLIC KEY BLOCK-----\r?\n(?:[A-Za-z]{1,20}: [^\r\n]{0,200}\r?\n){0,20}\r?\n"
    rb"((?:[A-Za-z0-9+/]{1,76}={0,2}\r?\n)+)(?:=[A-Za-z0-9+/]{4}\r?\n)?-----END PGP PUBLIC KEY BLOCK-----\s*"
)
_PRIMARY, _SUBKEY, _NAMES, _SECRET = 6, 14, (13, 17), (5, 7)
_CERTIFIES: Final = frozenset({0x10, 0x11, 0x12, 0x13})
_DIRECT, _BINDING, _BACK, _REVOKES_KEY, _REVOKES_SUBKEY, _REVOKES_NAME = 0x1F, 0x18, 0x19, 0x20, 0x28, 0x30
_EXPIRES, _KEY_EXPIRES, _REVOKER, _FLAGS, _REASON, _EMBEDDED = 3, 9, 12, 27, 29, 32
_UNDERSTOOD: Final = frozenset({2, 3, 4, 7, 9, 11, 12, 16, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 32, 33, 34, 39})
_SOFT: Final = frozenset({1, 3})
_SIGNS: Final = 0x02


@dataclass(slots=True)
class _Part:
    """A key or name of the certificate with the signatures that stand behind it."""

    hashed: bytes
    key: PublicKey | None = None
    signatures: list[Signature] = field(default_factory=list)


def read_certificate(content: bytes, *, where: str) -> CertificateFacts:
    """Read one certificate, binary or armored, of at most 1 MiB; `where` names it in errors.

    Raises:
        Malformed: it does not parse, is over 1 MiB, holds secret keys, other packets or a second certificate, is not of
            version 4, or no strong self-signature binds a name to a primary key of an algorithm that can count.
    """
    if len(content) > MAX_CERTIFICATE:
        raise Malformed(f"a certificate has at most {MAX_CERTIFICATE} bytes", where=where)
    data = content if content[:1] >= b"\x80" else _unarmored(content, where)
    packets = read_packets(data, where=where)
    parts = _parts(packets, where)
    primary = parts[0].key
    assert primary is not None, "_parts begins with the primary key"
    others = [part for part in parts[1:] if part.key is not None]
    keys = (primary, *(part.key for part in others if part.key is not None))
    dates = [_primary_dates(primary, parts)]
    # An algorithm that is not computed here is the policy's to call weak; it is bound to nobody.
    if not dates[0].bound and primary.numbers:
        raise Malformed("no self-signature over SHA-256 or better binds a name to its primary key", where=where)
    dates += [_subkey_dates(primary, part) for part in others]
    return CertificateFacts(
        facts=KeyFacts(primary.fingerprint, tuple(key.key for key in keys)),
        keys=tuple(dates),
        revocations=tuple(_revocations(primary, parts[0], others)),
        content=data,
        packets=frozenset(_name(packet) for packet in packets),
    )


def _unarmored(content: bytes, where: str) -> bytes:
    found = _ARMOR.fullmatch(content)
    if found is None:
        raise Malformed("no OpenPGP certificate, or text or a second block beside it", where=where)
    try:
        return base64.b64decode(b"".join(found[1].split()), validate=True)
    except binascii.Error:
        raise Malformed("the armor's base64 does not decode", where=where) from None


def _name(packet: Packet) -> bytes:
    """Name a packet by what cannot be changed without its key; header form and unhashed area are left out."""
    body = packet.body
    if packet.tag == SIGNATURE:
        try:
            signature = read_signature(body)
            body = signature.trailer + signature.numbers
        except Malformed:
            body = packet.body
    return hashlib.sha256(bytes((packet.tag,)) + body).digest()


def _parts(packets: Iterable[Packet], where: str) -> list[_Part]:
    parts: list[_Part] = []
    for packet in packets:
        if packet.tag in _SECRET:
            raise Malformed("it holds secret keys; export the public certificate", where=where)
        if not parts and packet.tag != _PRIMARY:
            raise Malformed("a certificate begins with a public key", where=where)
        if packet.tag == _PRIMARY and parts:
            raise Malformed("two certificates in one file", where=where)
        if packet.tag in (_PRIMARY, _SUBKEY):
            if sum(part.key is not None for part in parts) == MAX_KEYS:
                raise Malformed(f"more than {MAX_KEYS} keys", where=where)
            key = read_key(packet.body, where=where)
            parts.append(_Part(key.hashed, key))
        elif packet.tag in _NAMES:
            parts.append(_Part(user_id(packet.tag, packet.body)))
        elif packet.tag == SIGNATURE:
            signature = _lenient(packet.body)
            if signature is not None:
                parts[-1].signatures.append(signature)
        else:
            raise Malformed(f"a packet that has no place in a certificate (tag {packet.tag})", where=where)
    if not parts or parts[0].key is None:
        raise Malformed("no OpenPGP packets", where=where)
    if sum(_own(parts[0].key, item) for part in parts for item in part.signatures) > MAX_SELF_SIGNATURES:
        raise Malformed(f"more than {MAX_SELF_SIGNATURES} self-signatures", where=where)
    return parts


def _lenient(body: bytes) -> Signature | None:
    """Read a signature, or None for one that no engine here can use: it stands for nothing."""
    try:
        return read_signature(body)
    except Malformed:
        return None


def _own(primary: PublicKey, signature: Signature) -> bool:
    named = signature.issuer or signature.key_id
    return named is None or primary.fingerprint.endswith(named)


def _stands(primary: PublicKey, signature: Signature, hashed: bytes) -> bool:
    """Tell whether a self-signature verifies, is over a strong digest, and holds nothing critical and unknown."""
    if signature.digest not in STRONG_DIGESTS or signature.created is None or not _own(primary, signature):
        return False
    if any(item.critical and item.kind not in _UNDERSTOOD for item in signature.hashed):
        return False
    return verifies(primary, signature, hashed) is True


def _newest_first(signatures: Iterable[Signature]) -> list[Signature]:
    return sorted(signatures, key=lambda signature: signature.created or 0, reverse=True)


def _seconds(signature: Signature, kind: int) -> int:
    """Give a length of time in seconds; 0 where it is absent, which means never as well."""
    body = signature.first(kind)
    return int.from_bytes(body, "big") if body is not None and len(body) == 4 else 0


def _end(key: PublicKey, signature: Signature) -> int | None:
    """Give when a key or the signature that binds it ends, whichever is first, in ms."""
    of_key, of_binding = _seconds(signature, _KEY_EXPIRES), _seconds(signature, _EXPIRES)
    ends = [key.made_at + of_key * 1_000] if of_key else []
    if of_binding and signature.created is not None:
        ends.append((signature.created + of_binding) * 1_000)
    return min(ends, default=None)


def _flags(signature: Signature) -> int | None:
    body = signature.first(_FLAGS)
    return None if body is None else body[0] if body else 0


def _dates(key: PublicKey, binding: list[Signature], *, back: bool = True) -> KeyDates:
    """Conclude from the self-signatures that say something now; `binding` holds every one, for the earliest."""
    since = max(key.made_at, min((item.created or 0) * 1_000 for item in binding))
    newest = [_newest_first(group)[0] for group in _by_kind(binding)]
    ends = [end for end in (_end(key, item) for item in newest) if end is not None]
    flags = [value for value in (_flags(item) for item in newest) if value is not None]
    signs = back and bool(flags) and all(value & _SIGNS for value in flags)
    return KeyDates(key.fingerprint, since, min(ends, default=None), signs, bound=True)


def _by_kind(binding: list[Signature]) -> Iterator[list[Signature]]:
    direct = [item for item in binding if item.kind == _DIRECT]
    others = [item for item in binding if item.kind != _DIRECT]
    yield from (group for group in (direct, others) if group)


def _primary_dates(primary: PublicKey, parts: list[_Part]) -> KeyDates:
    names = [item for part in parts[1:] if part.key is None for item in _of_name(primary, part)]
    # gpg keeps no certificate without a name, so none could count.
    if not names:
        return KeyDates(primary.fingerprint, primary.made_at, None, signs=False, bound=False)
    direct = [item for item in parts[0].signatures if item.kind == _DIRECT and _stands(primary, item, primary.hashed)]
    return _dates(primary, [*direct, *names])


def _of_name(primary: PublicKey, part: _Part) -> list[Signature]:
    hashed = primary.hashed + part.hashed
    mine = [item for item in part.signatures if _own(primary, item)]
    taken = [item.created or 0 for item in mine if item.kind == _REVOKES_NAME and _stands(primary, item, hashed)]
    found = [item for item in mine if item.kind in _CERTIFIES and _stands(primary, item, hashed)]
    return [item for item in found if (item.created or 0) > max(taken, default=-1)]


def _subkey_dates(primary: PublicKey, part: _Part) -> KeyDates:
    key = part.key
    assert key is not None, "only keys have dates"
    hashed = primary.hashed + key.hashed
    binding = [item for item in part.signatures if item.kind == _BINDING and _stands(primary, item, hashed)]
    if not binding:
        return KeyDates(key.fingerprint, key.made_at, None, signs=False, bound=False)
    return _dates(key, binding, back=_signs_back(key, _newest_first(binding)[0], hashed))


def _signs_back(key: PublicKey, binding: Signature, hashed: bytes) -> bool:
    """Tell whether a signing subkey signed for its primary too, so that nobody binds another's key (§5.2.1, 0x19)."""
    for item in (*binding.hashed, *binding.unhashed):
        back = _lenient(item.body) if item.kind == _EMBEDDED else None
        if back is not None and back.kind == _BACK and back.digest in STRONG_DIGESTS:
            return verifies(key, back, hashed) is True
    return False


def _revocations(primary: PublicKey, first: _Part, others: list[_Part]) -> Iterator[Revocation]:
    revokers = {
        item.body[2:].hex().upper()
        for signature in first.signatures
        if signature.kind == _DIRECT and _stands(primary, signature, primary.hashed)
        for item in signature.hashed
        if item.kind == _REVOKER
    }
    for part, kind in ((first, _REVOKES_KEY), *((other, _REVOKES_SUBKEY) for other in others)):
        assert part.key is not None, "only keys are revoked"
        hashed = primary.hashed if part is first else primary.hashed + part.key.hashed
        for signature in part.signatures:
            if signature.kind == kind and _revokes(primary, signature, hashed, revokers):
                yield _revocation(part.key, signature)


def _revokes(primary: PublicKey, signature: Signature, hashed: bytes, revokers: set[str]) -> bool:
    if not _own(primary, signature):
        # A designated revoker's key is not here: its word is taken unread.
        return signature.issuer in revokers
    return verifies(primary, signature, hashed) is not False


def _revocation(key: PublicKey, signature: Signature) -> Revocation:
    body = signature.first(_REASON)
    reason = body[0] if body else None
    at = (signature.created or 0) * 1_000
    return Revocation(key.fingerprint, reason not in _SOFT, at, reason)
