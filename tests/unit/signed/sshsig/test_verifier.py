"""A commit counts as signed only by a key of the policy, for git, at a date that counts, over exactly its bytes."""

import base64
from collections.abc import Callable
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from gitops_bot.core.errors import Reason, Refused
from gitops_bot.policy.model import ComponentKey, KeyKind, SshKey
from gitops_bot.signed.evidence import Commit, SignatureKind, Signed, Window
from gitops_bot.signed.sshsig import grammar
from gitops_bot.signed.sshsig.grammar import PublicKey
from gitops_bot.signed.sshsig.keygen import agree
from gitops_bot.signed.sshsig.verifier import SshKeys
from tests.signed_keys import field, ssh_armor, ssh_line, ssh_mpint
from tests.sshsig_stage import (
    AT,
    EVERY,
    FIRST,
    LAST,
    NOW,
    PAYLOAD,
    SECURITY,
    SOFTWARE,
    WINDOW,
    Blob,
    blob_of,
    commit,
    edited,
    entry,
    having,
    making,
    signed,
    strings,
)

KEYS = SshKeys([entry(name) for name in EVERY])


def reason(answer: Signed | Refused) -> Reason | None:
    return answer.reason if isinstance(answer, Refused) else None


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("digest", ["sha256", "sha512"])
def test_every_kind_of_key_signs(name: str, digest: str) -> None:
    key = entry(name)
    proof = KeyKind.PRESENCE if name in SECURITY else KeyKind.ANY
    counter = 7 if name in SECURITY else None
    expected = Signed(SignatureKind.SSH, key.line, key.key.fingerprint, AT, proof, counter)
    assert KEYS.verify(signed(name, digest=digest, counter=7), WINDOW) == expected


def test_rsa_signs_over_either_digest() -> None:
    assert isinstance(KEYS.verify(signed("bob", algorithm="rsa-sha2-256"), WINDOW), Signed)


@pytest.mark.parametrize("name", EVERY)
def test_one_bit_of_the_payload_or_of_the_signature_is_another_payload(name: str) -> None:
    good = signed(name)
    assert reason(KEYS.verify(replace(good, payload=PAYLOAD + b"!"), WINDOW)) is Reason.BAD_SIGNATURE
    bent = edited(name, making(lambda n, value, rest: field(n) + field(value[:-1] + bytes((value[-1] ^ 1,))) + rest))
    assert reason(KEYS.verify(bent, WINDOW)) is Reason.BAD_SIGNATURE


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("alice-sk", making(lambda name, value, rest: field(name) + field(value) + b"\5" + rest[1:])),
        ("alice-sk", making(lambda name, value, rest: field(name) + field(value) + rest[:4] + b"\xff")),
        ("alice", having(hash_name=b"sha256")),
        ("alice", having(key=blob_of("alice-sk").key)),
    ],
)
def test_what_the_signature_covers_cannot_be_claimed_afterwards(name: str, change: Callable[[Blob], Blob]) -> None:
    assert reason(KEYS.verify(edited(name, lambda blob: blob), WINDOW)) is None
    assert reason(KEYS.verify(edited(name, change), WINDOW)) is Reason.BAD_SIGNATURE


@pytest.mark.parametrize(
    ("name", "options", "blamed"),
    [
        ("alice", {"namespace": b"file"}, Reason.WRONG_NAMESPACE),
        ("alice", {"digest": "sha1"}, Reason.WEAK_DIGEST),
        ("alice", {"digest": "sha384"}, Reason.WEAK_DIGEST),
        ("alice", {"digest": "none"}, Reason.WEAK_DIGEST),
        ("bob", {"algorithm": "ssh-rsa"}, Reason.WEAK_DIGEST),
        ("alice", {"reserved": b"x"}, Reason.BAD_SIGNATURE),
        ("alice", {"version": 2}, Reason.BAD_SIGNATURE),
        ("alice", {"trailing": b"x"}, Reason.BAD_SIGNATURE),
        ("outsider", {}, Reason.UNKNOWN_KEY),
        ("outsider-sk", {}, Reason.UNKNOWN_KEY),
        ("weak-rsa2048", {}, Reason.UNKNOWN_KEY),
        ("alice-sk", {"application": b"ssh:other"}, Reason.BAD_SIGNATURE),
    ],
)
def test_a_true_signature_for_something_else_is_blamed(name: str, options: dict[str, object], blamed: Reason) -> None:
    assert reason(KEYS.verify(signed(name, **options), WINDOW)) is blamed


def test_another_application_of_a_known_security_key_is_another_key() -> None:
    line = ssh_line("alice-sk").split()[1]
    other = base64.b64decode(line).removesuffix(field(b"ssh:")) + field(b"ssh:other")
    assert reason(KEYS.verify(signed("alice-sk", application=b"ssh:other", public=other), WINDOW)) is Reason.UNKNOWN_KEY


def test_a_certificate_over_a_known_key_is_unknown() -> None:
    """Nobody in the policy vouches for what a certificate says."""
    point = strings(blob_of().key, 2)[0][1]
    certificate = field(b"ssh-ed25519-cert-v01@openssh.com") + field(bytes(32)) + field(point) + bytes(8)
    assert reason(KEYS.verify(signed("alice", public=certificate), WINDOW)) is Reason.UNKNOWN_KEY


def test_an_openpgp_commit_is_not_for_this_engine() -> None:
    assert reason(KEYS.verify(replace(signed(), kind=SignatureKind.OPENPGP), WINDOW)) is Reason.BAD_SIGNATURE


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (0x00, Reason.NO_USER_PRESENCE),
        (0x04, Reason.NO_USER_PRESENCE),
        (0x01, KeyKind.PRESENCE),
        (0x05, KeyKind.VERIFIED),
        (0x41, KeyKind.PRESENCE),
    ],
)
@pytest.mark.parametrize("name", SECURITY)
def test_a_touch_is_what_a_security_key_says_it_is(name: str, flags: int, expected: Reason | KeyKind) -> None:
    answer = KEYS.verify(signed(name, flags=flags), WINDOW)
    assert (answer.proof if isinstance(answer, Signed) else answer.reason) == expected


@pytest.mark.parametrize("name", SOFTWARE)
def test_a_software_key_proves_nothing_but_itself(name: str) -> None:
    answer = KEYS.verify(signed(name, flags=5), WINDOW)
    assert isinstance(answer, Signed) and answer.proof is KeyKind.ANY and answer.counter is None


def judged(at: int, received_at: int, *, first: int = FIRST, last: int = LAST) -> Reason | None:
    window = Window(received_at, 10 * (LAST - FIRST))
    return reason(SshKeys([entry("alice", first, last)]).verify(signed(at=at), window))


@pytest.mark.parametrize(
    ("at", "received_at", "blamed"),
    [
        (FIRST, NOW, None),
        (FIRST - 1_000, NOW, Reason.KEY_NOT_YET_VALID),
        (FIRST, FIRST - 1, Reason.KEY_NOT_YET_VALID),
        (LAST - 1_000, LAST - 1, None),
        (LAST, LAST - 1, Reason.KEY_EXPIRED),
        (LAST - 1_000, LAST, Reason.KEY_EXPIRED),
        (NOW, LAST, Reason.KEY_EXPIRED),
        (FIRST - 1_000, LAST, Reason.KEY_EXPIRED),
    ],
)
def test_a_key_counts_only_inside_its_dates_at_the_commit_and_at_receipt(
    at: int, received_at: int, blamed: Reason | None
) -> None:
    """A backdated commit by a key that ended is refused by its receipt."""
    assert judged(at, received_at) is blamed


@pytest.mark.parametrize(
    ("at", "blamed"),
    [
        (NOW - 3_600_000 - 300_000, None),
        (NOW - 3_600_000 - 301_000, Reason.SIGNATURE_TIME),
        (NOW + 300_000, None),
        (NOW + 301_000, Reason.SIGNATURE_TIME),
    ],
)
def test_a_commit_is_dated_between_the_opening_of_the_ask_and_its_receipt(at: int, blamed: Reason | None) -> None:
    assert reason(KEYS.verify(signed(at=at), WINDOW)) is blamed


def test_a_revoked_key_stays_revoked_whatever_the_policy_says() -> None:
    keys = SshKeys([entry("alice"), entry("bob")], [entry("alice").line])
    assert reason(keys.verify(signed("alice"), WINDOW)) is Reason.KEY_REVOKED
    assert reason(keys.verify(signed("bob"), WINDOW)) is None
    assert reason(SshKeys([], [entry("alice").line]).verify(signed("alice"), WINDOW)) is Reason.KEY_REVOKED


@pytest.mark.parametrize(
    ("name", "at", "blamed"),
    [
        ("alice", FIRST - 1, Reason.KEY_NOT_YET_VALID),
        ("alice", FIRST, None),
        ("alice", LAST - 1, None),
        ("alice", LAST, Reason.KEY_EXPIRED),
        ("bob", NOW, Reason.KEY_REVOKED),
        ("outsider", NOW, Reason.UNKNOWN_KEY),
    ],
)
def test_a_key_is_asked_at_any_time_whether_it_still_stands(name: str, at: int, blamed: Reason | None) -> None:
    keys = SshKeys([entry("alice"), entry("bob")], [entry("bob").line])
    refused = keys.standing(entry(name).key.fingerprint, at)
    assert (None if refused is None else refused.reason) is blamed


def test_no_keys_know_nobody() -> None:
    """I13: empty means no."""
    assert reason(SshKeys([]).verify(signed(), WINDOW)) is Reason.UNKNOWN_KEY


def test_one_key_with_two_dates_is_a_fault_of_ours() -> None:
    SshKeys([entry("alice"), entry("alice")])
    with pytest.raises(ValueError, match="comes twice"):
        SshKeys([entry("alice"), entry("alice", FIRST + 1)])


def by_hand(kind: str, blob: bytes) -> SshKey:
    line = f"{kind} {base64.b64encode(blob).decode()}"
    return SshKey(line, ComponentKey("SHA256:x", "any", 0, None, "x"), False, FIRST, LAST)


@pytest.mark.parametrize(
    ("kind", "blob", "made"),
    [
        ("ssh-rsa", base64.b64decode(ssh_line("weak-rsa2048").split()[1]), blob_of("weak-rsa2048").made),
        (
            "ecdsa-sha2-nistp256",
            field(b"ecdsa-sha2-nistp256") + field(b"nistp256") + field(b"\4" + b"\1" * 64),
            field(b"ecdsa-sha2-nistp256") + field(ssh_mpint(1) + ssh_mpint(1)),
        ),
        ("ssh-ed25519", field(b"ssh-ed25519") + field(b"\1" + bytes(31)), field(b"ssh-ed25519") + field(bytes(64))),
    ],
)
def test_a_weak_key_counts_not_even_when_a_policy_held_it(kind: str, blob: bytes, made: bytes) -> None:
    """RSA of 2048 bits that signed truly, a point that is on no curve, a point with which everybody can sign."""
    armor = ssh_armor(having(key=blob, made=made)(blob_of()).raw)
    assert reason(SshKeys([by_hand(kind, blob)]).verify(commit(armor), WINDOW)) is Reason.WEAK_KEY


def test_the_other_root_of_an_ecdsa_signature_counts_as_the_same_signature() -> None:
    """Everybody can make it: why a vote is never keyed by the id of its commit."""
    order = ec.SECP256R1().group_order

    def other(name: bytes, value: bytes, rest: bytes) -> bytes:
        (r, s), _ = strings(value, 2)
        return field(name) + field(field(r) + ssh_mpint(order - int.from_bytes(s, "big"))) + rest

    answer = KEYS.verify(edited("carol", making(other)), WINDOW)
    assert answer == KEYS.verify(signed("carol"), WINDOW) and isinstance(answer, Signed)


def test_an_ed25519_signature_has_no_other_form() -> None:
    """s + L is refused (RFC 8032 section 5.1.7)."""
    group = 2**252 + 27742317777372353535851937790883648493

    def other(name: bytes, value: bytes, rest: bytes) -> bytes:
        raised = int.from_bytes(value[32:], "little") + group
        return field(name) + field(value[:32] + raised.to_bytes(32, "little")) + rest

    assert reason(KEYS.verify(edited("alice", making(other)), WINDOW)) is Reason.BAD_SIGNATURE


def test_a_commit_is_signed_by_both_engines_or_not_at_all() -> None:
    good = KEYS.verify(signed("alice-sk", flags=5), WINDOW)
    assert isinstance(good, Signed)
    assert agree(good, good) is good
    for other in (replace(good, counter=8), replace(good, proof=KeyKind.ANY), Refused(Reason.BAD_SIGNATURE)):
        assert reason(agree(good, other)) is Reason.ENGINES_DISAGREE


def test_a_key_is_read_once() -> None:
    """Verification of each commit costs no reading of the policy's keys anew."""
    calls: list[bytes] = []
    real = grammar.read_key

    def counted(blob: bytes) -> PublicKey | Refused:
        calls.append(blob)
        return real(blob)

    keys, commits = SshKeys([entry("alice")]), [signed(at=AT - n * 1_000) for n in range(3)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grammar, "read_key", counted)
        answers: list[Signed | Refused] = [keys.verify(one, WINDOW) for one in commits]
    assert len(calls) == 1 and all(isinstance(answer, Signed) for answer in answers)


def test_the_armor_counts_with_and_without_its_last_line_end() -> None:
    """As git stores it, and as ssh-keygen writes it."""
    stored: Commit = commit(signed().armor.removesuffix(b"\n"))
    assert KEYS.verify(stored, WINDOW) == KEYS.verify(signed(), WINDOW)
