"""What an executor gets, and what follows an attempt: the whole of I12 and the first half of I17 as tables."""

import itertools
import json
from pathlib import Path

import pytest

from gitops_bot.core.canonical import action_bytes, action_hash, canonical
from gitops_bot.core.errors import Malformed, Reason, Refused, Unavailable
from gitops_bot.core.executions import (
    CHECK_PROTOCOL,
    NEXT,
    PROTOCOL,
    Done,
    Failed,
    Known,
    NothingDone,
    Step,
    Unknown,
    check_body,
    execution_body,
    execution_key,
    given_up,
    known_of,
    may_call,
    next_step,
)

VECTORS = Path(__file__).parents[2] / "vectors" / "action.json"
KEY = execution_key("01jd0000000000000000000000")
ACTION = action_bytes(
    "github.com/acme/ops", "production", "payments.transfer", {"amount_minor": 125000, "to": "ä\u2028"}
)


def test_i17_the_body_holds_the_approved_bytes_as_they_are() -> None:
    body = execution_body(ACTION, action_hash(ACTION), KEY)
    assert isinstance(body, bytes)
    assert ACTION in body
    read = json.loads(body)
    assert read == {
        "action": json.loads(ACTION),
        "action_hash": action_hash(ACTION),
        "key": KEY,
        "protocol": PROTOCOL,
    }


def test_i17_every_action_of_the_vectors_gives_a_canonical_body() -> None:
    """A receiver may check the body by serialising it again."""
    for row in json.loads(VECTORS.read_text(encoding="utf-8"))["hash"]:
        action = bytes.fromhex(row["canonical_utf8_hex"])
        body = execution_body(action, row["hash"], KEY)
        assert isinstance(body, bytes)
        assert canonical(json.loads(body)) == body


def test_i17_other_bytes_than_the_approved_ones_leave_no_body() -> None:
    changed = ACTION.replace(b"125000", b"125001")
    assert changed != ACTION
    refused = execution_body(changed, action_hash(ACTION), KEY)
    assert isinstance(refused, Refused)
    assert refused.reason is Reason.BYTES_DIFFER


def test_a_check_names_no_action() -> None:
    assert json.loads(check_body(KEY)) == {"key": KEY, "protocol": CHECK_PROTOCOL}


@pytest.mark.parametrize("key", ["01jd", "grant:01jd.v_1-a", "a" * 128, "0"])
def test_a_key_is_one_word(key: str) -> None:
    assert execution_key(key) == key


@pytest.mark.parametrize("key", ["", "a" * 129, "a b", "a\r\nX-Evil: 1", "a\n", "A", "ä", "-a", 'a"', "\u0661"])
def test_what_could_be_more_than_a_word_is_no_key(key: str) -> None:
    """It becomes the value of a header."""
    with pytest.raises(Malformed):
        execution_key(key)


def test_i12_every_case_is_in_the_table() -> None:
    assert set(NEXT) == set(itertools.product(Known, (True, False), (True, False)))


@pytest.mark.parametrize("unclear_before", [True, False])
def test_i12_what_may_have_been_done_is_called_again_only_where_the_receiver_dedupes(unclear_before: bool) -> None:
    assert next_step(Known.UNCLEAR, idempotent=True, unclear_before=unclear_before) is Step.AGAIN
    assert next_step(Known.UNCLEAR, idempotent=False, unclear_before=unclear_before) is Step.UNKNOWN


def test_i12_what_cannot_be_deduped_is_never_called_after_an_unclear_attempt() -> None:
    assert all(
        NEXT[known, False, True] is not Step.AGAIN and (known is Known.DONE or NEXT[known, False, True] is Step.UNKNOWN)
        for known in Known
    )
    assert next_step(Known.NOTHING_DONE, idempotent=False, unclear_before=False) is Step.AGAIN


def test_i12_a_refusal_does_not_make_an_earlier_unclear_attempt_undone() -> None:
    """The first call may have paid and only its answer was lost; then the token was withdrawn: 403."""
    assert next_step(Known.FAILED, idempotent=True, unclear_before=True) is Step.UNKNOWN
    assert next_step(Known.FAILED, idempotent=True, unclear_before=False) is Step.FAILED


@pytest.mark.parametrize("idempotent", [True, False])
@pytest.mark.parametrize("same_receiver", [True, False])
def test_i12_only_the_receiver_that_may_have_done_it_is_asked_again(idempotent: bool, same_receiver: bool) -> None:
    """A bundle adopted between two attempts may name another bank, or one that does not dedupe."""
    again = may_call(idempotent=idempotent, unclear_before=True, same_receiver=same_receiver)
    assert again is (idempotent and same_receiver)
    assert may_call(idempotent=idempotent, unclear_before=False, same_receiver=same_receiver)


def test_i12_nothing_that_was_unclear_is_given_up_as_failed() -> None:
    assert given_up(unclear=True) is Step.UNKNOWN
    assert given_up(unclear=False) is Step.FAILED


@pytest.mark.parametrize(
    ("came", "known"),
    [
        (Done("ok"), Known.DONE),
        (Done("ok", dup=True), Known.DONE),
        (Failed("no", Reason.BYTES_DIFFER), Known.FAILED),
        (Unknown("killed"), Known.UNCLEAR),
        (Unavailable("time-out"), Known.UNCLEAR),
        (NothingDone("nobody listens"), Known.NOTHING_DONE),
    ],
)
def test_each_result_and_each_error_says_what_is_known(
    came: Done | Failed | Unknown | Unavailable, known: Known
) -> None:
    assert known_of(came) is known
