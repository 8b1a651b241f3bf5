"""A regime and its trace id say the same; what would be another file, flag or number is no trace id."""

import json
import string
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitops_bot.core.captures import MAX_TRACE_ID, Regime, TraceId, parse_trace_id, regime, slug
from gitops_bot.core.errors import Malformed

LOOP = json.loads((Path(__file__).parents[2] / "vectors" / "loop.json").read_bytes())

FIRST = st.sampled_from(string.ascii_letters + string.digits + "_")
SEGMENT = st.tuples(FIRST, st.text(string.ascii_letters + string.digits + "._-", max_size=63)).map("".join)
COUNT = st.integers(0, 9_999_999)
REGIMES = st.builds(
    Regime,
    st.lists(SEGMENT, min_size=1, max_size=4).map("/".join),
    COUNT,
    COUNT,
    COUNT,
    COUNT,
    st.tuples(st.integers(0, 999), st.integers(0, 9999)).map(lambda parts: f"{parts[0]}.{parts[1]:04}"),
)
ARABIC_ONE = "\u0661"


@pytest.mark.parametrize("case", LOOP["trace_id"], ids=lambda case: case["trace_id"])
def test_a_regimes_trace_id_is_that_of_the_vectors(case: dict[str, Any]) -> None:
    found = regime(**case["regime"])
    assert found.trace_id == case["trace_id"]
    assert parse_trace_id(case["trace_id"]) == found


@pytest.mark.parametrize("text", LOOP["trace_id_refused"], ids=ascii)
def test_what_the_vectors_refuse_is_no_trace_id(text: str) -> None:
    with pytest.raises(Malformed):
        parse_trace_id(text)


@pytest.mark.parametrize(
    "text",
    [
        "model=a/..;c=1;p=1;mt=1;lt=0;lf=0.0000",
        "model=a/b/c/d/e;c=1;p=1;mt=1;lt=0;lf=0.0000",
        "model=a\u0000;c=1;p=1;mt=1;lt=0;lf=0.0000",
        f"model=a;c={ARABIC_ONE};p=1;mt=1;lt=0;lf=0.0000",
        "model=a;c=1;p=1;mt=1;lt=0;lf=1000.0000",
        "model=a;c=12345678;p=1;mt=1;lt=0;lf=0.0000",
        " model=a;c=1;p=1;mt=1;lt=0;lf=0.0000",
        "x" * (MAX_TRACE_ID + 1),
    ],
    ids=ascii,
)
def test_hostile_spellings_are_refused(text: str) -> None:
    with pytest.raises(Malformed):
        parse_trace_id(text)


def test_the_longest_trace_id_is_taken() -> None:
    model = "/".join(["x" * 64] * 4)
    text = f"model={model};c=9999999;p=9999999;mt=9999999;lt=9999999;lf=999.9999"
    assert len(text) == MAX_TRACE_ID
    assert parse_trace_id(text).trace_id == text


@given(REGIMES)
def test_every_regime_reads_back_from_its_name(wanted: Regime) -> None:
    assert parse_trace_id(wanted.trace_id) == wanted
    assert regime(**wanted.params()) == wanted


@given(st.text(max_size=80) | st.text(string.printable, max_size=80).map(lambda tail: "model=a;c=1;" + tail))
def test_nothing_but_malformed_leaves_the_reader(text: str) -> None:
    try:
        assert parse_trace_id(text).trace_id == text
    except Malformed:
        return


@given(st.from_type(object) | st.floats() | st.text(max_size=9), st.sampled_from(["model", "concurrency", "long_frac"]))
def test_nothing_but_malformed_leaves_a_regime_of_any_parts(part: Any, name: str) -> None:
    parts: dict[str, Any] = {
        "model": "a",
        "concurrency": 1,
        "prefixes": 1,
        "max_tokens": 1,
        "long_tokens": 0,
        "long_frac": 0.5,
    }
    try:
        found = regime(**{**parts, name: part})
    except Malformed:
        return
    assert parse_trace_id(found.trace_id) == found


def test_a_fraction_is_a_number_or_its_string() -> None:
    by_number = regime("a", 1, 1, 1, 0, 0.12345)
    assert by_number == regime("a", 1, 1, 1, 0, "0.1235")
    assert regime("a", 1, 1, 1, 0, 1).long_frac == "1.0000"
    for wrong in (True, -0.1, 999.99999, float("nan"), float("inf"), "0.5", None):
        with pytest.raises(Malformed):
            regime("a", 1, 1, 1, 0, wrong)


@given(REGIMES)
def test_a_slug_is_safe_in_a_branch_and_a_path(wanted: Regime) -> None:
    name = slug(wanted.trace_id)
    head, _, tail = name.rpartition("-")
    assert set(name) <= set(string.ascii_lowercase + string.digits + "-")
    assert 1 <= len(head) <= 40 and not head.startswith("-") and not head.endswith("-")
    assert len(tail) == 16


def test_two_traces_of_one_model_have_two_slugs() -> None:
    one, two = regime("Org/Model_X.1", 1, 1, 1, 0, 0), regime("Org/Model_X.1", 2, 1, 1, 0, 0)
    assert slug(one.trace_id).startswith("model-x-1-")
    assert slug(one.trace_id) != slug(two.trace_id)
    with pytest.raises(Malformed):
        slug(TraceId("model=../x;c=1;p=1;mt=1;lt=0;lf=0.0000"))
