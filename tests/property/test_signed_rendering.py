"""A file says everything that it was made of and nothing else: TOML reads the values back, no two are alike."""

import json
import tomllib
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gitops_bot.core.asks import AskId
from gitops_bot.core.canonical import MAX_INTEGER, Digest, action_bytes, action_hash
from gitops_bot.core.errors import Malformed
from gitops_bot.core.principals import PrincipalName
from gitops_bot.core.verdicts import Decision
from gitops_bot.policy.params import UNPRINTABLE
from gitops_bot.signed.rendering import (
    DECISIONS,
    MAX_REQUEST,
    Request,
    check_request,
    read_request,
    render_file,
    render_message,
    request_bytes,
    show_time,
)
from tests.linear import assert_linear

SHOWN: Any = st.text(st.characters(exclude_categories=sorted(UNPRINTABLE)), max_size=12) | st.sampled_from(
    ['"', "\\", "\\u0041", 'a", "b', "]", "# x", "'''", "true", "1", "😀", "é"]
)
SCALARS = SHOWN | st.integers(-MAX_INTEGER, MAX_INTEGER) | st.booleans()
PARAMS = st.dictionaries(
    st.from_regex(r"[a-z][a-z0-9_]{0,5}", fullmatch=True), SCALARS | st.lists(SCALARS, max_size=3), max_size=4
)
NAMES = st.sampled_from(["alice", "bob", "carol", "a", "a-1"])
SECONDS = st.integers(0, 253_402_300_000).map(lambda seconds: seconds * 1000)


@st.composite
def requests(draw: st.DrawFn) -> Request:
    """Give requests in form, in a space small enough that two differ in one member now and then."""
    repository, environment = draw(st.sampled_from(["github.com/acme/ops", "github.com/acme/op"])), draw(NAMES)
    verb, params = draw(st.sampled_from(["payments.transfer", "pay"])), draw(PARAMS)
    opened = draw(SECONDS)
    return Request(
        repository=repository,
        repository_id=draw(st.integers(1, 3)),
        environment=environment,
        epoch=draw(st.integers(1, 3)),
        ask=AskId(draw(st.sampled_from(["01jdxm2r7q8v9w0a1b2c3d4e5f", "01jdxm2r7q8v9w0a1b2c3d4e5g"]))),
        verb=verb,
        params=params,
        requester=PrincipalName(draw(NAMES)),
        run=draw(st.sampled_from(["r1", "r2"])),
        run_version=draw(st.integers(1, 3)),
        policy=Digest("sha256:" + draw(st.sampled_from("ab")) * 64),
        opened_at=opened,
        expires_at=opened + 1000 * draw(st.integers(1, 3)),
        summary=draw(SHOWN.filter(lambda text: text.strip() and check_summary(text))),
        action_hash=action_hash(action_bytes(repository, environment, verb, params)),
    )


def check_summary(text: str) -> bool:
    """Leave out summaries that show nothing; they are refused and tested elsewhere."""
    return any(char.isalnum() or char in "\"\\]#'" for char in text)


CASES = st.tuples(requests(), NAMES.map(PrincipalName), st.sampled_from(DECISIONS))


@given(CASES)
def test_toml_reads_a_file_back_to_the_same_values(case: tuple[Request, PrincipalName, Decision]) -> None:
    request, person, decision = case
    read = tomllib.loads(render_file(request, person, decision).decode("ascii"))
    names = (
        *("repository", "repository_id", "environment", "epoch", "ask", "verb"),
        *("summary", "action_hash", "policy", "run_version"),
    )
    members = {name: getattr(request, name) for name in names}
    assert read.pop("params") == request.params
    assert read == members | {
        "protocol": "gitops-bot/approval/v1",
        "person": person,
        "decision": decision.value,
        "expires_at": show_time(request.expires_at),
    }


def shown(case: tuple[Request, PrincipalName, Decision]) -> str:
    """Tell what a file must show, in a form that tells 1 from true and a list from its item."""
    request, person, decision = case
    members = {name: getattr(request, name) for name in Request.__slots__}
    for left_out in ("requester", "run", "opened_at"):
        del members[left_out]
    return json.dumps([members, person, decision], sort_keys=True)


@given(CASES, CASES)
def test_no_two_render_the_same_bytes(
    one: tuple[Request, PrincipalName, Decision], other: tuple[Request, PrincipalName, Decision]
) -> None:
    assert (render_file(*one) == render_file(*other)) == (shown(one) == shown(other))
    assert (render_message(*one) == render_message(*other)) == (shown(one) == shown(other))


@given(CASES, SCALARS)
def test_one_changed_parameter_changes_the_bytes(case: tuple[Request, PrincipalName, Decision], value: Any) -> None:
    request, person, decision = case
    changed = Request(
        **{name: getattr(request, name) for name in Request.__slots__} | {"params": {**request.params, "x": value}}
    )
    same = json.dumps(dict(request.params), sort_keys=True) == json.dumps(dict(changed.params), sort_keys=True)
    assert (render_file(request, person, decision) == render_file(changed, person, decision)) == same


@given(requests(), requests())
def test_requests_are_read_back_and_never_alike(one: Request, other: Request) -> None:
    def plain(request: Request) -> str:
        return json.dumps({name: getattr(request, name) for name in Request.__slots__}, sort_keys=True)

    assert check_request(one) is None
    assert plain(replace_params(read_request(request_bytes(one)))) == plain(one)
    assert (request_bytes(one) == request_bytes(other)) == (plain(one) == plain(other))


def replace_params(request: Request) -> Request:
    """Give the parameters as JSON would, for the comparison."""
    members = {name: getattr(request, name) for name in Request.__slots__}
    return Request(**(members | {"params": dict(request.params)}))


def either(raw: bytes) -> None:
    """Let a reader give a value that renders to what it read, or `Malformed`; nothing else may leave it."""
    try:
        request = read_request(raw)
    except Malformed:
        return
    assert request_bytes(request) == raw


@given(st.binary(max_size=300))
def test_nothing_but_malformed_leaves_the_reader(raw: bytes) -> None:
    either(raw)


JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(requests(), st.sampled_from(sorted({*Request.__slots__, "protocol", "x"})), JSON)
def test_nothing_but_malformed_leaves_the_reader_of_a_changed_request(
    request: Request, member: str, value: Any
) -> None:
    members = json.loads(request_bytes(request)) | {member: value}
    either(json.dumps(members, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace"))


@given(requests(), st.integers(0, 2_000), st.binary(max_size=3))
def test_nothing_but_malformed_leaves_the_reader_of_damaged_bytes(request: Request, at: int, junk: bytes) -> None:
    raw = request_bytes(request)
    either(raw[:at] + junk + raw[at + len(junk) :])


def test_reading_costs_as_its_length() -> None:
    def build(size: int) -> Callable[[], object]:
        raw = b'{"summary":"' + b"\\u00e9" * ((size - 20) // 6) + b'"}'
        return lambda: either(raw)

    assert_linear(build, MAX_REQUEST)
