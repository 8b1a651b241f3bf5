"""What a run reads, hands in and hears: exact shapes, and claims that differ in one place are blamed for it."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitops_bot.core.errors import Malformed
from gitops_bot.forge.actions.grammar import (
    DECISIONS,
    LEEWAY,
    MAX_EVENT,
    MOST_LIFE,
    Expected,
    Handed,
    NotOurs,
    NotValid,
    Passed,
    Run,
    Seen,
    Told,
    outputs,
    read_claims,
    read_event,
    read_handed,
    read_told,
    summary,
)
from tests.linear import assert_linear
from tests.workflow_runs import BRANCH, REPOSITORY, REPOSITORY_ID, WORKFLOW, claims_of, event

ISSUER, HERE, NOW = "https://issuer.example", "https://ops.example.org", 1_800_000_000
EXPECTED = Expected(ISSUER, HERE, (REPOSITORY, "acme/other"), WORKFLOW)
TRACE = "model=acme/tiny;c=4;p=2;mt=16;lt=0;lf=0.0000"
LINE = f"/approve-capture {TRACE}"
TIMES = {"iat": NOW, "nbf": NOW, "exp": NOW + 300}


def claims(**changes: Any) -> dict[str, Any]:
    return claims_of(ISSUER, HERE, **{**TIMES, **changes})


def test_a_comment_that_may_be_a_command_is_a_hint() -> None:
    seen = read_event("issue_comment", event(5, 7, f"{LINE}\nbecause"))
    assert seen == Seen(Handed(REPOSITORY_ID, 5, 7), "alice", LINE)
    assert isinstance(read_event("issue_comment", event(5, 7, " /aprove-capture")), Seen), "a near miss gets its reply"


@pytest.mark.parametrize(
    ("name", "raw", "why"),
    [
        ("push", event(5, 7, LINE), "event"),
        ("issue_comment", event(5, 7, LINE, action="edited"), "action"),
        ("issue_comment", event(5, 7, LINE, action="deleted"), "action"),
        ("issue_comment", event(5, 7, LINE, issue={"number": 7}), "issue"),
        ("issue_comment", event(5, 7, LINE, issue={"number": 7, "pull_request": None}), "issue"),
        ("issue_comment", event(5, 7, "looks fine to me"), "no_command"),
        ("issue_comment", event(5, 7, f"> {LINE}"), "no_command"),
        ("issue_comment", event(5, 7, None), "no_command"),
    ],
)
def test_anything_else_is_passed_over(name: str, raw: bytes, why: str) -> None:
    assert read_event(name, raw) == Passed(why)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        b'{"action": "created", "action": "created"}',
        b'{"action": "created"}',
        b'{"action": "created", "issue": {"number": NaN}}',
        b"\xff\xfe",
        event(5, 7, 3),
        event(0, 7, LINE),
        event(2**60, 7, LINE),
        event(5, 7, LINE, repository={"id": "77"}),
        event(5, 7, LINE, repository={"id": True}),
        event(5, 7, "\ud800"),
        b" " * (MAX_EVENT + 1),
        b'{"action": ' + b"[" * 100_000,
    ],
    ids=range(14),
)
def test_what_is_no_event_is_malformed(raw: bytes) -> None:
    with pytest.raises(Malformed):
        read_event("issue_comment", raw)


def test_a_hint_is_exactly_three_ids() -> None:
    good = {"repository_id": 77, "comment_id": 5, "pull_request": 7}
    assert read_handed(json.dumps(good).encode()) == Handed(77, 5, 7)
    for wrong in (
        {**good, "more": 1},
        {**good, "comment_id": "5"},
        {**good, "comment_id": -5},
        {"comment_id": 5},
        [],
        3,
    ):
        with pytest.raises(Malformed):
            read_handed(json.dumps(wrong).encode())


def test_an_answer_is_words_and_an_id() -> None:
    """Whatever a broker would say, nothing of it can end a value, a line or a table where it is written."""
    ask = "01jz" + "0" * 22
    assert read_told(json.dumps({"decision": "pending", "reason": "new", "ask": ask}).encode()) == Told(
        "pending", "new", ask
    )
    good = {"decision": "deny", "reason": "settled", "ask": None}
    assert read_told(json.dumps(good).encode()).ask is None
    for wrong in (
        {"decision": "yes"},
        {"reason": "new\nask=1"},
        {"reason": "`x`"},
        {"reason": ""},
        {"reason": 3},
        {"ask": "x"},
        {"ask": ask + "\n"},
        {"ask": ask.upper()},
    ):
        with pytest.raises(Malformed):
            read_told(json.dumps({**good, **wrong}).encode())


def test_a_run_of_the_workflow_is_ours() -> None:
    found = read_claims(claims(jti="t"), EXPECTED, NOW)
    assert found == Run(REPOSITORY_ID, REPOSITORY, "t", NOW + 300)
    assert isinstance(read_claims(claims(aud=[HERE]), EXPECTED, NOW), Run)
    assert isinstance(read_claims(claims(job_workflow_ref=None, nbf=None, ref_type=None), EXPECTED, NOW), Run)
    renamed = {"repository": "Acme/Ops", "workflow_ref": f"Acme/Ops/{WORKFLOW}@{BRANCH}", "job_workflow_ref": None}
    assert isinstance(read_claims(claims(**renamed), EXPECTED, NOW), Run), "names differ in case alone"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"iss": ISSUER + "/"}, "another issuer"),
        ({"iss": None}, "another issuer"),
        ({"aud": HERE + "/"}, "another audience"),
        ({"aud": "https://github.com/acme"}, "another audience"),
        ({"aud": [HERE, "https://other.example"]}, "another audience"),
        ({"aud": None}, "another audience"),
        ({"exp": NOW - LEEWAY}, "expired"),
        ({"exp": None}, "no times"),
        ({"exp": True}, "no times"),
        ({"exp": "1800000300"}, "no times"),
        ({"exp": NOW + 300.5}, "no times"),
        ({"iat": None}, "no times"),
        ({"iat": NOW + LEEWAY + 1}, "not valid yet"),
        ({"nbf": NOW + LEEWAY + 1}, "not valid yet"),
        ({"nbf": "now"}, "no times"),
        ({"exp": NOW + MOST_LIFE + 1}, "it lives too long"),
        ({"jti": None}, "no id"),
        ({"jti": ""}, "no id"),
        ({"jti": "x" * 201}, "no id"),
        ({"jti": "a\x00b"}, "no id"),
        ({"jti": 7}, "no id"),
    ],
)
def test_a_token_that_stands_for_nothing_is_not_valid(changes: dict[str, Any], why: str) -> None:
    assert read_claims(claims(**changes), EXPECTED, NOW) == NotValid(why)
    assert isinstance(read_claims(claims(), EXPECTED, NOW), Run)


def test_clocks_may_differ_by_a_minute() -> None:
    for changes in ({"exp": NOW - LEEWAY + 1}, {"iat": NOW + LEEWAY}, {"nbf": NOW + LEEWAY}):
        assert isinstance(read_claims(claims(**changes), EXPECTED, NOW), Run)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"event_name": "workflow_dispatch"}, "another event"),
        ({"event_name": "pull_request_target"}, "another event"),
        ({"event_name": None}, "another event"),
        ({"repository_id": 77}, "no repository_id"),
        ({"repository_id": "077"}, "no repository_id"),
        ({"repository_id": "7" * 17}, "no repository_id"),
        ({"repository_id": "٧٧"}, "no repository_id"),
        ({"repository": "mallory/ops"}, "another repository"),
        ({"repository": "acme/ops/.github"}, "another repository"),
        ({"repository": None}, "another repository"),
        ({"repository": "acme/other"}, "another workflow"),
        ({"ref": "refs/heads/other"}, "another workflow"),
        ({"ref": "refs/tags/main"}, "not of a branch"),
        ({"ref": "refs/pull/7/merge"}, "not of a branch"),
        ({"ref": None}, "not of a branch"),
        ({"ref_type": "tag"}, "not of a branch"),
        ({"workflow_ref": f"{REPOSITORY}/.github/workflows/other.yml@{BRANCH}"}, "another workflow"),
        ({"workflow_ref": f"{REPOSITORY}/{WORKFLOW}@refs/heads/other"}, "another workflow"),
        ({"workflow_ref": f"mallory/ops/{WORKFLOW}@{BRANCH}"}, "another workflow"),
        ({"workflow_ref": f"{REPOSITORY}/{WORKFLOW}@{BRANCH}@{BRANCH}"}, "another workflow"),
        ({"workflow_ref": None}, "another workflow"),
        ({"job_workflow_ref": f"mallory/tools/{WORKFLOW}@{BRANCH}"}, "another workflow"),
    ],
)
def test_a_run_of_something_else_is_not_ours(changes: dict[str, Any], why: str) -> None:
    assert read_claims(claims(**changes), EXPECTED, NOW) == NotOurs(why)
    assert isinstance(read_claims(claims(), EXPECTED, NOW), Run)


NASTY = ("${{ github.token }}", "`id`", "$(id)", "a\nb", "a\x00b", "🚀", "</details><script>", "@alice #1", "\u202eabc")


@pytest.mark.parametrize("text", NASTY)
def test_nothing_of_others_is_live_in_outputs_or_summary(text: str) -> None:
    """Only words and an id are outputs; in the summary, what others wrote is one line of code, however spelled."""
    seen = Seen(Handed(77, 5, 7), text, f"/approve-capture {text}")
    told = Told("pending", "new", "01jz" + "0" * 22)
    written = summary(told, seen)
    quoted = [line for line in written.splitlines() if line.startswith("Comment 5")]
    assert re.fullmatch(r"Comment 5 on pull request 7 by `[^`]+`: `[^`]+`", quoted[0])
    assert len(written.splitlines()) == len(summary(told, Seen(seen.hint, "alice", "x")).splitlines())
    for live in ("\x00", "\u202e", "@alice", "</", "<script"):
        assert live not in written
    assert text not in outputs(told, "d")
    assert outputs(told, "d").splitlines()[:3] == ["decision<<d", "pending", "d"]


@given(st.binary(max_size=300) | st.builds(json.dumps, st.recursive(st.none() | st.text() | st.integers(),
       lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))).map(str.encode))  # fmt: skip
def test_nothing_but_its_error_leaves_it(raw: bytes) -> None:
    for read in (lambda: read_event("issue_comment", raw), lambda: read_handed(raw), lambda: read_told(raw)):
        try:
            read()
        except Malformed:
            continue


@given(st.dictionaries(st.sampled_from(sorted(claims())), st.none() | st.text() | st.integers() | st.lists(st.text())))
def test_claims_of_any_kind_are_judged(found: dict[str, Any]) -> None:
    assert isinstance(read_claims({**claims(), **found}, EXPECTED, NOW), Run | NotValid | NotOurs)


@given(st.text(max_size=60), st.text(max_size=300))
def test_a_summary_keeps_its_lines(author: str, line: str) -> None:
    for decision in DECISIONS:
        written = summary(Told(decision, "new"), Seen(Handed(1, 2, 3), author, line))
        assert [row for row in written.split("\n") if row.startswith("Comment 2")] != []
        assert written.count("`") == 8


def test_an_event_is_read_in_linear_time() -> None:
    assert_linear(lambda size: lambda: read_event("issue_comment", event(5, 7, "x", pad="é" * size)), 400_000)
