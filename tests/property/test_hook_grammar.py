"""Over all bytes: nothing but `Malformed` leaves the webhook grammar, only ids go on, and its cost is linear."""

import contextlib
import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitops_bot.core.errors import Malformed
from gitops_bot.core.readings import CommentHint
from gitops_bot.forge.hooks.grammar import (
    EVENTS,
    MAX_BODY,
    PULL_ACTIONS,
    CheckPressed,
    Ignored,
    InstallationChanged,
    Ping,
    PullHint,
    ReviewHint,
    hint_of,
)
from tests.linear import assert_linear

MEMBERS = (
    "action", "issue", "comment", "pull_request", "repository", "id", "number", "body", "updated_at", "draft", "review",
    "check_run", "external_id", "requested_action", "identifier", "installation", "app_id", "zen", "hook_id",
)  # fmt: skip
ASK = "01hzzzzzzzzzzzzzzzzzzzzzzz"
_value = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.text(max_size=5),
        st.sampled_from(["created", "closed", "\ud800", ASK]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(MEMBERS),
            inner,
            max_size=6,
        ),
    ),
    max_leaves=20,
)
EXAMPLES = {
    "issue_comment": {
        "action": "created",
        "issue": {"number": 3, "pull_request": {}},
        "comment": {"id": 4, "body": "b", "updated_at": "1970-01-01T00:00:01Z"},
        "repository": {"id": 2},
    },
    "pull_request": {
        "action": "closed",
        "number": 3,
        "pull_request": {"number": 3, "draft": False},
        "repository": {"id": 2},
    },
    "pull_request_review": {
        "action": "submitted",
        "review": {"id": 7, "body": "b"},
        "pull_request": {"number": 3},
        "repository": {"id": 2},
    },
    "check_run": {
        "action": "requested_action",
        "check_run": {"external_id": ASK},
        "requested_action": {"identifier": "refresh"},
        "repository": {"id": 2},
    },
    "installation": {"action": "suspend", "installation": {"id": 5, "app_id": 6}},
    "ping": {"zen": "z", "hook_id": 1},
}
READ = {
    "issue_comment": CommentHint(2, 4, 3, "b", 1000),
    "pull_request": PullHint(2, 3, "closed"),
    "pull_request_review": ReviewHint(2, 7, 3, "b"),
    "check_run": CheckPressed(2, ASK, "refresh"),
    "installation": InstallationChanged(6, 5, "suspend"),
    "ping": Ping(),
}


def _bytes(document: object) -> bytes:
    return json.dumps(document).encode()


@given(st.one_of(st.sampled_from(EVENTS), st.text(max_size=5)), st.one_of(st.binary(), _value.map(_bytes)))
def test_nothing_but_malformed_leaves_it(event: str, body: bytes) -> None:
    try:
        hint = hint_of(event, body)
    except Malformed:
        return
    if isinstance(hint, CommentHint | PullHint | ReviewHint | CheckPressed):
        assert hint.repository_id > 0


@pytest.mark.parametrize("event", EXAMPLES)
def test_each_event_is_read_as_its_hint_and_under_no_other_name(event: str) -> None:
    body = _bytes(EXAMPLES[event])
    assert hint_of(event, body) == READ[event]
    for other in (*EVENTS, "push", ""):
        if other.split("_")[0] != event:
            assert isinstance(hint_of(other, body), Ignored) or other == event


@pytest.mark.parametrize("event", [name for name in EXAMPLES if name != "ping"])
@given(data=st.data())
def test_a_member_that_is_of_another_kind_makes_it_nothing(event: str, data: st.DataObject) -> None:
    """Each member that is read is needed: without it, or with another kind of value, nothing goes on."""
    paths = [
        (outer, inner)
        for outer, value in EXAMPLES[event].items()
        for inner in (value if isinstance(value, dict) else (None,))
        if inner != "draft"
    ]
    outer, inner = data.draw(st.sampled_from(paths))
    wrong = data.draw(st.sampled_from([None, True, -1, 0, 1.5, 2**60, []]))
    document = json.loads(json.dumps(EXAMPLES[event]))
    if inner is None:
        document[outer] = wrong
    else:
        document[outer][inner] = wrong
    assert isinstance(hint_of(event, _bytes(document)), Ignored)


@pytest.mark.parametrize("action", ["opened", "reopened", "labeled", "Closed", ""])
def test_other_actions_of_a_pull_request_are_ignored(action: str) -> None:
    assert isinstance(hint_of("pull_request", _bytes({**EXAMPLES["pull_request"], "action": action})), Ignored)
    for ours in PULL_ACTIONS:
        assert isinstance(hint_of("pull_request", _bytes({**EXAMPLES["pull_request"], "action": ours})), PullHint)


@pytest.mark.parametrize("action", ["dismissed", "created", "Submitted", ""])
def test_only_a_review_s_text_as_written_or_changed_is_looked_at(action: str) -> None:
    review = EXAMPLES["pull_request_review"]
    assert isinstance(hint_of("pull_request_review", _bytes({**review, "action": action})), Ignored)
    wordless = {**review, "review": {"id": 7, "body": None}}
    assert isinstance(hint_of("pull_request_review", _bytes(wordless)), Ignored)
    assert hint_of("pull_request_review", _bytes({**review, "action": "edited"})) == ReviewHint(2, 7, 3, "b")


@pytest.mark.parametrize("identifier", ["approve", "deny", "Refresh", ""])
def test_a_button_asks_for_nothing_but_to_see(identifier: str) -> None:
    pressed = {**EXAMPLES["check_run"], "requested_action": {"identifier": identifier}}
    assert isinstance(hint_of("check_run", _bytes(pressed)), Ignored)
    pressed["requested_action"] = {"identifier": "help"}
    assert isinstance(hint_of("check_run", _bytes(pressed)), CheckPressed)


def test_a_comment_on_an_issue_is_none_of_the_bot_s() -> None:
    document = {**EXAMPLES["issue_comment"], "issue": {"number": 3}}
    assert hint_of("issue_comment", _bytes(document)) == Ignored("issue")


@pytest.mark.parametrize(
    "build",
    [
        lambda size: b'{"a":"' + b"\\u0041" * (size // 6 - 2) + b'"}',
        lambda size: b"[" * size,
        lambda size: b'{"a":[' + b"1," * (size // 2 - 8) + b"1]}",
        lambda size: b'{"a":"' + b'\\"' * (size // 2 - 6) + b'"}',
        lambda size: b'{"a":' + b"9" * (size - 8) + b"}",
    ],
)
def test_its_cost_is_linear_up_to_the_cap(build: Callable[[int], bytes]) -> None:
    def work(size: int) -> Callable[[], object]:
        body = build(size)

        def read() -> None:
            with contextlib.suppress(Malformed):
                hint_of("pull_request", body)

        return read

    assert_linear(work, MAX_BODY)
