"""A packed bundle gives back its files and their digest; other bytes are refused."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitops_bot.core.canonical import bundle_digest
from gitops_bot.core.errors import Malformed
from gitops_bot.policy.bundles import pack, unpack

FILES = st.dictionaries(
    st.text(st.characters(min_codepoint=33, max_codepoint=0x2FF), min_size=1, max_size=20),
    st.binary(max_size=50),
    max_size=8,
)


@given(FILES)
def test_what_is_packed_is_unpacked_and_has_the_bundles_digest(files: dict[str, bytes]) -> None:
    packed = pack(files)
    assert unpack(packed) == files
    tagged = b"gitops-bot/policy-bundle/v1\x00" + packed
    assert bundle_digest(files) == "sha256:" + hashlib.sha256(tagged).hexdigest()


@given(st.binary(max_size=200))
def test_other_bytes_are_malformed_or_pack_to_themselves(content: bytes) -> None:
    try:
        files = unpack(content)
    except Malformed:
        return
    assert pack(files) == content


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"a\x001\x00", id="cut short"),
        pytest.param(b"a\x00", id="no length"),
        pytest.param(b"a\x0001\x00x", id="a length with a zero before it"),
        pytest.param(b"b\x001\x00xa\x001\x00x", id="out of order"),
        pytest.param(b"a\x001\x00xa\x001\x00x", id="a path twice"),
        pytest.param(b"\xff\x001\x00x", id="not UTF-8"),
        pytest.param(b"a\x0099999999\x00x", id="longer than any file"),
    ],
)
def test_damage_is_refused(content: bytes) -> None:
    with pytest.raises(Malformed):
        unpack(content)
    assert unpack(b"a\x001\x00xb\x001\x00y") == {"a": b"x", "b": b"y"}
