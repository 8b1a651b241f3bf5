"""Whatever bytes come as armor, packet, status line or certificate: a value or its typed error, at a linear cost."""

import contextlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitops_bot.core.errors import Malformed, Refused
from gitops_bot.signed.evidence import Signed
from gitops_bot.signed.openpgp import grammar
from gitops_bot.signed.openpgp.certificates import read_certificate
from gitops_bot.signed.openpgp.facts import CertificateFacts
from gitops_bot.signed.openpgp.grammar import Signature, read_armor, read_detached, read_packets, read_signature
from gitops_bot.signed.openpgp.transcript.grammar import MAX_TRANSCRIPT, Transcript, read_transcript
from tests import signed_keys as keys
from tests.linear import assert_linear
from tests.openpgp_commits import NOW, PAYLOAD, WINDOW, certificates, commit, engine

NAMES = ("alice", "bob", "carol")
PACKETS = [keys.signature_packet(keys.secrets(name)[-1], PAYLOAD, NOW) for name in NAMES]
CERTIFICATES = [one.content for one in certificates(*NAMES, "alice.revoked-hard", "alice.second-subkey", "p521")]
FINGERPRINT = "7D050F5DF5AFD1D0AC67CBBDFF9524FECBB515A5"
LINES = [
    b"NEWSIG a",
    b"KEY_CONSIDERED " + FINGERPRINT.encode() + b" 0",
    b"GOODSIG " + FINGERPRINT[-16:].encode() + b" a <a@example.com>",
    b"VALIDSIG " + f"{FINGERPRINT} 2026-01-10 1768003200 0 4 0 22 8 00 {FINGERPRINT}".encode(),
    b"EXPKEYSIG " + FINGERPRINT[-16:].encode() + b" a",
    b"BADSIG " + FINGERPRINT[-16:].encode() + b" a",
    b"ERRSIG " + FINGERPRINT[-16:].encode() + b" 22 8 00 1768003200 9",
    b"TRUST_FULLY 0 always",
    b"FAILURE gpg-exit 1",
]
ENGINE = engine(*NAMES)


def damaged(whole: list[bytes]) -> st.SearchStrategy[bytes]:
    """Change, cut, double or insert a few bytes of something sound."""
    change = st.tuples(st.integers(0, 4_000), st.integers(0, 3), st.binary(max_size=4))

    def apply(data: bytes, changes: list[tuple[int, int, bytes]]) -> bytes:
        for place, how, new in changes:
            at = place % (len(data) + 1)
            data = data[:at] + new + data[at + (len(new), 0, 1, 8)[how] :]
        return data

    return st.builds(apply, st.sampled_from(whole), st.lists(change, max_size=4))


@given(st.binary(max_size=300) | damaged([keys.pgp_armor(packet) for packet in PACKETS]))
def test_armor_gives_a_signature_or_a_refusal(armor: bytes) -> None:
    assert isinstance(read_armor(armor), bytes | Refused)
    read = read_detached(armor)
    assert isinstance(read, Refused) or isinstance(read[0], Signature)


@given(st.binary(max_size=300) | damaged(PACKETS))
def test_packets_give_values_or_malformed(data: bytes) -> None:
    with contextlib.suppress(Malformed):
        packets = read_packets(data)
        assert b"".join(packet.whole for packet in packets) == data
        for packet in packets:
            read_signature(packet.body)


@given(damaged(PACKETS))
def test_a_damaged_signature_that_the_engine_takes_is_still_the_one_that_was_made(data: bytes) -> None:
    found = ENGINE.verify(commit(keys.pgp_armor(data)), WINDOW)
    assert isinstance(found, Signed | Refused)
    if isinstance(found, Signed):
        assert found.key in {keys.fingerprint(name) for name in NAMES}
        assert found.signed_at == NOW * 1_000


@given(st.binary(max_size=400) | damaged(CERTIFICATES) | damaged([keys.certificate(name) for name in NAMES]))
def test_a_certificate_gives_facts_or_malformed(content: bytes) -> None:
    with contextlib.suppress(Malformed):
        found = read_certificate(content, where="keys/test.asc")
        assert isinstance(found, CertificateFacts)
        assert len(found.keys) == len(found.facts.components)
        assert [key.fingerprint for key in found.keys] == [key.fingerprint for key in found.facts.components]


@given(damaged(CERTIFICATES))
def test_damage_never_gives_a_key_a_longer_life_or_another_right(content: bytes) -> None:
    sound = {key.fingerprint: key for one in CERTIFICATES for key in read_certificate(one, where="k").keys}
    with contextlib.suppress(Malformed):
        for key in read_certificate(content, where="k").keys:
            if key.bound:
                assert key.expires is None
                assert key.signs <= sound[key.fingerprint].signs
                assert key.since >= sound[key.fingerprint].since


@given(
    st.binary(max_size=300)
    | st.lists(st.sampled_from(LINES) | damaged(LINES), max_size=8).map(
        lambda lines: b"".join(b"[GNUPG:] " + line + b"\n" for line in lines)
    )
)
def test_status_lines_give_a_transcript_or_malformed(raw: bytes) -> None:
    with contextlib.suppress(Malformed):
        found = read_transcript(raw)
        assert isinstance(found, Transcript)
        assert raw.count(b"[GNUPG:] NEWSIG") == 1


def quietly(call: Callable[[], object]) -> Callable[[], None]:
    def once() -> None:
        with contextlib.suppress(Malformed):
            call()

    return once


@pytest.mark.parametrize("fill", [b"A" * 64 + b"\n", b"\n", b"=", b"-----BEGIN PGP SIGNATURE-----\n", b"A"])
def test_armor_is_read_in_linear_time(fill: bytes) -> None:
    def reading(size: int) -> Callable[[], None]:
        armor = b"-----BEGIN PGP SIGNATURE-----\n\n" + fill * ((size - 60) // len(fill))
        return quietly(lambda: read_detached(armor))

    assert_linear(reading, grammar.MAX_ARMOR)


@pytest.mark.slow
@pytest.mark.parametrize("area", [b"\2\x64x", b"\1\x64", b"\xff\0\0\0\2\x64x"])
def test_subpackets_are_read_in_linear_time(area: bytes) -> None:
    def reading(size: int) -> Callable[[], None]:
        many = area * (size // len(area))
        body = b"\4\0\x16\x0a" + len(many).to_bytes(2, "big") + many + b"\0\0\0\0" + bytes(8)
        return quietly(lambda: read_signature(body))

    assert_linear(reading, 0xFFF0)


def test_status_lines_are_read_in_linear_time() -> None:
    def reading(size: int) -> Callable[[], None]:
        line = b"[GNUPG:] NOTATION_DATA x\n"
        raw = b"[GNUPG:] NEWSIG\n" + line * ((size - 20) // len(line))
        return quietly(lambda: read_transcript(raw))

    assert_linear(reading, MAX_TRANSCRIPT)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [0x13, 0x20])
def test_a_certificate_full_of_signatures_of_others_is_read_in_linear_time(kind: int) -> None:
    whole = certificates("bob")[0].content
    one = keys.signature_packet(keys.secrets("alice")[-1], PAYLOAD, NOW, kind=kind)

    def reading(size: int) -> Callable[[], None]:
        content = whole + one * min((size - len(whole)) // len(one), grammar.MAX_PACKETS - 10)
        return quietly(lambda: read_certificate(content, where="keys/bob.asc"))

    assert_linear(reading, grammar.MAX_PACKETS * len(one))
