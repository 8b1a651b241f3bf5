"""The form of an OpenPGP signature in a commit: what each fault is called, and that the sound form passes."""

import base64

import pytest

from gitops_bot.core.errors import Malformed, Reason, Refused
from gitops_bot.signed.openpgp.grammar import (
    MAX_ARMOR,
    MAX_PACKETS,
    Signature,
    read_armor,
    read_detached,
    read_packets,
    read_signature,
)
from tests import signed_keys as keys
from tests.openpgp_commits import NOW, PAYLOAD

ALICE = keys.secrets("alice")[-1]
PACKET = keys.signature_packet(ALICE, PAYLOAD, NOW)
ARMOR = keys.pgp_armor(PACKET)
BEGIN = b"-----BEGIN PGP SIGNATURE-----\n"
CRC = ARMOR.splitlines(keepends=True)[-2]


def detached(armor: bytes) -> Signature | Reason:
    read = read_detached(armor)
    return read.reason if isinstance(read, Refused) else read[0]


def packet(**options: object) -> bytes:
    return keys.signature_packet(ALICE, PAYLOAD, NOW, **options)  # type: ignore[arg-type] # the options of that one


def test_a_sound_armor_gives_its_signature_with_key_time_and_digest() -> None:
    read = detached(ARMOR)
    assert isinstance(read, Signature)
    assert (read.version, read.kind, read.algorithm, read.digest) == (4, 0, 22, 10)
    assert (read.created, read.expires, read.issuer) == (NOW, None, ALICE.fingerprint)
    assert read.key_id == ALICE.fingerprint[-16:]
    assert read_detached(ARMOR) == (read, PACKET)


@pytest.mark.parametrize("name", ["alice", "bob", "carol", "p384", "p521", "brainpool256"])
def test_every_kind_of_key_signs_in_the_sound_form(name: str) -> None:
    assert isinstance(detached(keys.openpgp(name)(PAYLOAD, NOW)), Signature)


def test_what_sequoia_and_gpg_write_is_in_the_sound_form() -> None:
    assert isinstance(detached(keys.sequoia("alice")(PAYLOAD, NOW)), Signature)
    assert isinstance(detached(keys.gpg("bob")(PAYLOAD, NOW)), Signature)


def test_the_checksum_may_be_absent_and_must_not_be_wrong() -> None:
    assert read_armor(ARMOR.replace(CRC, b"")) == PACKET
    assert detached(ARMOR.replace(CRC, b"=AAAA\n")) is Reason.BAD_SIGNATURE


@pytest.mark.parametrize(
    ("armor", "reason"),
    [
        (ARMOR.replace(BEGIN, BEGIN + b"Comment: x\n"), Reason.MALFORMED_COMMIT),
        (ARMOR.replace(BEGIN, BEGIN + b"Version: GnuPG v2\n"), Reason.MALFORMED_COMMIT),
        (ARMOR.replace(BEGIN, BEGIN + b"Charset: utf-8\n"), Reason.MALFORMED_COMMIT),
        (ARMOR.replace(BEGIN + b"\n", BEGIN), Reason.MALFORMED_COMMIT),
        (b"hello\n" + ARMOR, Reason.MALFORMED_COMMIT),
        (b"\n" + ARMOR, Reason.MALFORMED_COMMIT),
        (ARMOR + b"hello\n", Reason.MALFORMED_COMMIT),
        (ARMOR + b"\n", Reason.MALFORMED_COMMIT),
        (ARMOR + b"\0", Reason.MALFORMED_COMMIT),
        (ARMOR + ARMOR, Reason.MULTIPLE_SIGNATURES),
        (ARMOR + keys.openpgp("outsider")(PAYLOAD, NOW), Reason.MULTIPLE_SIGNATURES),
        (keys.openpgp("outsider")(PAYLOAD, NOW) + ARMOR, Reason.MULTIPLE_SIGNATURES),
        (keys.pgp_armor(PACKET + PACKET), Reason.MULTIPLE_SIGNATURES),
        (keys.pgp_armor(PACKET, label="PGP MESSAGE"), Reason.BAD_SIGNATURE),
        (b"-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA512\n\nyes\n" + ARMOR, Reason.BAD_SIGNATURE),
        (b"", Reason.BAD_SIGNATURE),
        (b"yes\n", Reason.BAD_SIGNATURE),
        (BEGIN + b"\n-----END PGP SIGNATURE-----\n", Reason.BAD_SIGNATURE),
        (BEGIN + b"\nAA A=\n-----END PGP SIGNATURE-----\n", Reason.BAD_SIGNATURE),
        (BEGIN + b"\nAAB=\n-----END PGP SIGNATURE-----\n", Reason.BAD_SIGNATURE),
        (ARMOR.removesuffix(b"-----END PGP SIGNATURE-----\n"), Reason.BAD_SIGNATURE),
        (ARMOR.replace(b"\n", b"\r\n"), Reason.BAD_SIGNATURE),
        (keys.pgp_armor(b"\xcb\x06b\0\0\0\0\0" + PACKET), Reason.BAD_SIGNATURE),
        (ARMOR + b"x" * MAX_ARMOR, Reason.TOO_LARGE),
    ],
)
def test_each_other_form_is_blamed_for_what_it_is(armor: bytes, reason: Reason) -> None:
    assert detached(armor) is reason


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"kind": keys.TEXT}, Reason.WRONG_SIGNATURE_CLASS),
        ({"kind": keys.STANDALONE}, Reason.WRONG_SIGNATURE_CLASS),
        ({"digest": "sha1"}, Reason.WEAK_DIGEST),
        ({"digest": "md5"}, Reason.WEAK_DIGEST),
        ({"digest": "sha224"}, Reason.WEAK_DIGEST),
        ({"hashed": keys.notation("a@example.com", "b", critical=True)}, Reason.BAD_SIGNATURE),
        ({"hashed": keys.subpacket(99, b"", critical=True)}, Reason.BAD_SIGNATURE),
        ({"hashed": keys.subpacket(38, b"\0")}, Reason.BAD_SIGNATURE),
        ({"hashed": keys.subpacket(2, b"\0\0\0\1")}, Reason.BAD_SIGNATURE),
        ({"unhashed": keys.subpacket(33, b"\4" + bytes(20))}, Reason.BAD_SIGNATURE),
        ({"unhashed": keys.notation("a@example.com", "b")}, Reason.BAD_SIGNATURE),
        ({"unhashed": keys.subpacket(100, b"junk")}, Reason.BAD_SIGNATURE),
    ],
)
def test_what_the_signature_says_of_itself_is_blamed(options: dict[str, object], reason: Reason) -> None:
    assert detached(keys.pgp_armor(packet(**options))) is reason


def test_a_notation_that_is_not_critical_and_an_expiry_are_let_through() -> None:
    hashed = keys.notation("a@example.com", "b") + keys.subpacket(3, (60).to_bytes(4, "big"), critical=True)
    read = detached(keys.pgp_armor(packet(hashed=hashed)))
    assert isinstance(read, Signature)
    assert read.expires == 60


def test_two_signatures_are_blamed_before_the_class_and_the_digest() -> None:
    both = packet(kind=keys.TEXT, digest="sha1")
    assert detached(keys.pgp_armor(both + PACKET)) is Reason.MULTIPLE_SIGNATURES
    assert detached(keys.pgp_armor(both)) is Reason.WRONG_SIGNATURE_CLASS


def test_a_signature_without_time_or_fingerprint_or_with_two_names_is_bad() -> None:
    body = read_packets(PACKET)[0].body
    issuer, made = keys.subpacket(33, b"\4" + bytes.fromhex(ALICE.fingerprint)), keys.subpacket(2, b"\0\0\0\1")
    numbers = read_signature(body).numbers

    def built(hashed: bytes, unhashed: bytes = b"") -> Signature | Reason:
        areas = b"".join(len(area).to_bytes(2, "big") + area for area in (hashed, unhashed))
        whole = b"\4\0\x16\x0a" + areas + b"\0\0" + numbers
        return detached(keys.pgp_armor(b"\xc2" + bytes([len(whole)]) + whole))

    assert built(issuer) is Reason.BAD_SIGNATURE
    assert built(made) is Reason.BAD_SIGNATURE
    assert built(issuer + made, keys.subpacket(16, bytes(8))) is Reason.BAD_SIGNATURE
    assert isinstance(built(issuer + made), Signature)
    assert isinstance(built(made, issuer), Signature)


@pytest.mark.parametrize(
    "data",
    [
        b"\x00",
        b"\x89\x00",
        b"\x8b" + bytes(10),
        b"\xc2\xe1" + bytes(10),
        b"\xc2\xff\x00\x00",
        b"\xc2\xc0",
        b"\xc2\x05abc",
        b"\xc2\x00" * (MAX_PACKETS + 1),
    ],
)
def test_lengths_that_are_cut_partial_or_indeterminate_do_not_parse(data: bytes) -> None:
    with pytest.raises(Malformed):
        read_packets(data)


@pytest.mark.parametrize("size", [0, 191, 192, 8_383, 8_384, 70_000])
def test_a_packet_of_every_form_of_length_is_read_whole(size: int) -> None:
    body = b"x" * size
    short = bytes([size]) if size < 192 else b""
    middle = bytes([192 + ((size - 192) >> 8), (size - 192) & 0xFF]) if 192 <= size < 8_384 else b""
    forms = [b"\xc2" + form for form in (short, middle, b"\xff" + size.to_bytes(4, "big")) if form]
    forms.append(b"\x8a" + size.to_bytes(4, "big"))
    for head in forms:
        (read,) = read_packets(head + body)
        assert (read.tag, read.body, read.whole) == (2, body, head + body)


def test_junk_behind_the_numbers_of_a_signature_does_not_parse() -> None:
    body = read_packets(PACKET)[0].body
    assert read_signature(body).created == NOW
    for changed in (body + b"\0", body[:-1], body[:20], b"\3" + body[1:], b""):
        with pytest.raises(Malformed):
            read_signature(changed)


def test_a_signature_of_version_6_is_read_with_its_salt() -> None:
    hashed = keys.subpacket(2, NOW.to_bytes(4, "big")) + keys.subpacket(33, b"\6" + bytes(32))
    head = b"\6\0\x1b\x08" + len(hashed).to_bytes(4, "big") + hashed + bytes(4) + b"\0\0"
    read = read_signature(head + b"\x10" + b"s" * 16 + bytes(64))
    assert (read.version, read.salt, read.issuer, read.numbers) == (6, b"s" * 16, "00" * 32, bytes(64))
    with pytest.raises(Malformed):
        read_signature(head + b"\x0f" + b"s" * 15 + bytes(64))


def test_the_checksum_is_that_of_the_rfc() -> None:
    check = base64.b64decode(CRC[1:])
    assert read_armor(ARMOR.replace(CRC, b"=" + base64.b64encode(check) + b"\n")) == PACKET


@pytest.mark.parametrize("size", [1, 2, 3, 7, 12, 24, 45, 82, 133, 220, 388, 745, 1_318, 2_514, 4_612, 8_980, 20_000])
def test_the_checksum_is_the_same_as_computed_bit_by_bit_whatever_is_folded(size: int) -> None:
    data = (bytes(range(256)) * 80)[:size] + b"\x80"
    armor = keys.pgp_armor(data)
    assert read_armor(armor) == data
    assert isinstance(read_armor(armor.replace(b"\n=", b"\n=A")), Refused)
