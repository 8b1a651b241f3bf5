"""What the bot proposes is fixed by the facts alone, says all a person needs, and cannot act."""

import json
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from gitops_bot.core.asks import AskId
from gitops_bot.core.captures import Regime, TraceId, parse_trace_id
from gitops_bot.core.errors import Malformed
from gitops_bot.forge.drafts import Proposal, branch_name, calibration_json, calibration_path, draft, request_path

CASES = tomllib.loads((Path(__file__).parents[2] / "vectors" / "forge-comments.toml").read_text(encoding="utf-8"))
T = TraceId(CASES["T"])
PROPOSAL = Proposal(
    ask=AskId("01jf8zq0v6m3k2n4p5r6s7t8v9"),
    regime=parse_trace_id(T),
    why="The queue never fills at 32.\nPlease widen it.",
    requester="tuner",
    cost="about 4 GPU minutes on one machine",
    may_vote=("alice", "bob"),
    needed=1,
    expires_at=1_764_547_200_000,
)


def test_the_branch_counts_from_its_second_turn_on() -> None:
    assert branch_name(T).startswith("capture/qwen3-0-6b-")
    assert branch_name(T, 2) == branch_name(T) + "-2"
    assert request_path(T) == f"captures/{branch_name(T).removeprefix('capture/')}/request.json"
    assert calibration_path(T).endswith("/calibration.json")


def test_the_request_file_holds_the_request_and_no_binding() -> None:
    made = draft(PROPOSAL)
    (path, content), *more = made.files.items()
    assert (path, more) == (request_path(T), [])
    document = json.loads(content)
    assert document == {
        "v": 1,
        "ask": PROPOSAL.ask,
        "trace_id": T,
        "regime": PROPOSAL.regime.params(),
        "requester": "tuner",
        "why": PROPOSAL.why,
    }
    assert draft(PROPOSAL) == made


def test_a_request_with_unprintable_reasons_is_still_written() -> None:
    """An agent's text can neither stop the proposal nor hide in the file."""
    (content,) = draft(replace(PROPOSAL, why="\ud800\u202e\x00" + "x" * 5000)).files.values()
    why = json.loads(content)["why"]
    assert why.startswith("\\ud800\\u202e\\u0000x")
    assert why.endswith("…")
    assert len(why) < 2100


def test_the_body_says_what_it_costs_who_decides_until_when_and_what_to_paste() -> None:
    text = draft(PROPOSAL).body
    for said in (
        "48 requests at once",
        "about 4 GPU minutes",
        "`alice`, `bob`; needed: 1",
        "2025-12-01 00:00 UTC",
        f"\n    /approve-capture {T}\n    /deny-capture {T}\n",
        "│ The queue never fills at 32.\n│ Please widen it.\n",
    ):
        assert said in text


def test_the_longest_model_name_fits_a_title() -> None:
    """GitHub refuses titles of more than 256 characters only far beyond a model's longest name with its words."""
    long = Regime("/".join(["a" * 64] * 3), 9_999_999, 0, 0, 0, "0.0000")
    assert len(draft(replace(PROPOSAL, regime=long)).title) <= 256


def test_the_calibration_file_is_canonical_and_takes_strings_only() -> None:
    assert (
        calibration_json({"b": "1.5", "a": "2"}, "sha256:00", "traces/x.json")
        == b'{"digest":"sha256:00","knobs":{"a":"2","b":"1.5"},"place":"traces/x.json","v":1}\n'
    )
    with pytest.raises(Malformed):
        calibration_json({"a": 1.5}, "sha256:00", "x")  # type: ignore[dict-item]  # what the types forbid is refused too
