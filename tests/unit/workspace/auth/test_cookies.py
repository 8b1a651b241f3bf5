"""A cookie counts when a browser would have kept it for this host alone, exactly once, and as we wrote it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workspace.auth import cookies

SECRET = "a" * 43
NAME = cookies.NAME


@pytest.mark.parametrize(
    "header",
    [
        f"{NAME}={SECRET}",
        f"other=1; {NAME}={SECRET}",
        f"{NAME}={SECRET}; other=1",
        f"__Host-other=1;{NAME}={SECRET};  x=y=z; broken",
        f"gitops-bot={'b' * 43}; {NAME}={SECRET}",
    ],
)
def test_one_cookie_of_ours_is_read(header: str) -> None:
    assert cookies.read(header) == SECRET
    assert cookies.carries(header)


@pytest.mark.parametrize(
    "header",
    [
        f"{NAME}={SECRET}; {NAME}={SECRET}",
        f"{NAME}={SECRET}; {NAME}={'b' * 43}",
        f"{NAME}={SECRET}; {NAME}=",
        f"{NAME.lower()}={SECRET}",
        f"{NAME.upper()}={SECRET}",
        f"{NAME}={SECRET}; {NAME.lower()}={'b' * 43}",
        f"\u00a0{NAME}={SECRET}",
        f"\t{NAME}={SECRET}",
        f"{NAME}\x85={SECRET}",
        f"\u2000{NAME}={'b' * 43}; {NAME}={SECRET}",
        f'{NAME}="{SECRET}"',
        f"{NAME}={SECRET}%00",
        f"{NAME}={SECRET}\u00fc",
        f"{NAME}={'a' * 15}",
        f"{NAME}={'a' * 201}",
        f"{NAME}={SECRET}; x={'y' * cookies.MAX_HEADER}",
        f"{NAME}",
        f"{NAME}=",
    ],
)
def test_what_could_be_ours_but_is_not_exactly_so_is_none_and_counts_as_carried(header: str) -> None:
    """Nobody is signed in by it, and it does not spare a request what a cookie demands."""
    assert cookies.read(header) is None
    assert cookies.carries(header)


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "other=1",
        f"__Secure-gitops-bot={SECRET}",
        f"gitops-bot={SECRET}",
        f"__Host-gitops-bot2={SECRET}",
        f"x{NAME}={SECRET}",
        f"x={NAME}={SECRET}",
        f"{cookies.BEFORE}={SECRET}",
    ],
)
def test_another_name_is_not_ours(header: str | None) -> None:
    assert cookies.read(header) is None
    assert not cookies.carries(header)


def test_the_cost_of_a_header_is_bounded() -> None:
    """An overlong header is not taken apart at all."""
    assert cookies.read(f"{NAME}={SECRET}; " * 1_000_000) is None


@given(st.text(max_size=200) | st.lists(st.sampled_from([NAME, "=", ";", " ", SECRET, "\t", "x"])).map("".join))
def test_whatever_a_header_holds_it_is_read_as_one_secret_or_none(header: str) -> None:
    found = cookies.read(header)
    if found is not None:
        assert header.count(NAME) == 1
        assert f"{NAME}={found}" in header
        assert cookies.carries(header)
