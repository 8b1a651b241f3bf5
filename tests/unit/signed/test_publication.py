"""What the requests branch must hold is computed from what is stored: which paths, and which bytes."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from gitops_bot.core.asks import AskId
from gitops_bot.core.canonical import Digest, bundle_digest, canonical
from gitops_bot.core.errors import Malformed
from gitops_bot.core.principals import PrincipalName
from gitops_bot.core.verdicts import Decision
from gitops_bot.signed.evidence import ObjectId
from gitops_bot.signed.publication import (
    MAX_RECEIPTS,
    MAX_SENTENCE,
    Receipt,
    bundle_files,
    check_path,
    ledger_file,
    receipt_file,
    request_files,
    spent_file,
    spent_path,
)
from gitops_bot.signed.rendering import render_file, render_message, request_bytes
from tests.signed_stage import ASK, transfer

ALICE, BOB = PrincipalName("alice"), PrincipalName("bob")
FOLDER = f"asks/{ASK[-2:]}/{ASK}"
DIGEST = Digest("sha256:" + "ab" * 32)
RECEIPT = Receipt(ASK, ALICE, ObjectId("a" * 40), "counted", "Counted.", "", 1_000, (ALICE,), 2, (BOB,))
FILES: list[Callable[[], dict[str, bytes]]] = [
    lambda: request_files(transfer(), {ALICE: [Decision.APPROVE]}),
    lambda: receipt_file([RECEIPT]),
    lambda: spent_file(ASK, DIGEST, "nonce", 1_000),
    lambda: ledger_file(7, DIGEST, 1, 1_000),
]


def test_a_request_lies_beside_what_each_person_may_sign() -> None:
    request = transfer()
    files = request_files(
        request, {ALICE: [Decision.APPROVE, Decision.DENY], BOB: [Decision.DENY], PrincipalName("x"): []}
    )
    expected = {f"{FOLDER}/request.json": request_bytes(request)}
    for person, decision in ((ALICE, Decision.APPROVE), (ALICE, Decision.DENY), (BOB, Decision.DENY)):
        expected[f"{FOLDER}/{person}.{decision.value}"] = render_file(request, person, decision)
        expected[f"{FOLDER}/{person}.{decision.value}.msg"] = render_message(request, person, decision)
    assert files == expected


def test_a_request_out_of_form_is_not_published() -> None:
    assert request_files(transfer(), {})
    for wrong in (replace(transfer(), summary="a\u202eb"), replace(transfer(), action_hash=DIGEST)):
        with pytest.raises(Malformed):
            request_files(wrong, {})


@pytest.mark.parametrize("build", FILES)
def test_every_path_is_one_of_the_branch_and_every_json_canonical(build: Callable[[], dict[str, bytes]]) -> None:
    for path, content in build().items():
        check_path(path)
        if path.endswith(".json"):
            assert canonical(json.loads(content)) == content


def test_a_receipt_says_what_became_of_which_commit() -> None:
    ((path, content),) = receipt_file([RECEIPT]).items()
    assert path == f"receipts/5f/{ASK}/alice.json"
    assert json.loads(content) == {
        "protocol": "gitops-bot/receipts/v1",
        "ask": ASK,
        "person": "alice",
        "receipts": [
            {
                "commit": "a" * 40,
                "code": "counted",
                "sentence": "Counted.",
                "fix": "",
                "at": 1_000,
                "votes": ["alice"],
                "needed": 2,
                "missing": ["bob"],
            }
        ],
    }


def test_junk_does_not_push_a_receipt_out_at_once() -> None:
    junk = replace(RECEIPT, commit=ObjectId("b" * 40), code="unsigned")
    codes = [
        one["code"] for one in json.loads(*receipt_file([RECEIPT] + [junk] * (MAX_RECEIPTS - 1)).values())["receipts"]
    ]
    assert (codes[0], len(codes)) == ("counted", MAX_RECEIPTS)
    last = json.loads(*receipt_file([junk] * MAX_RECEIPTS + [RECEIPT]).values())["receipts"]
    assert (last[-1]["code"], len(last)) == ("counted", MAX_RECEIPTS)


def test_a_receipt_quotes_nothing_that_a_terminal_obeys() -> None:
    receipt = replace(RECEIPT, code="bytes_differ", sentence="a\x1b[2J\u202eb\n" + "c" * MAX_SENTENCE, fix="\x07")
    (told,) = json.loads(*receipt_file([receipt]).values())["receipts"]
    assert told["sentence"].isprintable()
    assert len(told["sentence"]) == MAX_SENTENCE
    assert told["fix"] == "\ufffd"


@pytest.mark.parametrize(
    "receipts",
    [
        [],
        [RECEIPT, replace(RECEIPT, person=BOB)],
        [RECEIPT, replace(RECEIPT, ask=AskId(ASK[:-1] + "g"))],
        [replace(RECEIPT, code="fine")],
    ],
    ids=["none", "two people", "two asks", "no outcome"],
)
def test_receipts_of_one_file_are_of_one_person_on_one_ask(receipts: list[Receipt]) -> None:
    assert receipt_file([RECEIPT, replace(RECEIPT, code="revocation"), replace(RECEIPT, code="duplicate")])
    with pytest.raises(Malformed):
        receipt_file(receipts)


def test_a_marker_holds_the_nonce_and_lies_where_it_is_looked_for() -> None:
    ((path, content),) = spent_file(ASK, DIGEST, "n1", 5).items()
    assert path == spent_path(ASK) == f"spent/5f/{ASK}.json"
    assert json.loads(content)["nonce"] == "n1"


def test_an_anchored_head_says_which_seal_stood_where() -> None:
    ((path, content),) = ledger_file(42, DIGEST, 3, 5).items()
    assert path == "ledger/42.json"
    assert json.loads(content) == {
        "protocol": "gitops-bot/ledger-head/v1",
        "seq": 42,
        "seal": DIGEST,
        "epoch": 3,
        "at": 5,
    }


def test_a_bundle_is_published_under_its_own_digest_alone() -> None:
    files = {"policy.toml": b"schema = 1\n", "keys/alice.asc": b"key"}
    digest = bundle_digest(files)
    found = bundle_files(digest, files)
    assert found == {
        f"bundles/{digest[7:]}/policy.toml": b"schema = 1\n",
        f"bundles/{digest[7:]}/keys/alice.asc": b"key",
    }
    with pytest.raises(Malformed):
        bundle_files(digest, {**files, "policy.toml": b"schema = 2\n"})
    for path in ("../policy.toml", "keys/../x", ".git/config", "keys/.hidden", "a/b.toml", "policy.json"):
        with pytest.raises(Malformed):
            bundle_files(bundle_digest({path: b""}), {path: b""})


GOOD = (
    f"asks/5f/{ASK}/request.json",
    f"asks/5f/{ASK}/alice.revoke.msg",
    f"receipts/5f/{ASK}/a-1.json",
    f"spent/5f/{ASK}.json",
    "ledger/1.json",
    f"bundles/{'0' * 64}/policy.toml",
)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "README.md",
        f"asks/5g/{ASK}/request.json",
        f"receipts/00/{ASK}/alice.json",
        f"spent/00/{ASK}.json",
        f"asks/5f/{ASK}/alice.answer",
        f"asks/5f/{ASK}/Alice.deny",
        f"asks/5f/{ASK}/alice.deny.msg\n",
        f"asks/5f/{ASK.upper()}/request.json",
        f"/asks/5f/{ASK}/request.json",
        f"asks/5f/{ASK}/../request.json",
        f"spent/5f/{ASK}.json/x",
        "ledger/0.json",
        "ledger/01.json",
        "ledger/١.json",
        f"bundles/{'0' * 63}/policy.toml",
        f'bundles/{"0" * 64}/a"b.toml',
        f"bundles/{'0' * 64}/a b.toml",
    ],
)
def test_no_other_path_is_written(path: str) -> None:
    for good in GOOD:
        check_path(good)
    with pytest.raises(Malformed):
        check_path(path)
