"""Over all bytes: only a value or a refusal leaves the SSH readers; what is read has one spelling; cost is linear."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitops_bot.core.errors import Reason, Refused
from gitops_bot.signed.evidence import Signed
from gitops_bot.signed.sshsig import grammar
from gitops_bot.signed.sshsig.grammar import MAX_ARMOR, Pair, PublicKey
from gitops_bot.signed.sshsig.verifier import SshKeys
from tests.linear import assert_linear
from tests.signed_keys import field, ssh_armor, ssh_mpint
from tests.sshsig_stage import EVERY, WINDOW, blob_of, commit, entry

KEYS = SshKeys([entry(name) for name in EVERY])
MADE = {name: blob_of(name) for name in EVERY}
"""Made once: ECDSA signs otherwise each time."""
WHOLE = {blob.raw for blob in MADE.values()}
PUBLIC = {name: key for name in EVERY if isinstance(key := grammar.read_key(MADE[name].key), PublicKey)}
names = st.sampled_from(EVERY)
BLAMED = {
    Reason.BAD_SIGNATURE,
    Reason.MALFORMED_COMMIT,
    Reason.MULTIPLE_SIGNATURES,
    Reason.WEAK_DIGEST,
    Reason.WRONG_NAMESPACE,
    Reason.UNKNOWN_KEY,
    Reason.NO_USER_PRESENCE,
}


@st.composite
def mutated(draw: st.DrawFn, whole: Callable[[str], bytes]) -> bytes:
    """Real bytes with a few places cut, doubled or overwritten."""
    data = bytearray(whole(draw(names)))
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(data)))
        end = draw(st.integers(start, min(len(data), start + 80)))
        data[start:end] = draw(st.one_of(st.just(bytes(data[start:end]) * 2), st.binary(max_size=8)))
    return bytes(data)


pieces = st.sampled_from([b"-----BEGIN SSH SIGNATURE-----", b"-----END SSH SIGNATURE-----", b"\n", b"U1NIU0lH", b"="])
armors = st.one_of(
    st.binary(max_size=400), st.lists(pieces, max_size=8).map(b"".join), mutated(lambda name: ssh_armor(MADE[name].raw))
)
blobs = st.one_of(st.binary(max_size=400), mutated(lambda name: MADE[name].raw))
made = st.one_of(st.binary(max_size=400), mutated(lambda name: MADE[name].made))
keys = st.one_of(st.binary(max_size=400), mutated(lambda name: MADE[name].key))


@given(armors)
def test_an_armor_that_is_read_is_the_only_one_of_its_blob(armor: bytes) -> None:
    read = grammar.read_armor(armor)
    if isinstance(read, Refused):
        assert read.reason in BLAMED
    else:
        assert ssh_armor(read) == armor.removesuffix(b"\n") + b"\n"


@given(blobs)
def test_a_blob_that_is_read_is_the_only_one_of_its_parts(blob: bytes) -> None:
    read = grammar.read_envelope(blob)
    if isinstance(read, Refused):
        assert read.reason in BLAMED
    else:
        said = (read.key, b"git", b"", read.hash_name.encode(), read.signature)
        assert blob == b"SSHSIG\0\0\0\1" + b"".join(map(field, said))


@given(names, made)
def test_a_signature_that_is_read_is_the_only_one_of_its_parts(name: str, blob: bytes) -> None:
    read = grammar.read_signature(blob, PUBLIC[name])
    if isinstance(read, Refused):
        assert read.reason in BLAMED
        return
    value = read.value
    raw = ssh_mpint(value.r) + ssh_mpint(value.s) if isinstance(value, Pair) else value
    tail = b"" if read.touch is None else bytes((read.touch.flags,)) + read.touch.counter.to_bytes(4, "big")
    assert blob == field(read.scheme.value.encode()) + field(raw) + tail


@given(keys)
def test_any_bytes_for_a_key_are_a_key_or_weak(blob: bytes) -> None:
    read = grammar.read_key(blob)
    assert isinstance(read, PublicKey) or read.reason is Reason.WEAK_KEY


@given(armors)
def test_no_damaged_armor_counts_and_only_refusals_leave_the_verifier(armor: bytes) -> None:
    answer = KEYS.verify(commit(armor), WINDOW)
    if isinstance(answer, Signed):
        assert grammar.read_armor(armor) in WHOLE
    else:
        assert answer.reason in BLAMED


@given(blobs)
def test_no_damaged_blob_counts(blob: bytes) -> None:
    answer = KEYS.verify(commit(ssh_armor(blob)), WINDOW)
    assert blob in WHOLE if isinstance(answer, Signed) else answer.reason in BLAMED


@given(names, made)
def test_no_damaged_signature_counts(name: str, blob: bytes) -> None:
    whole = replace(MADE[name], made=blob).raw
    answer = KEYS.verify(commit(ssh_armor(whole)), WINDOW)
    assert whole in WHOLE if isinstance(answer, Signed) else answer.reason in BLAMED


def test_the_undamaged_count() -> None:
    """The twin of the three above."""
    assert all(isinstance(KEYS.verify(commit(ssh_armor(whole)), WINDOW), Signed) for whole in WHOLE)


@pytest.mark.parametrize("unit", [b"A", b"\n", b"A\n", b"-----BEGIN SSH SIGNATURE-----", b"-----", b":", b"=", b" "])
def test_the_work_on_an_armor_is_linear_up_to_its_cap(unit: bytes) -> None:
    def build(size: int) -> Callable[[], object]:
        room = size - 60
        armor = b"-----BEGIN SSH SIGNATURE-----\n" + unit * (room // len(unit)) + b"\n-----END SSH SIGNATURE-----"
        return lambda: grammar.read_armor(armor[:size])

    assert_linear(build, MAX_ARMOR)


@pytest.mark.parametrize("unit", [field(b""), field(b"x"), b"\xff", b"\0\0\0\1"])
def test_the_work_on_blobs_is_linear(unit: bytes) -> None:
    def build(size: int) -> Callable[[], object]:
        blob = b"SSHSIG\0\0\0\1" + unit * (size // len(unit))

        def all_readers() -> None:
            grammar.read_envelope(blob)
            grammar.read_key(blob[10:])
            for key in PUBLIC.values():
                grammar.read_signature(blob[10:], key)

        return all_readers

    assert_linear(build, MAX_ARMOR)
