"""A file of `keys/` becomes the facts of one certificate; what is not under a sound self-signature is not believed."""

import base64

import pysequoia
import pytest

from gitops_bot.core.errors import Malformed
from gitops_bot.policy.sshkeys import read_ssh_line
from gitops_bot.signed.openpgp import grammar
from gitops_bot.signed.openpgp.certificates import MAX_CERTIFICATE, MAX_KEYS, MAX_SELF_SIGNATURES, read_certificate
from gitops_bot.signed.openpgp.facts import CertificateFacts
from gitops_bot.signed.openpgp.grammar import Packet
from tests import signed_keys as keys

MADE, YEAR_2021, YEAR_2023, YEAR_2040 = (1_577_836_800_000, 1_609_502_400_000, 1_672_531_200_000, 2_208_988_800_000)
SIGNATURE, PRIMARY, NAME, SUBKEY = 2, 6, 13, 14


def facts(name: str) -> CertificateFacts:
    return read_certificate(keys.certificate(name), where=name)


def content(name: str) -> bytes:
    return facts(name).content


def split(name: str) -> list[Packet]:
    return list(grammar.read_packets(content(name)))


def joined(packets: list[Packet]) -> bytes:
    return b"".join(packet.whole for packet in packets)


def read(data: bytes) -> CertificateFacts:
    return read_certificate(data, where="keys/test.asc")


def test_facts_name_every_key_by_its_full_fingerprint_the_primary_first() -> None:
    found = facts("alice")
    named = [secret.fingerprint for secret in keys.secrets("alice")]
    assert [key.fingerprint for key in found.facts.components] == named
    assert [key.fingerprint for key in found.keys] == named
    assert found.fingerprint == found.facts.fingerprint == keys.fingerprint("alice")


@pytest.mark.parametrize("name", ["alice", "bob", "carol", "p384", "p521", "bot", "brainpool256", "forge-web"])
def test_sequoia_reads_the_same_fingerprint(name: str) -> None:
    assert pysequoia.Cert.from_bytes(content(name)).fingerprint.upper() == facts(name).fingerprint


@pytest.mark.parametrize(
    ("name", "algorithm", "bits", "curve"),
    [
        ("alice", "eddsa", 256, "ed25519"),
        ("bob", "rsa", 3_072, None),
        ("carol", "ecdsa", 256, "nistp256"),
        ("p384", "ecdsa", 384, "nistp384"),
        ("p521", "ecdsa", 521, "nistp521"),
        ("brainpool256", "ecdsa", 256, "brainpoolp256r1"),
        ("weak-rsa1024", "rsa", 1_024, None),
        ("weak-dsa2048", "dsa", 2_048, None),
    ],
)
def test_each_algorithm_is_named_with_its_strength_weak_ones_too(
    name: str, algorithm: str, bits: int, curve: str | None
) -> None:
    key = facts(name).facts.components[0]
    assert (key.algorithm, key.bits, key.curve) == (algorithm, bits, curve)


@pytest.mark.parametrize("name", ["alice", "bob", "carol", "p384", "p521"])
def test_a_key_has_the_same_material_as_when_it_is_wrapped_for_ssh(name: str) -> None:
    private = keys.secrets(name)[0].private
    numbers = private.public_key()
    material = facts(name).facts.components[0].material
    assert read_ssh_line(ssh_line(numbers), where="ssh")[1].material == material


def ssh_line(public: object) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return public.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()  # type: ignore[attr-defined] # every kind of key used here has it


def test_dates_are_those_of_the_self_signatures() -> None:
    assert {(key.since, key.expires, key.bound) for key in facts("alice").keys} == {(MADE, None, True)}
    assert {key.expires for key in facts("alice.expired").keys} == {YEAR_2021}
    assert [key.expires for key in facts("alice.subkey-expired").keys] == [None, YEAR_2021]


def test_only_a_key_with_the_flag_may_sign() -> None:
    assert [key.signs for key in facts("alice").keys] == [False, True]
    assert [key.signs for key in facts("bob").keys] == [True]


def test_a_subkey_without_its_binding_belongs_to_nobody_and_is_still_named() -> None:
    bound, unbound = facts("alice.second-subkey"), facts("alice.unbound-subkey")
    assert [key.bound for key in bound.keys] == [True, True, True]
    assert [key.bound for key in unbound.keys] == [True, True, False]
    assert unbound.facts.components[2].fingerprint == bound.facts.components[2].fingerprint


def test_a_binding_that_was_made_for_another_certificate_binds_nothing() -> None:
    borrowed = read(joined(split("bob") + split("alice")[-2:]))
    assert [key.bound for key in borrowed.keys] == [True, False]


def test_a_signing_subkey_that_did_not_sign_back_may_not_sign() -> None:
    packets = split("alice")
    body = packets[-1].body
    found = grammar.read_signature(body)
    embedded = next(item for item in (*found.hashed, *found.unhashed) if item.kind == 32)
    assert embedded in found.unhashed, "gpg puts it where it can be taken out"
    start = len(found.trailer) - 6
    stripped = body[:start] + b"\0\0" + found.left + found.numbers
    taken_out = Packet(SIGNATURE, stripped, b"\x89" + len(stripped).to_bytes(2, "big") + stripped)
    assert [key.signs for key in read(joined([*packets[:-1], taken_out])).keys] == [False, False]
    assert [key.signs for key in read(joined(packets)).keys] == [False, True]


@pytest.mark.parametrize(
    ("name", "which", "hard", "reason", "at"),
    [
        ("alice.revoked-hard", 0, True, 2, YEAR_2023),
        ("alice.revoked-unexplained", 0, True, 0, YEAR_2023),
        ("alice.revoked-retired", 0, False, 3, YEAR_2023),
        ("alice.revoked-superseded", 0, False, 1, YEAR_2023),
        ("alice.revoked-retired-later", 0, False, 3, YEAR_2040),
        ("alice.subkey-revoked-hard", 1, True, 2, YEAR_2023),
        ("alice.subkey-revoked-retired", 1, False, 3, YEAR_2023),
    ],
)
def test_a_revocation_is_read_with_its_key_its_date_and_whether_it_is_soft(
    name: str, which: int, hard: bool, reason: int, at: int
) -> None:
    found = facts(name)
    (revocation,) = found.revocations
    assert revocation.fingerprint == found.keys[which].fingerprint
    assert (revocation.hard, revocation.reason, revocation.at) == (hard, reason, at)


def test_a_revocation_that_the_key_did_not_make_does_not_count() -> None:
    packets = split("alice.revoked-hard")
    assert packets[1].tag == SIGNATURE
    forged = packets[1].whole[:-1] + bytes([packets[1].whole[-1] ^ 1])
    damaged = Packet(SIGNATURE, b"", forged)
    assert read(joined([packets[0], damaged, *packets[2:]])).revocations == ()
    assert len(read(joined(packets)).revocations) == 1


def test_a_revocation_that_cannot_be_checked_here_counts() -> None:
    packets = split("alice.revoked-hard")
    unknown_digest = packets[1].body[:3] + b"\x0c" + packets[1].body[4:]
    changed = b"\x89" + len(unknown_digest).to_bytes(2, "big") + unknown_digest
    found = read(joined([packets[0], Packet(SIGNATURE, unknown_digest, changed), *packets[2:]]))
    assert [revocation.hard for revocation in found.revocations] == [True]


def test_a_certificate_may_only_grow() -> None:
    before, after = facts("alice"), facts("alice.revoked-hard")
    assert after.only_adds(before)
    assert before.only_adds(before)
    assert not before.only_adds(after)
    assert not facts("bob").only_adds(before)


def test_binary_and_armored_with_header_lines_are_read_alike() -> None:
    armored = str(pysequoia.Cert.from_bytes(content("alice"))).encode()
    assert b"Comment: " in armored
    assert read(armored).facts == read(content("alice")).facts
    assert read(armored.replace(b"\n", b"\r\n")).facts == facts("alice").facts


def refused(data: bytes) -> str:
    with pytest.raises(Malformed) as caught:
        read(data)
    assert caught.value.where == "keys/test.asc"
    return caught.value.message


def test_secret_keys_are_refused_and_the_certificate_of_them_is_not() -> None:
    secret = keys.secret_file("alice")
    binary = b"".join(bytes(packet) for packet in pysequoia.packet.PacketPile.from_bytes(secret))
    assert "secret" in refused(binary)
    refused(secret)
    assert facts("alice")


def test_two_certificates_in_one_file_are_refused() -> None:
    assert "two" in refused(content("alice") + content("bob"))
    assert "two" in refused(content("alice") * 2)
    refused(keys.certificate("alice") + keys.certificate("bob"))


@pytest.mark.parametrize("name", ["sha1-bound", "v6"])
def test_what_not_every_engine_would_believe_is_refused(name: str) -> None:
    refused(keys.certificate(name))


def test_a_certificate_without_a_name_or_with_a_damaged_self_signature_is_refused() -> None:
    packets = split("bob")
    assert [packet.tag for packet in packets] == [PRIMARY, NAME, SIGNATURE]
    assert "self-signature" in refused(packets[0].whole)
    assert "self-signature" in refused(joined(packets[:2]))
    assert "self-signature" in refused(content("bob")[:-1] + bytes([content("bob")[-1] ^ 1]))
    assert read(joined(packets))


def test_other_packets_text_beside_the_armor_and_nothing_are_refused() -> None:
    alice = keys.certificate("alice")
    for data in (
        b"",
        b"hello",
        b"hello\n" + alice,
        alice + b"hello\n",
        content("alice")[:-1],
        content("alice") + b"\xcb\x06b\0\0\0\0\0",
        split("alice")[1].whole + content("alice"),
        b"-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nAAA\n-----END PGP PUBLIC KEY BLOCK-----\n",
        base64.b64encode(content("alice")),
    ):
        refused(data)
    assert read(alice)


def test_size_and_number_of_keys_are_bounded() -> None:
    assert "bytes" in refused(bytes(MAX_CERTIFICATE + 1))
    packets = split("alice")
    subkey = next(packet for packet in packets if packet.tag == SUBKEY)
    assert len(read(joined(packets) + subkey.whole * (MAX_KEYS - 2)).keys) == MAX_KEYS
    assert "keys" in refused(joined(packets) + subkey.whole * (MAX_KEYS - 1))


def test_signatures_that_claim_to_be_its_own_are_bounded_and_those_of_others_are_not() -> None:
    own, other = (keys.signature_packet(keys.secrets(name)[0], b"", 1, kind=0x13) for name in ("bob", "alice"))
    assert read(content("bob") + own * (MAX_SELF_SIGNATURES - 1)).facts == facts("bob").facts
    assert "self-signatures" in refused(content("bob") + own * MAX_SELF_SIGNATURES)
    assert read(content("bob") + other * 2_000).facts == facts("bob").facts


def test_rsa_with_a_wide_exponent_is_refused_because_each_check_of_it_would_be_dear() -> None:
    n, wide = keys.mpi(1 << 3_071 | 1), keys.mpi(1 << 3_000 | 1)
    body = b"\4\0\0\0\1\1" + n + wide
    assert "exponent" in refused(b"\x99" + len(body).to_bytes(2, "big") + body)
