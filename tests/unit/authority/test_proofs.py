"""The evidence of an asserted answer stands by itself, and no changed, cut or invented one does."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given as cases
from hypothesis import strategies as st

from gitops_bot.authority.authenticators import Assertion, decode, read_assertion
from gitops_bot.authority.challenges import request_options
from gitops_bot.authority.proofs import MOST, evidence_of, recheck, stated
from gitops_bot.core.canonical import Digest, canonical
from gitops_bot.core.errors import Malformed
from gitops_bot.core.statements import Statement, batch_challenge
from gitops_bot.demo.passkey import SoftwarePasskey
from tests.linear import assert_linear
from tests.people_stage import SITE

CREATION = {
    "rp": {"id": "localhost", "name": "gitops-bot"},
    "user": {"id": "YWxpY2U", "name": "alice"},
    "challenge": "AAAA",
    "pubKeyCredParams": [{"alg": -7, "type": "public-key"}],
}


class Signer:
    """One passkey, and statements that it signs."""

    def __init__(self) -> None:
        from webauthn.helpers import parse_attestation_object

        self.passkey = SoftwarePasskey(SITE.origin)
        made = self.passkey.create(CREATION)
        self.id = str(made["id"])
        raw = decode(made["response"]["attestationObject"], 65_536)
        attested = parse_attestation_object(raw or b"").auth_data.attested_credential_data
        assert attested is not None
        self.public_key = attested.credential_public_key

    def statement(self, **other: Any) -> Statement:
        said = Statement(
            SITE.origin, SITE.name, "alice", self.id, "01jdxm2r7q8v9w0a1b2c3d4e5f", "release.cut", "approve", None,
            Digest("sha256:" + "11" * 32), Digest("sha256:" + "22" * 32), 1, 1_796_040_000_000, "A" * 22,
        )  # fmt: skip
        return replace(said, **other)

    def sign(self, *statements: Statement) -> Assertion:
        challenge = statements[0].challenge() if len(statements) == 1 else batch_challenge(statements)
        found = read_assertion(self.passkey.get(request_options(SITE, challenge)))
        assert isinstance(found, Assertion)
        return found

    def evidence(self, *statements: Statement, position: int = 0) -> bytes:
        return evidence_of(SITE.rp_id, statements, position, self.sign(*statements), self.public_key)


SIGNER = Signer()
GOOD = SIGNER.evidence(SIGNER.statement())
BATCH = SIGNER.evidence(SIGNER.statement(), SIGNER.statement(ask="01jdxm2r7q8v9w0a1b2c3d4e5g"), position=1)


def changed(evidence: bytes, **members: Any) -> bytes:
    """Change members of an evidence and write it canonically again."""
    return canonical({**json.loads(evidence), **members})


def said(evidence: bytes, place: int = 0, **members: Any) -> bytes:
    """Change members of a statement in an evidence."""
    statements = json.loads(evidence)["statements"]
    statements[place] |= members
    return changed(evidence, statements=statements)


def test_evidence_stands_offline_alone_and_in_a_batch() -> None:
    """The accepting twin of every refusal below."""
    assert recheck(GOOD) is None
    assert recheck(BATCH) is None
    assert stated(BATCH)[0]["ask"] == "01jdxm2r7q8v9w0a1b2c3d4e5g"
    assert stated(BATCH)[1] == SIGNER.public_key


@pytest.mark.parametrize("evidence", [GOOD, BATCH], ids=["one", "batch"])
@pytest.mark.parametrize(
    "members",
    [
        {"ask": "another"},
        {"option": "deny"},
        {"person": "bob"},
        {"verb": "payments.transfer"},
        {"text_hash": "sha256:" + "33" * 32},
        {"origin": "https://evil.example"},
        {"workspace": "another"},
        {"action_hash": "sha256:" + "44" * 32},
        {"policy": "sha256:" + "55" * 32},
        {"run_version": 2},
        {"issued_at": "2026-11-30T12:00:01Z"},
        {"nonce": "B" * 22},
        {"credential": "AAAA"},
        {"person": 5},
        {"origin": None},
        {"more": 1},
    ],
    ids=repr,
)
def test_a_changed_statement_does_not_stand(evidence: bytes, members: dict[str, Any]) -> None:
    assert recheck(said(evidence, **members)) is not None


@pytest.mark.parametrize("position", [-1, 2, True, "0", None])
def test_a_position_outside_does_not_stand(position: Any) -> None:
    assert recheck(changed(BATCH, position=position)) is not None
    with pytest.raises(Malformed):
        stated(changed(BATCH, position=position))


def test_a_batch_that_was_reordered_cut_extended_or_doubled_does_not_stand() -> None:
    statements = json.loads(BATCH)["statements"]
    extra = {**statements[0], "ask": "third"}
    for other in (statements[::-1], statements[:1], [*statements, extra], [statements[0]] * 2, [], [extra] * 21, {}):
        assert recheck(changed(BATCH, statements=other, position=0)) is not None
    mixed = SIGNER.evidence(SIGNER.statement(), SIGNER.statement(ask="other", person="bob"))
    assert recheck(mixed) == "its statements are not of one ceremony"


def test_another_key_or_signature_does_not_stand() -> None:
    other = Signer()
    assert recheck(changed(GOOD, public_key=json.loads(other.evidence(other.statement()))["public_key"])) is not None
    assert recheck(changed(GOOD, signature=json.loads(BATCH)["signature"])) is not None
    assert recheck(changed(GOOD, client_data=json.loads(BATCH)["client_data"])) is not None
    assert recheck(changed(GOOD, rp_id="evil.example")) is not None
    assert recheck(changed(GOOD, credential=other.id)) == "its statements name another passkey"


@pytest.mark.parametrize(
    "change", [lambda one: setattr(one, "verifies", False), lambda one: setattr(one, "present", False)]
)
def test_without_presence_or_verification_it_does_not_stand(change: Callable[[SoftwarePasskey], Any]) -> None:
    signer = Signer()
    change(signer.passkey)
    assert recheck(signer.evidence(signer.statement())) is not None


@pytest.mark.parametrize(
    "evidence",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b"\xff",
        b'{"seen":true}',
        GOOD + b" ",
        b" " + GOOD,
        b"[" * 100_000,
        b"1" * (MOST + 1),
    ],
)
def test_what_is_no_evidence_is_told_so(evidence: bytes) -> None:
    assert recheck(evidence) is not None
    with pytest.raises(Malformed):
        stated(evidence)


@cases(st.integers(0, len(GOOD) - 1), st.integers(1, 255))
def test_no_changed_byte_stands(place: int, mask: int) -> None:
    """Whatever byte is another one: what is wrong is said, and nothing is raised."""
    assert recheck(GOOD[:place] + bytes([GOOD[place] ^ mask]) + GOOD[place + 1 :]) is not None


@cases(
    st.recursive(
        st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=20),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
        max_leaves=12,
    ),
    st.sampled_from(sorted(json.loads(GOOD))),
)
def test_no_invented_member_raises(value: Any, member: str) -> None:
    found = recheck(changed(GOOD, **{member: value}))
    assert found is not None or json.loads(GOOD)[member] == value


def test_reading_evidence_takes_linear_time() -> None:
    def build(size: int) -> Callable[[], object]:
        evidence = canonical({"v": 1, "rest": "x" * size})
        return lambda: recheck(evidence)

    assert_linear(build, MOST - 100)
