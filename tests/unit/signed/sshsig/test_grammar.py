"""The one spelling of an SSH signature is read; every other is blamed by its code."""

import base64
import hashlib
from collections.abc import Callable
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from gitops_bot.core.errors import Reason, Refused
from gitops_bot.signed.sshsig import grammar
from gitops_bot.signed.sshsig.grammar import (
    CurvePoint,
    EdPoint,
    Envelope,
    Pair,
    PublicKey,
    RsaNumbers,
    Scheme,
    Signature,
    Touch,
)
from tests.signed_keys import field, ssh_armor, ssh_line, ssh_mpint
from tests.sshsig_stage import EVERY, PAYLOAD, SECURITY, Blob, blob_of, having, making, signed, strings

ARMOR = signed().armor
BEGIN, END = b"-----BEGIN SSH SIGNATURE-----", b"-----END SSH SIGNATURE-----"
LONG = signed("bob").armor


def reason(answer: object) -> Reason | None:
    return answer.reason if isinstance(answer, Refused) else None


@pytest.mark.parametrize("armor", [ARMOR, ARMOR.removesuffix(b"\n"), LONG])
def test_the_armor_of_ssh_keygen_is_read_with_and_without_its_last_line_end(armor: bytes) -> None:
    blob = grammar.read_armor(armor)
    assert isinstance(blob, bytes)
    assert grammar.write_armor(blob) == armor.removesuffix(b"\n") + b"\n"


LINES = ARMOR.splitlines()


@pytest.mark.parametrize(
    ("armor", "blamed"),
    [
        (ARMOR + ARMOR, Reason.MULTIPLE_SIGNATURES),
        (ARMOR + b"-----BEGIN PGP SIGNATURE-----\n", Reason.MULTIPLE_SIGNATURES),
        (b"junk\n" + ARMOR, Reason.MALFORMED_COMMIT),
        (ARMOR + b"junk", Reason.MALFORMED_COMMIT),
        (ARMOR + b"\n", Reason.MALFORMED_COMMIT),
        (ARMOR + END + b"\n", Reason.MALFORMED_COMMIT),
        (b" " + ARMOR, Reason.MALFORMED_COMMIT),
        (ARMOR.replace(b"\n", b"\r\n"), Reason.MALFORMED_COMMIT),
        (ARMOR.replace(BEGIN, BEGIN + b"\nComment: hi\n"), Reason.MALFORMED_COMMIT),
        (ARMOR.replace(BEGIN, BEGIN + b"\n"), Reason.MALFORMED_COMMIT),
        (ARMOR.replace(BEGIN, BEGIN + b" "), Reason.MALFORMED_COMMIT),
        (b"\n".join((LINES[0], LINES[1] + LINES[2], *LINES[3:])), Reason.MALFORMED_COMMIT),
        (b"\n".join((LINES[0], LINES[1][:64], LINES[1][64:], *LINES[2:])), Reason.MALFORMED_COMMIT),
        (b"", Reason.BAD_SIGNATURE),
        (b"hello", Reason.BAD_SIGNATURE),
        (b"-----BEGIN PGP SIGNATURE-----\n\n-----END PGP SIGNATURE-----", Reason.BAD_SIGNATURE),
        (BEGIN + b"\n" + END, Reason.BAD_SIGNATURE),
        (BEGIN + b"\n", Reason.BAD_SIGNATURE),
        (ARMOR.replace(LINES[2], b"*" + LINES[2][1:]), Reason.BAD_SIGNATURE),
        (ARMOR.replace(END, b"A" + END), Reason.BAD_SIGNATURE),
        (BEGIN + b"\n" + b"A" * grammar.MAX_ARMOR + b"\n" + END, Reason.BAD_SIGNATURE),
    ],
)
def test_no_other_spelling_of_the_armor_is_read(armor: bytes, blamed: Reason) -> None:
    assert reason(grammar.read_armor(armor)) is blamed


def test_bits_that_base64_throws_away_are_no_second_spelling() -> None:
    """`QQ==` and `QR==` decode alike; only the first is what an encoder writes."""
    assert grammar.read_armor(BEGIN + b"\nQQ==\n" + END) == b"A"
    assert reason(grammar.read_armor(BEGIN + b"\nQR==\n" + END)) is Reason.MALFORMED_COMMIT


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("digest", ["sha256", "sha512"])
def test_the_blob_of_every_kind_of_key_is_read(name: str, digest: str) -> None:
    blob = blob_of(name, digest=digest)
    assert grammar.read_envelope(blob.raw) == Envelope(blob.key, digest, blob.made)


@pytest.mark.parametrize(
    ("change", "blamed"),
    [
        (having(magic=b"SSHSIH"), Reason.BAD_SIGNATURE),
        (having(version=bytes(4)), Reason.BAD_SIGNATURE),
        (having(version=b"\0\0\0\2"), Reason.BAD_SIGNATURE),
        (having(after=b"\0"), Reason.BAD_SIGNATURE),
        (having(reserved=b"x"), Reason.BAD_SIGNATURE),
        (having(namespace=b"file"), Reason.WRONG_NAMESPACE),
        (having(namespace=b""), Reason.WRONG_NAMESPACE),
        (having(namespace=b"git\0"), Reason.WRONG_NAMESPACE),
        (having(hash_name=b"sha1"), Reason.WEAK_DIGEST),
        (having(hash_name=b"sha384"), Reason.WEAK_DIGEST),
        (having(hash_name=b"SHA512"), Reason.WEAK_DIGEST),
        (having(hash_name=b""), Reason.WEAK_DIGEST),
    ],
)
def test_a_blob_that_says_anything_else_is_blamed(change: Callable[[Blob], Blob], blamed: Reason) -> None:
    assert reason(grammar.read_envelope(blob_of().raw)) is None
    assert reason(grammar.read_envelope(change(blob_of()).raw)) is blamed


def test_every_cut_of_a_blob_is_refused() -> None:
    raw = blob_of("alice-sk").raw
    for size in range(len(raw)):
        assert reason(grammar.read_envelope(raw[:size])) is Reason.BAD_SIGNATURE


def test_a_length_beyond_the_blob_is_cut_short() -> None:
    raw = blob_of().raw
    assert reason(grammar.read_envelope(raw[:10] + b"\xff\xff\xff\xff" + raw[14:])) is Reason.BAD_SIGNATURE


def key_of(name: str) -> PublicKey:
    key = grammar.read_key(base64.b64decode(ssh_line(name).split()[1]))
    assert isinstance(key, PublicKey)
    return key


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("alice", EdPoint),
        ("bob", RsaNumbers),
        ("carol", CurvePoint),
        ("carol-384", CurvePoint),
        ("carol-521", CurvePoint),
        ("alice-sk", EdPoint),
        ("alice-sk-ecdsa", CurvePoint),
    ],
)
def test_every_kind_of_key_is_read(name: str, kind: type[object]) -> None:
    key = key_of(name)
    assert isinstance(key.value, kind)
    assert key.application == (b"ssh:" if name in SECURITY else None)


def rsa_key(e: bytes, n: bytes) -> bytes:
    return field(b"ssh-rsa") + e + n


ODD = 2**3071 + 1
SK = b"sk-ssh-ed25519@openssh.com"


@pytest.mark.parametrize(
    "blob",
    [
        b"",
        field(b"ssh-ed25519"),
        field(b"ssh-ed25519") + field(bytes(31)),
        field(b"ssh-ed25519") + field(b"\5" * 32) + b"\0",
        field(b"ssh-ed25519-cert-v01@openssh.com") + field(b"\5" * 32),
        field(b"ssh-dss") + field(b"\5" * 32),
        field(b"\xff") + field(b"\5" * 32),
        rsa_key(ssh_mpint(65_537), ssh_mpint(2**3070 + 1)),
        rsa_key(ssh_mpint(1), ssh_mpint(ODD)),
        rsa_key(ssh_mpint(4), ssh_mpint(ODD)),
        rsa_key(ssh_mpint(2**64 + 1), ssh_mpint(ODD)),
        rsa_key(ssh_mpint(3), ssh_mpint(ODD + 1)),
        rsa_key(field(b"\0\3"), ssh_mpint(ODD)),
        rsa_key(ssh_mpint(3), field(ODD.to_bytes(384, "big"))),
        rsa_key(ssh_mpint(3), ssh_mpint(2**16_384 + 1)),
        rsa_key(ssh_mpint(3), ssh_mpint(ODD)) + b"\0",
        field(b"ecdsa-sha2-nistp256") + field(b"nistp384") + field(b"\4" + bytes(64)),
        field(b"ecdsa-sha2-nistp256") + field(b"nistp256") + field(b"\2" + bytes(32)),
        field(b"ecdsa-sha2-nistp256") + field(b"nistp256"),
        field(SK) + field(b"\5" * 32) + field(b"web:x"),
        field(SK) + field(b"\5" * 32),
        field(SK) + field(b"\5" * 32) + field(b"ssh:") + b"\0",
    ],
)
def test_a_key_of_a_policy_that_could_sign_for_others_or_is_none_is_weak(blob: bytes) -> None:
    assert reason(grammar.read_key(blob)) is Reason.WEAK_KEY


@pytest.mark.parametrize(
    "blob",
    [
        field(b"ssh-ed25519") + field(b"\5" * 32),
        rsa_key(ssh_mpint(65_537), ssh_mpint(ODD)),
        rsa_key(ssh_mpint(3), ssh_mpint(2**16_383 + 1)),
        field(SK) + field(b"\5" * 32) + field(b"ssh:work"),
    ],
)
def test_the_sound_twins_of_those_keys_are_read(blob: bytes) -> None:
    assert isinstance(grammar.read_key(blob), PublicKey)


P = 2**255 - 19


def test_no_ed25519_key_of_small_order_is_read() -> None:
    """Adding each point to itself, by the curve's own law, shows which points have an order that divides eight."""
    d = -121_665 * pow(121_666, -1, P) % P
    assert len(grammar._ED25519_SMALL) == 5
    for y in grammar._ED25519_SMALL:
        square = (y * y - 1) * pow(d * y * y + 1, -1, P) % P
        x = next(x for x in candidates(square) if x * x % P == square)
        point = (x, y)
        for _ in range(3):
            (x1, y1), k = point, d * point[0] ** 2 * point[1] ** 2
            point = (2 * x1 * y1 * pow(1 + k, -1, P) % P, (y1 * y1 + x1 * x1) * pow(1 - k, -1, P) % P)
        assert point == (0, 1)
        for sign in (0, 2**255):
            for spelled in (y, y + P):
                if spelled < 2**255:
                    raw = (spelled | sign).to_bytes(32, "little")
                    assert reason(grammar.read_key(field(b"ssh-ed25519") + field(raw))) is Reason.WEAK_KEY


def candidates(square: int) -> tuple[int, int]:
    root = pow(square, (P + 3) // 8, P)
    return root, root * pow(2, (P - 1) // 4, P) % P


def test_the_orders_are_those_of_the_curves() -> None:
    for name, curve in (("nistp256", ec.SECP256R1()), ("nistp384", ec.SECP384R1()), ("nistp521", ec.SECP521R1())):
        assert grammar._ORDERS[name] == curve.group_order


@pytest.mark.parametrize("name", EVERY)
def test_the_signature_of_every_kind_of_key_is_read(name: str) -> None:
    got = grammar.read_signature(blob_of(name, flags=5, counter=258).made, key_of(name))
    assert isinstance(got, Signature)
    assert got.touch == (Touch(5, 258) if name in SECURITY else None)
    assert isinstance(got.value, Pair) == (name not in ("alice", "alice-sk", "bob"))


def test_rsa_says_which_of_its_two_digests_it_is_over() -> None:
    made = blob_of("bob", algorithm="rsa-sha2-256").made
    got = grammar.read_signature(made, key_of("bob"))
    assert isinstance(got, Signature) and got.scheme is Scheme.RSA_256


def test_rsa_over_sha1_is_weak() -> None:
    made = blob_of("bob", algorithm="ssh-rsa").made
    assert reason(grammar.read_signature(made, key_of("bob"))) is Reason.WEAK_DIGEST


def pair(r: bytes, s: bytes) -> Callable[[Blob], Blob]:
    return making(lambda name, value, rest: field(name) + field(r + s) + rest)


N = ec.SECP256R1().group_order
ONE = ssh_mpint(1)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        *((name, making(lambda name, value, rest: field(name) + field(value) + rest + b"\0")) for name in EVERY),
        *((name, making(lambda name, value, rest: field(name) + field(value + b"\0") + rest)) for name in EVERY),
        *((name, making(lambda name, value, rest: field(name) + field(value[:-1]) + rest)) for name in EVERY),
        *((name, making(lambda name, value, rest: field(name) + field(b"") + rest)) for name in EVERY),
        *((name, making(lambda name, value, rest: field(b"ssh-dss") + field(value) + rest)) for name in EVERY),
        *((name, making(lambda name, value, rest: field(name))) for name in EVERY),
        *((name, making(lambda name, value, rest: field(name) + field(value))) for name in SECURITY),
        *((name, making(lambda name, value, rest: field(name) + field(value) + rest[:4])) for name in SECURITY),
        ("alice", making(lambda name, value, rest: field(b"rsa-sha2-512") + field(value))),
        ("alice-sk-ecdsa", making(lambda name, value, rest: field(b"webauthn-" + name) + field(value) + rest)),
        ("carol", pair(ssh_mpint(0), ONE)),
        ("carol", pair(field(b""), ONE)),
        ("carol", pair(ONE, ssh_mpint(N))),
        ("carol", pair(ssh_mpint(N), ONE)),
        ("carol", pair(field(b"\x80"), ONE)),
        ("carol", pair(field(b"\0\1"), ONE)),
        ("carol", pair(ONE, field(b"\1" * 200))),
    ],
)
def test_a_signature_in_any_other_form_is_bad(name: str, change: Callable[[Blob], Blob]) -> None:
    assert reason(grammar.read_signature(change(blob_of(name)).made, key_of(name))) is Reason.BAD_SIGNATURE


@pytest.mark.parametrize("numbers", [(1, 1), (N - 1, N - 1), (128, 255)])
def test_an_ecdsa_signature_may_hold_any_numbers_of_its_curve(numbers: tuple[int, int]) -> None:
    made = pair(ssh_mpint(numbers[0]), ssh_mpint(numbers[1]))(blob_of("carol")).made
    got = grammar.read_signature(made, key_of("carol"))
    assert isinstance(got, Signature) and got.value == Pair(*numbers)


def test_what_is_signed_is_what_the_protocols_say() -> None:
    """PROTOCOL.sshsig and PROTOCOL.u2f, spelled out by hand."""
    digest = hashlib.sha256(PAYLOAD).digest()
    plain = b"SSHSIG\0\0\0\3git\0\0\0\0\0\0\0\6sha256\0\0\0\x20" + digest
    assert grammar.signed_bytes("sha256", PAYLOAD) == plain
    touched = hashlib.sha256(b"ssh:").digest() + b"\5\0\0\1\2" + hashlib.sha256(plain).digest()
    assert grammar.touched_bytes(b"ssh:", Touch(5, 258), plain) == touched


def test_the_stage_takes_blobs_apart_without_loss() -> None:
    """What is edited elsewhere in these tests is honest before the edit."""
    blob = blob_of("alice-sk")
    assert ssh_armor(blob.raw) == signed("alice-sk").armor
    assert replace(blob, after=b"") == blob
    assert strings(blob.made, 2)[1] == b"\1\0\0\0\1"
