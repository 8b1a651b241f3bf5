"""Each member of each body that people send has one form; a refusing case stands beside its accepting twin."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from gitops_bot.api.members import MAX_BODY
from gitops_bot.api.person.grammar import (
    MAX_MESSAGE,
    HoldBody,
    parse_agent,
    parse_answer,
    parse_batch,
    parse_claim,
    parse_delegate,
    parse_given,
    parse_hold,
    parse_message,
    parse_nothing,
    parse_reasoned,
    parse_snooze,
)
from gitops_bot.core.asks import MAX_TEXT
from gitops_bot.core.errors import Malformed

ULID = "01j9zs4v7k8m2q3r5t6w7x8y9z"
OTHER = "01j9zs4v7k8m2q3r5t6w7x8y9a"
ECHO = {"action_hash": "sha256:" + "0" * 64, "policy": "sha256:" + "1" * 64, "run_version": 1}
ASSERTION = {"ceremony": "c", "credential": {"id": "x", "response": {"signature": "y"}}}


def body(**members: Any) -> bytes:
    return json.dumps(members).encode()


def test_a_whole_answer_is_read() -> None:
    read = parse_answer(body(option="approve", text="fine", **ECHO, idempotency_key="k", assertion=ASSERTION))
    assert (read.given.option, read.given.text, read.given.idempotency_key) == ("approve", "fine", "k")
    assert read.given.binding is not None
    assert read.given.binding.run_version == 1
    assert read.assertion is not None
    assert (read.assertion.ceremony, read.assertion.credential["id"]) == ("c", "x")


@pytest.mark.parametrize("gone", sorted(ECHO))
def test_an_answer_without_all_that_binds_it_is_read_as_unbound(gone: str) -> None:
    """The reason is `unbindable`, which settling says and the ledger keeps; the grammar does not forestall it."""
    assert (
        parse_answer(body(option="o1", **{name: value for name, value in ECHO.items() if name != gone})).given.binding
        is None
    )
    assert parse_answer(body(option="o1", **ECHO)).given.binding is not None


def batch(*answers: object, **more: Any) -> bytes:
    return body(answers=list(answers), **more)


ONE = {"ask": ULID, "option": "approve", **ECHO}
CASES: tuple[tuple[Callable[[bytes], object], dict[str, Any], dict[str, Any]], ...] = (
    (parse_given, {"option": "o1", **ECHO}, {"option": 1, **ECHO}),
    (parse_given, {"text": "x" * MAX_TEXT}, {"text": "x" * (MAX_TEXT + 1)}),
    (parse_given, {"option": "o1"}, {"option": "o1", "assertion": ASSERTION}),
    (parse_given, {"option": "x" * 64}, {"option": "x" * 65}),
    (parse_answer, {"run_version": 0}, {"run_version": -1}),
    (parse_answer, {"run_version": 1}, {"run_version": True}),
    (parse_answer, {"policy": ECHO["policy"]}, {"policy": "sha256:0"}),
    (parse_answer, {"action_hash": None}, {"action_hash": "SHA256:" + "0" * 64}),
    (parse_answer, {"assertion": ASSERTION}, {"assertion": {"ceremony": "c"}}),
    (parse_answer, {"assertion": None}, {"assertion": "yes"}),
    (parse_answer, {"assertion": ASSERTION}, {"assertion": {**ASSERTION, "person": "alice"}}),
    (parse_answer, {"idempotency_key": "k"}, {"idempotency_key": "k k"}),
    (parse_answer, {"text": "\U0001f600"}, {"text": "\x00"}),
    (parse_answer, {"text": "a"}, {"text": "a", "person": "alice"}),
    (parse_batch, {"answers": [ONE]}, {"answers": []}),
    (parse_batch, {"answers": [ONE, {**ONE, "ask": OTHER}]}, {"answers": [ONE, ONE]}),
    (parse_batch, {"answers": [ONE]}, {"answers": [{**ONE, "ask": "1"}]}),
    (parse_batch, {"answers": [ONE]}, {"answers": [{"option": "approve", **ECHO}]}),
    (parse_batch, {"answers": [ONE]}, {"answers": [{**ONE, "assertion": ASSERTION}]}),
    (parse_batch, {"answers": [ONE]}, {"answers": ["x"]}),
    (parse_claim, {}, {"release": 1}),
    (parse_delegate, {"to": "bob"}, {"to": "Bob"}),
    (parse_delegate, {"to": "bob", "fresh": ASSERTION}, {"to": "bob", "fresh": {"ceremony": 1, "credential": {}}}),
    (parse_snooze, {"lasts": "2h"}, {"lasts": "2"}),
    (parse_snooze, {"lasts": None}, {}),
    (parse_hold, {"lasts": "72h", "reason": "look"}, {"lasts": None}),
    (parse_message, {"text": "x" * MAX_MESSAGE}, {"text": "x" * (MAX_MESSAGE + 1)}),
    (parse_message, {"text": ""}, {}),
    (parse_nothing, {"fresh": ASSERTION}, {"x": 1}),
    (parse_reasoned, {"reason": "r"}, {"reason": 1}),
    (parse_agent, {"slug": "a-1", "principal": "agent"}, {"slug": "A", "principal": "agent"}),
    (parse_agent, {"slug": "a", "principal": "agent"}, {"slug": "a", "principal": "Ag"}),
    (parse_agent, {"slug": "a", "principal": "b", "purpose": "p"}, {"slug": "a", "principal": "b", "purpose": "p\n"}),
    (parse_agent, {"slug": "a", "principal": "b", "loop": True}, {"slug": "a", "principal": "b", "loop": "yes"}),
    (parse_agent, {"slug": "a", "principal": "b"}, {"slug": "a", "principal": "b", "owner": "bob"}),
)  # fmt: skip


@pytest.mark.parametrize(
    ("read", "good", "bad"), CASES, ids=lambda value: json.dumps(value, default=lambda one: one.__name__)[:50]
)
def test_each_member_has_its_form(read: Callable[[bytes], object], good: dict[str, Any], bad: dict[str, Any]) -> None:
    read(body(**good))
    with pytest.raises(Malformed):
        read(body(**bad))


def test_a_batch_holds_twenty_in_the_order_given() -> None:
    """attacks, Workspace: a batch extended. The order is that of the ids that were signed."""
    ids = [ULID[:-1] + letter for letter in "0123456789abcdefghjkm"]
    assert [ask for ask, _ in parse_batch(batch(*({**ONE, "ask": one} for one in ids[:20]))).answers] == ids[:20]
    with pytest.raises(Malformed):
        parse_batch(batch(*({**ONE, "ask": one} for one in ids)))


def test_a_body_beyond_the_cap_is_not_read() -> None:
    assert parse_answer(body(assertion={"ceremony": "c", "credential": {"x": "y" * (MAX_BODY - 200)}})).assertion
    with pytest.raises(Malformed):
        parse_answer(body(assertion={"ceremony": "c", "credential": {"x": "y" * MAX_BODY}}))


def test_what_may_be_absent_is() -> None:
    assert parse_reasoned(b"") == ""
    assert parse_claim(b"") is False
    assert parse_claim(body(release=True)) is True
    assert parse_snooze(body(lasts="1h")) == 3_600_000
    assert parse_snooze(body(lasts=None)) is None
    assert parse_hold(body(lasts="1h")) == HoldBody(3_600_000, "")
    parse_nothing(b"")
