"""Values have one canonical form, that of RFC 8785, and the digests over it are those of the shared vectors."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from gitops_bot.core.canonical import (
    MAX_DEPTH,
    MAX_INTEGER,
    action_bytes,
    action_hash,
    bundle_digest,
    canonical,
    digest,
    question_hash,
    text_digest,
)
from gitops_bot.core.errors import Malformed
from gitops_bot.core.strictjson import loads

VECTORS = Path(__file__).parents[2] / "vectors"
ACTIONS = json.loads((VECTORS / "action.json").read_bytes())
BUNDLES = json.loads((VECTORS / "bundle.json").read_bytes())["bundles"]
STATEMENTS = json.loads((VECTORS / "verdict.json").read_bytes())["statements"]

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
INTEGERS = st.integers(-MAX_INTEGER, MAX_INTEGER)
VALUES = st.recursive(
    st.none() | st.booleans() | INTEGERS | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)


def bytes_of(action: dict[str, Any]) -> bytes:
    domain = action["domain"]
    return action_bytes(domain["repository"], domain["environment"], action["verb"], action["params"])


@pytest.mark.parametrize("case", ACTIONS["hash"], ids=lambda case: case["name"])
def test_an_actions_bytes_and_hash_are_those_of_the_vectors(case: dict[str, Any]) -> None:
    assert bytes_of(case["action"]).hex() == case["canonical_utf8_hex"]
    assert action_hash(bytes_of(case["action"])) == case["hash"]


@pytest.mark.parametrize("case", ACTIONS["refused"], ids=lambda case: case["name"])
def test_what_has_no_canonical_form_is_refused(case: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        action_bytes("github.com/acme/ops", "production", "some.verb", loads(case["params_json"].encode()))


def test_the_same_text_with_an_allowed_value_is_taken() -> None:
    assert action_bytes("github.com/acme/ops", "production", "some.verb", loads(b'{"x":1}'))


@pytest.mark.parametrize("case", BUNDLES, ids=lambda case: f"{len(case['files'])} files")
def test_a_bundles_digest_is_that_of_the_vectors(case: dict[str, Any]) -> None:
    assert bundle_digest({path: text.encode() for path, text in case["files"].items()}) == case["digest"]


def test_bytes_do_not_move_between_the_files_of_a_bundle() -> None:
    """The length before each file keeps two bundles apart whose concatenation is the same."""
    assert bundle_digest({"a.toml": b"12", "b.toml": b"3"}) != bundle_digest({"a.toml": b"1", "b.toml": b"23"})


@pytest.mark.parametrize("case", STATEMENTS, ids=lambda case: case["statement"]["verb"])
def test_a_verdicts_challenge_is_that_of_the_vectors(case: dict[str, Any]) -> None:
    challenge = digest("gitops-bot/verdict/v1", canonical(case["statement"]))
    assert challenge == "sha256:" + case["challenge_sha256_hex"]


@given(VALUES)
def test_canonical_agrees_with_an_independent_implementation_of_rfc_8785(value: Any) -> None:
    assert canonical(value) == rfc8785.dumps(value)


@given(VALUES)
def test_canonical_bytes_read_back_as_the_same_value(value: Any) -> None:
    assert json.loads(canonical(value)) == value


def test_keys_are_sorted_by_utf_16_code_units() -> None:
    """RFC 8785 section 3.2.3: the order differs from that of code points above U+FFFF."""
    assert canonical({"\ufb33": 1, "\U0001f600": 2}) == '{"\U0001f600":2,"\ufb33":1}'.encode()


@pytest.mark.parametrize(
    "value",
    [
        1.0,
        float("nan"),
        MAX_INTEGER + 1,
        -MAX_INTEGER - 1,
        "\ud800",
        {"\udfff": 1},
        {1: 2},
        b"bytes",
        {1, 2},
        object(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_another_kind_of_value_is_refused(value: Any) -> None:
    with pytest.raises(Malformed):
        canonical(value)


@pytest.mark.parametrize("value", [MAX_INTEGER, -MAX_INTEGER, "\U0010ffff", True, None, (1, "a")], ids=ascii)
def test_values_at_the_edge_are_taken(value: Any) -> None:
    assert canonical(value) == rfc8785.dumps(value)


def test_nesting_is_bounded() -> None:
    value: Any = 1
    for _ in range(MAX_DEPTH):
        value = [value]
    assert canonical(value)
    with pytest.raises(Malformed, match="deeper"):
        canonical([value])


def test_params_are_an_object() -> None:
    with pytest.raises(Malformed):
        action_bytes("r", "e", "v", [1])  # type: ignore[arg-type] # what a caller without types could do


def test_a_question_binds_its_text_and_every_option() -> None:
    options = [("o1", "yes"), ("o2", "no")]
    hashes = {
        question_hash("Go on?", options),
        question_hash("Go on", options),
        question_hash("Go on?", options[:1]),
        question_hash("Go on?", options[::-1]),
        question_hash("Go on?", [("o1", "yes"), ("o2", "No")]),
        question_hash("Go on?", []),
    }
    assert len(hashes) == 6
    assert question_hash("Go on?", options) == question_hash("Go on?", list(options))


def test_a_digest_is_tagged() -> None:
    assert digest("a", b"bc") != digest("ab", b"c")
    assert digest("t", b"x") == "sha256:" + hashlib.sha256(b"t\x00x").hexdigest()
    assert text_digest("é") == "sha256:" + hashlib.sha256("é".encode()).hexdigest()
