"""A statement is what another implementation would sign: the shared vector, and each member of it binds."""

import json
from dataclasses import fields, replace
from pathlib import Path

import pytest

from gitops_bot.core.canonical import Digest
from gitops_bot.core.statements import Statement, batch_challenge, hash_text

VECTOR = json.loads((Path(__file__).parents[2] / "vectors" / "verdict.json").read_text())["statements"][0]
NOON = 1_796_040_000_000
STATEMENT = Statement(
    origin="https://ops.example.org",
    workspace="ops",
    person="alice",
    credential="Y3JlZA",
    ask="01jdxm2r7q8v9w0a1b2c3d4e5f",
    verb="capture.approve",
    option="approve",
    text_hash=None,
    action_hash=Digest("sha256:ef2e3b00186c7cb47c3583304955a7bc2568b0c11d1e372aa41b6907b654b04e"),
    policy=Digest("sha256:" + "ab" * 32),
    run_version=1,
    issued_at=NOON,
    nonce="A" * 22,
)


def test_the_challenge_is_that_of_the_shared_vector() -> None:
    assert STATEMENT.document() == VECTOR["statement"]
    assert STATEMENT.challenge().hex() == VECTOR["challenge_sha256_hex"]


@pytest.mark.parametrize("member", [field.name for field in fields(Statement)])
def test_every_member_changes_the_challenge(member: str) -> None:
    value = getattr(STATEMENT, member)
    other = value + 1_000 if isinstance(value, int) else "x"
    assert replace(STATEMENT, **{member: other}).challenge() != STATEMENT.challenge()


def test_the_order_and_length_of_a_batch_count_and_a_batch_of_one_is_no_single_answer() -> None:
    second = replace(STATEMENT, ask="01jdxm2r7q8v9w0a1b2c3d4e5g")
    assert batch_challenge([STATEMENT, second]) == batch_challenge([STATEMENT, second])
    challenges = {
        batch_challenge([STATEMENT, second]),
        batch_challenge([second, STATEMENT]),
        batch_challenge([STATEMENT]),
        STATEMENT.challenge(),
    }
    assert len(challenges) == 4


def test_no_words_and_empty_words_are_told_apart() -> None:
    assert hash_text(None) is None
    assert hash_text("") == "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
