"""Each member of each body has one form; a refusing case stands beside its accepting twin."""

import json
from typing import Any

import pytest

from gitops_bot.api.grammar import (
    MAX_BODY,
    Page,
    parse_ask,
    parse_bearer,
    parse_capture,
    parse_loop,
    parse_page,
    parse_reason,
    parse_verb,
    parse_wait,
    read_problem,
)
from gitops_bot.core.asks import MAX_TEXT
from gitops_bot.core.errors import SENTENCES, Malformed, Reason

ULID = "01j9zs4v7k8m2q3r5t6w7x8y9z"
REGIME = {"model": "a/b", "concurrency": 1, "prefixes": 2, "max_tokens": 3, "long_tokens": 4, "long_frac": 0.25}
LOOP = {"id": "x", "address": "127.0.0.1:1", "broker_token": "t" * 20}


def body(**members: Any) -> bytes:
    return json.dumps(members).encode()


def test_a_whole_ask_is_read() -> None:
    read = parse_ask(
        body(
            question="?",
            options=["a", "b"],
            why="w",
            candidates=["alice"],
            expires_in="2h",
            due_at=5,
            idempotency_key="k",
        )
    )
    assert (read.question, read.options, read.why, read.candidates) == ("?", ("a", "b"), "w", ("alice",))
    assert (read.expires_in, read.due_at, read.idempotency_key) == (7_200_000, 5, "k")
    least = parse_ask(body(question="?", why=None, options=None, expires_in=None))
    assert (least.options, least.why, least.expires_in, least.idempotency_key) == ((), "", None, None)


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        ({"question": "x" * MAX_TEXT}, {"question": "x" * (MAX_TEXT + 1)}),
        ({"question": "\ue000\U0001f600"}, {"question": "\x00"}),
        ({"question": "1"}, {"question": 1}),
        ({"question": ""}, {}),
        ({"question": "?", "options": ["a"] * 20}, {"question": "?", "options": ["a"] * 21}),
        ({"question": "?", "options": ["1"]}, {"question": "?", "options": [1]}),
        ({"question": "?", "options": []}, {"question": "?", "options": "a"}),
        ({"question": "?", "candidates": ["bob-2"]}, {"question": "?", "candidates": ["Bob"]}),
        ({"question": "?", "expires_in": "90s"}, {"question": "?", "expires_in": "90"}),
        ({"question": "?", "expires_in": "1d"}, {"question": "?", "expires_in": 86_400_000}),
        ({"question": "?", "due_at": 0}, {"question": "?", "due_at": -1}),
        ({"question": "?", "due_at": 2**53 - 1}, {"question": "?", "due_at": 2**53}),
        ({"question": "?", "due_at": 1}, {"question": "?", "due_at": True}),
        ({"question": "?", "idempotency_key": "k" * 200}, {"question": "?", "idempotency_key": "k" * 201}),
        ({"question": "?", "idempotency_key": "a:b/c"}, {"question": "?", "idempotency_key": "a b"}),
        ({"question": "?", "why": "w"}, {"question": "?", "text": "w"}),
    ],
    ids=lambda value: json.dumps(value)[:40],
)
def test_each_member_of_an_ask_has_its_form(good: dict[str, Any], bad: dict[str, Any]) -> None:
    parse_ask(body(**good))
    with pytest.raises(Malformed):
        parse_ask(body(**bad))


@pytest.mark.parametrize("raw", [b'{"question":"\\ud800"}', b'{"question":"a","question":"a"}', b'{"question":1.5}'])
def test_json_that_is_not_strict_is_none(raw: bytes) -> None:
    with pytest.raises(Malformed):
        parse_ask(raw)
    parse_ask(b'{"question":"\\ud83d\\ude00"}')


def test_a_capture_names_a_regime() -> None:
    read = parse_capture(body(**REGIME))
    assert (read.regime.trace_id, read.mode) == ("model=a/b;c=1;p=2;mt=3;lt=4;lf=0.2500", "block")
    assert parse_capture(body(**{**REGIME, "long_frac": "0.2500", "mode": "continue"})).regime == read.regime


@pytest.mark.parametrize(
    "change",
    [
        {"model": ""},
        {"model": "a b"},
        {"prefixes": "1"},
        {"long_frac": "0.25"},
        {"long_frac": None},
        {"mode": "x"},
        {"run": "x"},
    ],
    ids=str,
)
def test_a_capture_of_nothing_nameable_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        parse_capture(body(**{**REGIME, **change}))


@pytest.mark.parametrize("missing", sorted(REGIME))
def test_a_capture_needs_the_whole_regime(missing: str) -> None:
    with pytest.raises(Malformed, match=missing):
        parse_capture(body(**{name: value for name, value in REGIME.items() if name != missing}))


def test_an_action_is_asked_for_with_an_object_of_parameters() -> None:
    read = parse_verb(body(params={"a": 1, "b": [True, None, {"c": "d"}]}, why="w", expires_in="2h"))
    assert (read.params, read.why, read.expires_in) == ({"a": 1, "b": [True, None, {"c": "d"}]}, "w", 7_200_000)
    assert parse_verb(body(params={})).idempotency_key is None
    for bad in ({}, {"params": []}, {"params": None}, {"params": {"a": 0.5}}, {"params": {}, "text": "x"}):
        with pytest.raises(Malformed):
            parse_verb(body(**bad))


def test_a_loop_says_where_it_is() -> None:
    assert parse_loop(body(**LOOP)).resume is False
    assert parse_loop(body(**LOOP, resume=True)).resume is True


def test_a_token_never_stands_in_an_error() -> None:
    """No secret in an error: the message names the member, not its value."""
    for token in ("secret token", "sécret", "s" * 600, ""):
        with pytest.raises(Malformed) as caught:
            parse_loop(body(**{**LOOP, "broker_token": token}))
        assert "secret" not in str(caught.value)


def test_a_reason_may_be_left_out() -> None:
    assert parse_reason(b"") == parse_reason(b"{}") == ""
    assert parse_reason(body(reason="r")) == "r"
    for bad in (b"x", body(reason=1), body(why="x"), body(reason="x" * 1001)):
        with pytest.raises(Malformed):
            parse_reason(bad)


def test_pages_are_bounded() -> None:
    assert parse_page({}) == Page("", 50, False)
    assert parse_page({"after": ULID, "limit": "200", "open": "1"}) == Page(ULID, 200, True)
    for bad in (
        {"limit": "0"},
        {"limit": "201"},
        {"limit": "٣"},
        {"limit": ""},
        {"after": ULID.upper()},
        {"open": "yes"},
        {"q": ""},
    ):
        with pytest.raises(Malformed):
            parse_page(bad)


def test_waiting_is_bounded() -> None:
    assert [parse_wait(query) for query in ({}, {"wait": "0"}, {"wait": "30"})] == [0, 0, 30]
    for bad in ({"wait": "31"}, {"wait": "-1"}, {"wait": "1.5"}, {"wait": "01"}, {"timeout": "1"}):
        with pytest.raises(Malformed):
            parse_wait(bad)


def test_a_bearer_is_one_token() -> None:
    assert parse_bearer("Bearer gbt_a-b.c~d+e/f==") == "gbt_a-b.c~d+e/f=="
    for bad in (None, "", "Bearer", "Basic x", "Bearer a b", "Bearer \x00", "Bearer " + "x" * 513):
        assert parse_bearer(bad) is None


def test_a_body_over_the_cap_is_refused_unread() -> None:
    pad = MAX_BODY - len(b'{"question":"?"}')
    parse_ask(b'{"question":"?"}' + b" " * pad)
    with pytest.raises(Malformed, match="larger"):
        parse_ask(b'{"question":"?"}' + b" " * (pad + 1))


def test_a_problem_reads_back_as_its_refusal() -> None:
    sentence = f"{SENTENCES[Reason.EXPIRED]} At noon."
    refused = read_problem(
        body(reason="expired", detail=sentence, facts={"at": 1, "by": None, "who": ["a"], "odd": {}})
    )
    assert refused is not None
    assert (refused.reason, refused.detail, dict(refused.facts)) == (
        Reason.EXPIRED,
        "At noon.",
        {"at": 1, "by": None, "who": ("a",)},
    )
    for unknown in (body(reason="new_code"), body(reason=None), body(), body(reason=["expired"])):
        assert read_problem(unknown) is None
