"""Nothing but their typed error leaves the approver's readers, and what they give is what was written."""

import string

from hypothesis import given
from hypothesis import strategies as st

from gitops_bot.core.canonical import canonical
from gitops_bot.core.errors import Malformed
from gitops_bot.core.principals import PrincipalName
from gitops_bot.signed.approving.grammar import read_ask, read_bundle_name, read_marker, read_receipts, same_code
from gitops_bot.signed.evidence import ObjectId
from gitops_bot.signed.publication import OUTCOMES, RECEIPTS, SPENT, Receipt, receipt_file
from tests.signed_stage import ASK

ALICE = PrincipalName("alice")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
NAMES = st.from_regex(r"[a-z][a-z0-9-]{0,31}", fullmatch=True).map(PrincipalName)
SHOWN = st.text(alphabet=string.printable[:95] + "é€", max_size=80)
RECEIPT = st.builds(
    Receipt,
    ask=st.just(ASK),
    person=st.just(ALICE),
    commit=st.from_regex(r"[0-9a-f]{40}", fullmatch=True).map(ObjectId),
    code=st.sampled_from(sorted(OUTCOMES)),
    sentence=SHOWN,
    fix=SHOWN,
    at=st.integers(0, 2**53 - 1),
    votes=st.lists(NAMES, max_size=4).map(tuple),
    needed=st.integers(0, 100),
    missing=st.lists(NAMES, max_size=4).map(tuple),
)


@given(st.binary(max_size=400) | JSON.map(lambda value: repr(value).encode()))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    for read in (lambda: read_receipts(raw, ASK, ALICE), lambda: read_marker(raw, ASK)):
        try:
            read()
        except Malformed:
            continue


@given(JSON, JSON, st.sampled_from([RECEIPTS, SPENT, "other"]))
def test_any_document_is_read_or_refused(one: object, other: object, protocol: str) -> None:
    """Documents that have the right members and anything in them."""
    try:
        raw = canonical({"protocol": protocol, "ask": ASK, "person": ALICE, "receipts": one})
        marker = canonical({"protocol": protocol, "ask": ASK, "action_hash": one, "nonce": other, "at": 1})
        within = canonical(
            {"protocol": RECEIPTS, "ask": ASK, "person": ALICE, "receipts": [dict.fromkeys(Receipt.__slots__[2:], one)]}
        )
    except Malformed:
        return
    for content in (raw, marker, within):
        for read in (lambda: read_receipts(content, ASK, ALICE), lambda: read_marker(content, ASK)):  # noqa: B023 # called at once
            try:
                read()
            except Malformed:
                continue


@given(st.lists(RECEIPT, min_size=1, max_size=3))
def test_what_the_broker_writes_is_what_is_read(receipts: list[Receipt]) -> None:
    (raw,) = receipt_file(receipts).values()
    assert read_receipts(raw, ASK, ALICE) == tuple(receipts)


@given(st.text(max_size=80))
def test_any_text_names_an_ask_or_nothing(text: str) -> None:
    for read in (read_ask, read_bundle_name):
        try:
            read(text)
        except Malformed:
            continue
    assert not same_code(text, "ABCDEFG2") or text.strip().upper().replace("-", "").replace(" ", "") == "ABCDEFG2"
