"""The in-process engine: which signature stands, and what each other is refused for; dates are asked at receipt."""

import dataclasses

import pytest

from gitops_bot.core.errors import Reason, Refused
from gitops_bot.policy.model import KeyKind
from gitops_bot.signed.evidence import SignatureKind, Signed, Window
from gitops_bot.signed.openpgp.engine import OpenPgpKeys
from gitops_bot.signed.openpgp.facts import Revocation
from gitops_bot.signed.openpgp.keyring import agree
from tests import signed_keys as keys
from tests.openpgp_commits import NOW, PAYLOAD, WINDOW, certificates, commit, engine, signed

YEAR_2020, YEAR_2022 = 1_600_000_000, 1_641_000_000


def reason(found: Signed | Refused) -> Reason | None:
    return found.reason if isinstance(found, Refused) else None


def verdict(certificate: str, *, by: str = "alice", window: Window = WINDOW, **options: object) -> Reason | None:
    return reason(engine(certificate).verify(signed(by, **options), window))


@pytest.mark.parametrize("name", ["alice", "bob", "carol", "p384", "p521"])
def test_a_sound_signature_gives_key_component_and_time(name: str) -> None:
    primary, *subkeys = keys.secrets(name)
    assert engine("alice", "bob", "carol", "p384", "p521").verify(signed(name), WINDOW) == Signed(
        kind=SignatureKind.OPENPGP,
        key=primary.fingerprint,
        component=(subkeys or [primary])[-1].fingerprint,
        signed_at=NOW * 1_000,
        proof=KeyKind.ANY,
    )


def test_a_signature_of_other_bytes_is_bad() -> None:
    armor = keys.openpgp("alice")(PAYLOAD, NOW)
    assert reason(engine("alice").verify(commit(armor, PAYLOAD + b" "), WINDOW)) is Reason.BAD_SIGNATURE
    assert reason(engine("alice").verify(commit(armor), WINDOW)) is None


def test_a_signature_that_names_another_key_than_made_it_is_bad() -> None:
    bob = keys.fingerprint("bob")
    found = engine("alice", "bob").verify(signed("alice", issuer=bob), WINDOW)
    assert reason(found) is Reason.BAD_SIGNATURE


def test_a_key_that_may_not_sign_does_not() -> None:
    assert verdict("alice", which=0) is Reason.BAD_SIGNATURE
    assert verdict("alice", which=1) is None


def test_an_ssh_commit_is_not_for_this_engine() -> None:
    other = dataclasses.replace(signed(), kind=SignatureKind.SSH)
    assert reason(engine("alice").verify(other, WINDOW)) is Reason.BAD_SIGNATURE


def test_nobodys_keys_are_unknown() -> None:
    assert verdict("bob") is Reason.UNKNOWN_KEY
    assert verdict("alice", by="alice.second-subkey") is Reason.UNKNOWN_KEY
    assert verdict("alice.unbound-subkey", by="alice.second-subkey") is Reason.UNKNOWN_KEY
    assert verdict("alice.second-subkey", by="alice.second-subkey") is None
    assert reason(OpenPgpKeys(()).verify(signed(), WINDOW)) is Reason.UNKNOWN_KEY


@pytest.mark.parametrize("name", ["weak-rsa1024", "weak-rsa2048", "weak-dsa2048"])
def test_a_weak_key_does_not_count(name: str) -> None:
    assert verdict(name, by=name, digest="sha256") is Reason.WEAK_KEY


@pytest.mark.parametrize("name", ["alice.expired", "alice.subkey-expired"])
@pytest.mark.parametrize("at", [NOW, YEAR_2020])
def test_a_key_that_has_expired_by_receipt_does_not_count_whatever_the_signature_is_dated(name: str, at: int) -> None:
    assert verdict(name, at=at) is Reason.KEY_EXPIRED
    assert verdict("alice.expires") is None


def test_a_key_counts_until_it_expires_and_not_in_that_second() -> None:
    end = 1_609_502_400_000

    def at(received: int) -> Reason | None:
        return verdict("alice.expired", at=received // 1_000 - 60, window=Window(received, skew=300_000))

    assert at(end - 1) is None
    assert at(end) is Reason.KEY_EXPIRED


@pytest.mark.parametrize("name", ["alice.revoked-hard", "alice.revoked-unexplained", "alice.subkey-revoked-hard"])
def test_a_hard_revocation_counts_at_any_time(name: str) -> None:
    early = Window(YEAR_2022 * 1_000, skew=0)
    assert verdict(name) is Reason.KEY_REVOKED
    assert verdict(name, at=YEAR_2022, window=early) is Reason.KEY_REVOKED
    assert verdict("alice", at=YEAR_2022, window=early) is None


@pytest.mark.parametrize("name", ["alice.revoked-retired", "alice.revoked-superseded", "alice.subkey-revoked-retired"])
def test_a_soft_revocation_counts_from_its_date_by_the_time_of_receipt(name: str) -> None:
    assert verdict(name) is Reason.KEY_REVOKED
    assert verdict(name, at=YEAR_2022) is Reason.KEY_REVOKED, "a backdated signature"
    assert verdict(name, at=YEAR_2022, window=Window(YEAR_2022 * 1_000, skew=0)) is None
    assert verdict("alice.revoked-retired-later") is None


def test_a_revocation_that_was_taken_out_of_the_certificate_counts_always() -> None:
    (soft,) = certificates("alice.revoked-retired-later")[0].revocations
    (hard,) = certificates("alice.subkey-revoked-hard")[0].revocations
    for remembered in (soft, hard):
        found = engine("alice", remembered=[remembered]).verify(signed(), WINDOW)
        assert reason(found) is Reason.KEY_REVOKED
    assert reason(engine("alice.revoked-retired-later", remembered=[soft]).verify(signed(), WINDOW)) is None
    other = Revocation(keys.fingerprint("bob"), True, 0, 2)
    assert reason(engine("alice", remembered=[other]).verify(signed(), WINDOW)) is None


def test_a_signature_from_before_the_key_was_bound_is_not_yet_valid() -> None:
    window = Window(NOW * 1_000, skew=0)
    assert verdict("alice", at=1_577_836_799, window=window) is Reason.KEY_NOT_YET_VALID
    assert verdict("alice", at=1_577_836_800, window=window) is None
    second = {"by": "alice.second-subkey", "window": window}
    assert verdict("alice.second-subkey", at=1_580_000_000, **second) is Reason.KEY_NOT_YET_VALID  # type: ignore[arg-type] # the options above


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        (NOW - 3_901, Reason.SIGNATURE_TIME),
        (NOW - 3_900, None),
        (NOW + 300, None),
        (NOW + 301, Reason.SIGNATURE_TIME),
    ],
)
def test_a_signature_is_made_inside_the_window(at: int, expected: Reason | None) -> None:
    assert verdict("alice", at=at) is expected


def test_a_signature_that_says_it_expires_never_counts() -> None:
    year, never = (keys.subpacket(3, seconds.to_bytes(4, "big")) for seconds in (31_536_000, 0))
    assert verdict("alice", hashed=year) is Reason.SIGNATURE_TIME
    assert verdict("alice", hashed=never) is None


def test_the_form_is_blamed_before_the_key_and_the_key_before_the_time() -> None:
    assert verdict("bob", digest="sha1") is Reason.WEAK_DIGEST
    assert verdict("bob", at=1) is Reason.UNKNOWN_KEY
    assert verdict("alice.revoked-hard", at=1) is Reason.KEY_REVOKED
    assert verdict("alice.expired", at=1) is Reason.KEY_EXPIRED


def test_a_key_is_asked_for_its_standing_at_any_later_time() -> None:
    subkey = keys.secrets("alice")[-1].fingerprint
    ring = engine("alice.revoked-retired-later")
    assert ring.standing(subkey, NOW * 1_000) is None
    later = ring.standing(subkey, 2_208_988_800_000)
    assert later is not None
    assert later.reason is Reason.KEY_REVOKED
    unknown = ring.standing("00" * 20, NOW * 1_000)
    assert unknown is not None
    assert unknown.reason is Reason.UNKNOWN_KEY


def test_both_engines_must_say_the_same() -> None:
    found = engine("alice").verify(signed(), WINDOW)
    assert isinstance(found, Signed)
    assert agree(found, found) == found
    for other in (
        dataclasses.replace(found, key=keys.fingerprint("bob")),
        dataclasses.replace(found, component=found.key),
        dataclasses.replace(found, signed_at=found.signed_at + 1_000),
        Refused(Reason.KEY_EXPIRED),
        Refused(Reason.ENGINES_DISAGREE, "garbage"),
    ):
        assert reason(agree(found, other)) is Reason.ENGINES_DISAGREE


def test_two_thousand_keys_are_parsed_only_when_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    import pysequoia

    (alice,) = certificates("alice")
    many = [
        dataclasses.replace(
            alice,
            facts=dataclasses.replace(
                alice.facts,
                fingerprint=f"{number:040X}",
                components=tuple(
                    dataclasses.replace(key, fingerprint=f"{number * 2 + which:040X}")
                    for which, key in enumerate(alice.facts.components)
                ),
            ),
        )
        for number in range(2_000)
    ]
    ring = OpenPgpKeys([*many, alice])
    parsed = []

    class Counting:
        @staticmethod
        def from_bytes(content: bytes) -> pysequoia.Cert:
            parsed.append(content)
            return real(content)

    real = pysequoia.Cert.from_bytes
    monkeypatch.setattr(pysequoia, "Cert", Counting)
    for _ in range(3):
        assert reason(ring.verify(signed(), WINDOW)) is None
    assert parsed == [alice.content]
