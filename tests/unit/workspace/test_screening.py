"""What the edge lets through has one meaning: one spelling of its path, one Host of ours, fields that come once."""

from collections.abc import Callable
from urllib.parse import unquote_to_bytes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.linear import assert_linear
from workspace.asgi import TARGET, Turned
from workspace.screening import MAX_HEAD, Hosts, field_of, hosts_of, screen

HOSTS = hosts_of("https://ops.example.org", "127.0.0.1", 8480)


def judge(target: bytes = b"/", *fields: tuple[bytes, bytes], host: bytes = b"ops.example.org") -> int:
    """Give the status that a request is turned away with, 0 when it may go on."""
    scope = {"type": "http", "scheme": "http", TARGET: target, "headers": [(b"host", host), *fields]}
    turned = screen(scope, HOSTS)
    return 0 if turned is None else turned.status


@given(st.binary(max_size=200))
def test_a_path_that_passes_has_one_meaning(tail: bytes) -> None:
    """No step up, no slash in disguise, no control character is left in what anybody could decode it to."""
    target = b"/" + tail
    if judge(target) == 0:
        path = target.partition(b"?")[0]
        assert path.isascii()
        for segment in path[1:].split(b"/"):
            decoded = unquote_to_bytes(segment)
            decoded.decode("utf-8")
            assert decoded not in (b".", b"..")
            assert not set(decoded) & {0, 10, 13, ord("/"), ord("\\"), 127}
        assert b"//" not in path


@given(st.lists(st.tuples(st.binary(max_size=20), st.binary(max_size=40)), max_size=20), st.binary(max_size=60))
def test_anything_is_judged_and_nothing_raised(fields: list[tuple[bytes, bytes]], host: bytes) -> None:
    scope = {"type": "http", "scheme": "http", TARGET: b"/", "headers": [(b"host", host), *fields]}
    turned = screen(scope, HOSTS)
    assert turned is None or isinstance(turned, Turned)


def test_judging_a_head_of_the_largest_size_takes_linear_time() -> None:
    def build(size: int) -> Callable[[], object]:
        cut = size // 4
        targets = (b"/" + b"a" * cut, b"/%41" * (cut // 4), b"/" + b"a/" * (cut // 2) + b"\x00", b"/" + b"%" * cut)
        return lambda: [judge(target, (b"x", b"y" * size)) for target in targets]

    assert_linear(build, MAX_HEAD)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        (b"ops.example.org", 0),
        (b"OPS.example.org", 0),
        (b"ops.example.org:443", 0),
        (b"localhost:8480", 0),
        (b"127.0.0.1:8480", 0),
        (b"[::1]:8480", 0),
        (b"ops.example.org:8480", 421),
        (b"ops.example.org.", 400),
        (b"evil.example", 421),
        (b"10.0.0.7:8480", 421),
        (b"", 400),
        (b"ops.example.org:", 400),
        (b"a@ops.example.org", 400),
    ],
)
def test_a_host_is_ours_or_turned_away(host: bytes, status: int) -> None:
    assert judge(host=host) == status


def test_on_all_addresses_a_literal_one_is_ours_and_a_name_is_not() -> None:
    """A name may be made to mean any address by whoever owns it; an address means itself."""
    everywhere = hosts_of("https://ops.example.org", "0.0.0.0", 8480)
    assert everywhere.admit("10.0.0.7", 8480)
    assert everywhere.admit("[fe80::1]", 8480)
    assert not everywhere.admit("10.0.0.7", 80)
    assert not everywhere.admit("rebound.example", 8480)
    assert not Hosts(frozenset()).admit("10.0.0.7", 8480)


def test_fields_that_matter_come_once() -> None:
    assert judge(b"/", (b"x-a", b"1"), (b"x-a", b"2")) == 0
    for name in (b"host", b"authorization", b"cookie", b"origin", b"content-length"):
        assert judge(b"/", (name, b"1"), (name, b"1")) == 400, name
    assert judge(b"/", (b"x_a", b"1")) == 400
    assert judge(b"/", (b"x-a", b"1\x00")) == 400
    assert judge(b"/", (b"x-a", b"1\t2")) == 0


def test_the_first_of_several_is_what_a_field_says() -> None:
    assert field_of([(b"a", b"1"), (b"a", b"2")], b"a") == "1"
    assert field_of([(b"a", b"1")], b"b") is None
