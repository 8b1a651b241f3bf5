"""An action is shown so that nothing in it reorders, hides or looks like something else."""

import json
import unicodedata
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitops_bot.authority.card_values import MAX_SHOWN, changes_between, is_web, params_shown, plain, short, show
from tests.linear import assert_linear

HIDING = [
    "\u202e",
    "\u2066",
    "\u200b",
    "\u200d",
    "\ufeff",
    "\x1b",
    "\n",
    "\u2028",
    "\u00a0",
    "\u3164",
    "\u2800",
    "\ue000",
]


@pytest.mark.parametrize("char", HIDING, ids=lambda char: f"{ord(char):04x}")
def test_what_hides_or_reorders_is_an_escape(char: str) -> None:
    """The value is not the same as the one without it, and both are told apart by eye."""
    shown = plain(f"DE89{char}37")
    assert char not in shown and f"\\u{ord(char):04x}" in shown
    assert plain("DE89 37 – ü 漢") == "DE89 37 – ü 漢"


@given(st.text())
def test_only_what_can_be_seen_is_left(text: str) -> None:
    """Whatever an agent sends, each character of what is shown has a form of its own."""
    assert all(char == " " or unicodedata.category(char)[0] not in "CZ" for char in plain(text))


def test_a_long_value_costs_its_length() -> None:
    """No text makes the card cost more than it is long."""
    assert_linear(lambda size: partial(plain, "\u202ea" * size), 8_000)


def test_parameters_come_with_their_json_in_ascii() -> None:
    """The raw form is whole and cannot hide anything either."""
    shown = params_shown({"to": "a\u202eb", "n": 5, "flag": True, "list": ["x", None]})
    assert [(one.name, one.shown) for one in shown] == [
        ("flag", "true"),
        ("list", '["x", null]'),
        ("n", "5"),
        ("to", "a\\u202eb"),
    ]
    assert all(one.raw_json.isascii() for one in shown)
    assert json.loads(shown[3].raw_json) == "a\u202eb"


def test_a_value_beyond_the_limit_says_so_and_its_json_is_whole() -> None:
    """What is cut is told; what fits is not touched."""
    (one,) = params_shown({"body": "x" * (MAX_SHOWN + 1)})
    assert one.shown.endswith(f"… ({MAX_SHOWN + 1} characters)") and len(json.loads(one.raw_json)) == MAX_SHOWN + 1
    assert show("x" * MAX_SHOWN) == "x" * MAX_SHOWN


def test_changes_tell_types_and_absence_apart() -> None:
    """1, true and "1" are three values, and absent is not null (lifecycle 11); what is equal is no change."""
    before = {"a": 1, "b": "1", "c": None, "same": [1, 2]}
    after = {"a": True, "b": 1, "d": None, "same": [1, 2]}
    assert [(one.name, one.before, one.after) for one in changes_between(before, after)] == [
        ("a", "1", "true"),
        ("b", "1", "1"),
        ("c", "null", None),
        ("d", None, "null"),
    ]
    assert changes_between(before, before) == ()


def test_the_short_form_shows_both_ends_of_a_digest() -> None:
    """Two digests that begin alike differ at the end."""
    assert short("sha256:" + "ab" * 32) == "ababab…ababab"


@pytest.mark.parametrize(
    "url",
    [
        *("javascript:alert(1)", "data:text/html,x", "//evil.example", "/asks/1", "https://", "http://[", "ftp://a/b"),
        *("https://a.example/\u202e", "https://a.example/ b", "JaVaScRiPt:x", ""),
    ],
)
def test_an_address_that_is_none_of_the_web_is_never_a_link(url: str) -> None:
    """What was stored as a pull request's address came from outside."""
    assert not is_web(url)


@pytest.mark.parametrize("url", ["https://github.com/acme/ops/pull/1", "http://localhost:8481/acme/ops/pull/1"])
def test_a_pull_request_is_a_link(url: str) -> None:
    """The accepting twin."""
    assert is_web(url)
