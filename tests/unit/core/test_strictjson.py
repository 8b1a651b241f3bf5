"""Untrusted JSON: one reading or one typed error, at a cost that grows with its length and no faster."""

import json
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gitops_bot.core.errors import Malformed
from gitops_bot.core.strictjson import MAX_BYTES, MAX_NESTING, load_object, loads

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=15,
)
PIECES = st.lists(
    st.sampled_from(
        [b"{", b"}", b"[", b"]", b'"', b"\\", b"\\u", b"d800", b":", b",", b"1", b"-", b"1e999", b"NaN", b" "]
    ),
    max_size=40,
).map(b"".join)


@given(st.binary(max_size=200) | PIECES)
@example(b'"\\ud800"')
@example(b"\xef\xbb\xbf{}")
@example(b"1e999")
@example(b"[" * 60_000)
@example(b"9" * 5_000)
def test_nothing_but_malformed_leaves_it(raw: bytes) -> None:
    for floats in (False, True):
        try:
            found = loads(raw, floats=floats)
        except Malformed:
            continue
        json.dumps(found, ensure_ascii=False, allow_nan=False).encode()  # whatever it gives can be stored


@given(VALUES)
def test_what_json_writes_is_read_back(value: Any) -> None:
    assert loads(json.dumps(value).encode()) == value
    assert loads(json.dumps(value, ensure_ascii=False).encode()) == value


@pytest.mark.parametrize(
    ("raw", "twin"),
    [
        (b'{"a":1,"a":2}', b'{"a":1,"b":2}'),
        (b"1.5", b"15"),
        (b"1e3", b"13"),
        (b"NaN", b"null"),
        (b"-Infinity", b"-1"),
        (b'"\\ud800"', b'"\\ud83d\\ude00"'),
        (b'{"\\udc00":1}', b'{"\\u00e9":1}'),
        (b"\xff", b'"\xc3\xbf"'),
        (b"{'a':1}", b'{"a":1}'),
        (b"[1,]", b"[1]"),
        (b"1" * 21, b"1" * 20),
        (b"", b"0"),
    ],
    ids=ascii,
)
def test_each_refused_text_has_a_twin_that_is_taken(raw: bytes, twin: bytes) -> None:
    with pytest.raises(Malformed):
        loads(raw)
    loads(twin)


def test_a_float_is_read_only_where_it_is_allowed_and_finite() -> None:
    assert loads(b"1.5", floats=True) == 1.5
    for raw in (b"1e999", b"-1e999"):
        with pytest.raises(Malformed, match="double"):
            loads(raw, floats=True)


def test_size_and_nesting_are_bounded_before_parsing() -> None:
    assert loads(b'"' + b"x" * (MAX_BYTES - 2) + b'"')
    with pytest.raises(Malformed, match="larger"):
        loads(b'"' + b"x" * (MAX_BYTES - 1) + b'"')
    assert loads(b"[" * MAX_NESTING + b"]" * MAX_NESTING)
    with pytest.raises(Malformed, match="deeper"):
        loads(b"[" * (MAX_NESTING + 1) + b"]" * (MAX_NESTING + 1))
    assert loads(b'"' + b"[" * 100 + b'"'), "brackets in a string are no nesting"


def test_an_object_is_wanted_where_one_is_wanted() -> None:
    assert load_object(b'{"a":1}') == {"a": 1}
    with pytest.raises(Malformed, match="object"):
        load_object(b"[1]")


def steps(work: Callable[[], object]) -> int:
    """Count the interpreter's line events of a call: a measure of cost that no other load on the machine changes."""
    count = 0

    def trace(_frame: Any, event: str, _arg: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def quietly(raw: bytes) -> None:
    try:
        loads(raw)
    except Malformed:
        return


@pytest.mark.parametrize(
    "make",
    [
        lambda n: b"[" + b"1," * (n // 2) + b"1]",
        lambda n: b'"' + b"\\u0041" * (n // 6) + b'"',
        lambda n: b"{" + b",".join(b'"%06d":1' % i for i in range(n // 11)) + b"}",
        lambda n: b"[]" * (n // 2),
        lambda n: b"\\" * n,
        lambda n: b"1" * n,
    ],
    ids=["list", "escapes", "object", "junk", "backslashes", "digits"],
)
def test_the_cost_is_linear_up_to_the_cap(make: Callable[[int], bytes]) -> None:
    short, long = make(MAX_BYTES // 4 - 16), make(MAX_BYTES - 64)
    assert len(long) <= MAX_BYTES
    assert steps(lambda: quietly(long)) <= 6 * steps(lambda: quietly(short)) + 200
