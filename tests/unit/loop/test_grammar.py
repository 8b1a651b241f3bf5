"""What a turn and a judge leave: read exactly, or refused; and the contract says what is read, and nothing else."""

import json
from pathlib import Path
from typing import Any

import pytest

from gitops_bot.core.errors import Malformed
from gitops_bot.loop.grammar import (
    CANDIDATE_FILE,
    ESCALATION_FILE,
    MARKER_FIELDS,
    MARKER_FILE,
    MAX_MARKER,
    MODES,
    REGIME_FIELDS,
    Escalation,
    Marker,
    Measurement,
    Mode,
    parse_escalation,
    parse_marker,
    parse_measurement,
)
from gitops_bot.loop.prompt import contract

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "loop.json").read_text())


def marker(**changes: Any) -> bytes:
    value = {**VECTORS["trace_id"][0], "handle": "cap-1", "mode": "block", **changes}
    return json.dumps({name: member for name, member in value.items() if member is not ...}).encode()


@pytest.mark.parametrize("vector", VECTORS["trace_id"], ids=lambda vector: vector["trace_id"])
def test_trace_id_and_regime_of_the_vectors_agree(vector: dict[str, Any]) -> None:
    read = parse_marker(json.dumps({**vector, "handle": "h"}).encode())
    assert read == Marker(vector["trace_id"], "h", None)


def test_modes_and_unknown_members() -> None:
    assert parse_marker(marker(mode="continue", more=[1])).mode is Mode.CONTINUE
    assert parse_marker(marker(mode=None)).mode is None


@pytest.mark.parametrize("trace_id", VECTORS["trace_id_refused"])
def test_refused_trace_ids(trace_id: str) -> None:
    with pytest.raises(Malformed):
        parse_marker(marker(trace_id=trace_id))


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        b"null",
        marker(regime=...),
        marker(regime=[]),
        marker(trace_id=...),
        marker(trace_id="model=Qwen/Qwen3-0.6B;c=49;p=8;mt=8;lt=0;lf=0.0000"),
        marker(handle=...),
        marker(handle=""),
        marker(handle="a\nb"),
        marker(handle="x" * 513),
        marker(mode="park"),
        marker(mode=1),
        marker(mode=["block"]),
        marker()[:-1] + b',"mode":"continue"}',
        marker() + b" " * MAX_MARKER,
        b"[" * 60_000,
    ],
)
def test_anything_else_is_malformed(raw: bytes) -> None:
    with pytest.raises(Malformed):
        parse_marker(raw)


def test_an_escalation_needs_a_reason_and_is_cut() -> None:
    assert parse_escalation(b'{"reason":"r"}') == Escalation("unspecified", "r")
    assert parse_escalation(b'{"category":"c","reason":"r","evidence":"e"}') == Escalation("c", "r", "e")
    assert len(parse_escalation(json.dumps({"reason": "r" * 9999}).encode()).reason) == 4096
    for raw in (b"{}", b'{"reason":" "}', b'{"reason":1}', b"[]"):
        with pytest.raises(Malformed):
            parse_escalation(raw)


def test_a_score_is_a_finite_number() -> None:
    assert parse_measurement(b' {"score": 3, "detail": "d"}\n') == Measurement(3.0)
    assert parse_measurement(b'{"score": -0.5, "solved": true}') == Measurement(-0.5, True)
    assert parse_measurement(b'{"score": 1, "solved": 1}').solved is False
    for raw in (b"", b"3", b'{"score":"3"}', b'{"score":true}', b'{"score":NaN}', b'{"score":1e999}', b'{"score":1}x'):
        with pytest.raises(Malformed):
            parse_measurement(raw)


def test_the_contract_says_everything_that_is_read() -> None:
    text = contract()
    for word in (*MARKER_FIELDS, *REGIME_FIELDS, *MODES, MARKER_FILE, ESCALATION_FILE, CANDIDATE_FILE):
        assert word in text


def test_everything_the_contract_names_is_read() -> None:
    """Each member that the contract quotes for the marker changes what is read, or whether."""
    quoted = {line.split('"')[1] for line in contract().splitlines() if line.startswith('  "')}
    assert quoted == set(MARKER_FIELDS)
    for name in quoted - {"mode"}:
        with pytest.raises(Malformed):
            parse_marker(marker(**{name: ...}))
    assert parse_marker(marker(mode=...)) != parse_marker(marker())
