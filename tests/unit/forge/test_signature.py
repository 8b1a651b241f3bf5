"""Only the raw bytes under a secret of ours are signed; everything else is not, and nothing is parsed to know it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitops_bot.forge.signature import is_signed, sign

SECRET, OTHER = b"It's a Secret to Everybody", b"another"


def test_github_s_own_example() -> None:
    """The values of GitHub's guide for validating deliveries."""
    header = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    assert sign(SECRET, b"Hello, World!") == header
    assert is_signed(b"Hello, World!", header, [SECRET])


def test_one_of_several_secrets_is_enough_and_none_is_not() -> None:
    """A rotation: the old one and the new one both count, in either place."""
    header = sign(SECRET, b"{}")
    for secrets in ([SECRET, OTHER], [OTHER, SECRET], [b"", SECRET]):
        assert is_signed(b"{}", header, secrets)
    for secrets in ([], [OTHER], [b""]):
        assert not is_signed(b"{}", header, secrets)
    assert not is_signed(b"{}", sign(b"", b"{}"), [b""]), "an empty secret signs nothing"


@pytest.mark.parametrize(
    "change",
    [
        lambda header: None,
        lambda header: "",
        lambda header: header.upper(),
        lambda header: header.removeprefix("sha256="),
        lambda header: header.replace("sha256", "sha1"),
        lambda header: header + " ",
        lambda header: header + "\n",
        lambda header: header[:-1],
        lambda header: f"{header},{header}",
        lambda header: header.replace(header[-1], "０"),
        lambda header: "sha256=" + "0" * 1_000_000,
    ],
)
def test_any_other_header_signs_nothing(change) -> None:
    assert is_signed(b"{}", sign(SECRET, b"{}"), [SECRET])
    assert not is_signed(b"{}", change(sign(SECRET, b"{}")), [SECRET])


@given(st.binary(max_size=200), st.binary(max_size=200), st.binary(min_size=1, max_size=80))
def test_a_signature_is_of_one_body_only(body: bytes, other: bytes, secret: bytes) -> None:
    assert is_signed(body, sign(secret, body), [secret])
    assert is_signed(other, sign(secret, body), [secret]) is (other == body)


@given(st.text(max_size=120))
def test_no_header_raises(header: str) -> None:
    """Whatever arrives is answered with yes or no (I20)."""
    assert not is_signed(b"x", header, [SECRET])
