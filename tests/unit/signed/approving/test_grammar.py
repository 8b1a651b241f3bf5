"""What an approver reads and types: one form each, and a typed no for anything else."""

import json
from collections.abc import Callable

import pytest

from gitops_bot.core.canonical import canonical
from gitops_bot.core.errors import Malformed
from gitops_bot.core.principals import PrincipalName
from gitops_bot.signed.approving.grammar import (
    MAX_RECEIPTS_FILE,
    read_ask,
    read_bundle_name,
    read_marker,
    read_receipts,
    same_code,
)
from gitops_bot.signed.evidence import ObjectId
from gitops_bot.signed.publication import Receipt, receipt_file, spent_file
from tests.linear import assert_linear
from tests.signed_stage import ASK, transfer

ALICE, BOB = PrincipalName("alice"), PrincipalName("bob")
OTHER = type(ASK)("01jdxm2r7q8v9w0a1b2c3d4e6g")
COMMIT = ObjectId("ab" * 20)


def receipt(code: str = "counted", **changes: object) -> Receipt:
    values: dict[str, object] = {
        "ask": ASK,
        "person": ALICE,
        "commit": COMMIT,
        "code": code,
        "sentence": "Counted.",
        "fix": "",
        "at": 1_717_243_200_000,
        "votes": (ALICE,),
        "needed": 2,
        "missing": (BOB,),
    }
    return Receipt(**(values | changes))  # type: ignore[arg-type] # as given


def written(*receipts: Receipt) -> bytes:
    return next(iter(receipt_file(receipts).values()))


@pytest.mark.parametrize(
    "text",
    [
        ASK,
        f"https://bot.example.com/asks/{ASK}",
        f"http://localhost:8480/asks/{ASK}/signed?tab=file#code",
        f"https://bot.example.com/asks/{ASK}/again/{ASK}",
    ],
)
def test_an_ask_is_named_by_its_id_or_its_page(text: str) -> None:
    assert read_ask(text) == ASK


@pytest.mark.parametrize(
    "text",
    [
        "",
        ASK.upper(),
        f" {ASK}",
        f"{ASK}\n",
        f"8{ASK[1:]}",
        "https://bot.example.com/asks/",
        f"https://{ASK}/",
        f"https://bot.example.com/asks/?ask={ASK}",
        f"https://bot.example.com/asks/{ASK}/{OTHER}",
        f"file:///asks/{ASK}",
        f"https://bot.example.com/asks/{ASK}\x1b[2K",
    ],
)
def test_anything_else_names_no_ask(text: str) -> None:
    """Two asks in one address, a host that looks like one, or a hidden character choose nothing."""
    with pytest.raises(Malformed):
        read_ask(text)


@pytest.mark.parametrize("typed", ["ABCDEFG2", "abcdefg2", "ABCD EFG2", "abcd-efg2\n", " abcdefg2 \r\n"])
def test_a_short_code_is_compared_in_any_case(typed: str) -> None:
    assert same_code(typed, "ABCDEFG2")


@pytest.mark.parametrize("typed", ["", "\n", "ABCDEFG", "ABCDEFG22", "ABCDEFG3", "yes", "ABCDEFG2X", "ＡBCDEFG2"])
def test_no_other_text_is_a_short_code(typed: str) -> None:
    assert not same_code(typed, "ABCDEFG2")


def test_receipts_are_read_as_the_broker_writes_them() -> None:
    first, last = receipt("bytes_differ", votes=(), sentence="No.", fix="Sign it anew."), receipt()
    assert read_receipts(written(first, last), ASK, ALICE) == (first, last)


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("code", "granted"),
        ("code", None),
        ("code", ["counted"]),
        ("commit", "ab" * 19),
        ("commit", 7),
        ("sentence", "\u202ecounted"),
        ("sentence", "x" * 1001),
        ("fix", 1),
        ("at", -1),
        ("at", True),
        ("needed", "2"),
        ("votes", "alice"),
        ("votes", ["Alice"]),
        ("missing", [1]),
        ("more", 1),
    ],
)
def test_a_receipt_with_another_member_is_none(member: str, value: object) -> None:
    document = json.loads(written(receipt()))
    document["receipts"][0][member] = value
    with pytest.raises(Malformed):
        read_receipts(canonical(document), ASK, ALICE)


def test_receipts_of_another_ask_or_person_are_none() -> None:
    raw = written(receipt())
    assert read_receipts(raw, ASK, ALICE)
    for ask, person in ((OTHER, ALICE), (ASK, BOB)):
        with pytest.raises(Malformed):
            read_receipts(raw, ask, person)


def test_receipts_have_one_spelling() -> None:
    raw = written(receipt())
    for other in (raw + b"\n", b" " + raw, raw[:-1], raw.replace(b",", b", ", 1), b""):
        with pytest.raises(Malformed):
            read_receipts(other, ASK, ALICE)


def test_a_marker_names_the_action_that_was_spent() -> None:
    request = transfer()
    raw = next(iter(spent_file(request.ask, request.action_hash, "n1", 5).values()))
    assert read_marker(raw, ASK) == request.action_hash
    for other, ask in ((raw, OTHER), (raw.replace(b"spent/v1", b"spent/v2"), ASK), (raw + b" ", ASK)):
        with pytest.raises(Malformed):
            read_marker(other, ask)


def test_a_bundle_is_named_by_its_whole_digest() -> None:
    assert read_bundle_name("ab" * 32) == "sha256:" + "ab" * 32
    for name in ("ab" * 31, "AB" * 32, "..", "sha256:" + "ab" * 32):
        with pytest.raises(Malformed):
            read_bundle_name(name)


def test_reading_receipts_takes_time_in_proportion_to_their_size() -> None:
    def build(size: int) -> Callable[[], object]:
        raw = b'{"a":"' + b"\\u0041" * (size // 6 - 2) + b'"}'

        def read() -> None:
            with pytest.raises(Malformed):
                read_receipts(raw, ASK, ALICE)

        return read

    assert_linear(build, MAX_RECEIPTS_FILE)
