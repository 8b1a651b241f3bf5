"""What a person signs is a pure function of request, person and decision, byte for byte that of the shared vectors."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gitops_bot.core.canonical import action_bytes, action_hash, canonical
from gitops_bot.core.errors import Malformed, Reason
from gitops_bot.core.principals import PrincipalName
from gitops_bot.core.verdicts import Decision
from gitops_bot.policy.summary import show_money
from gitops_bot.signed.rendering import (
    MAX_FILE,
    MAX_REQUEST,
    REQUEST,
    Request,
    check_request,
    in_seconds,
    read_request,
    read_time,
    render_file,
    render_message,
    request_bytes,
    short_code,
    show_time,
)

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "approval.json").read_bytes())
ALICE = PrincipalName("alice")


def request_of(vector: dict[str, Any], **changed: Any) -> Request:
    """Make a request of a vector's members, with what the vectors leave to the request alone."""
    members = {
        "requester": "worker",
        "run": "01jdxm2r7q8v9w0a1b2c3d4e5g",
        "opened_at": read_time("2026-11-24T12:00:00Z"),
    }
    members |= vector["request"] | {"expires_at": read_time(vector["request"]["expires_at"])}
    return Request(**(members | changed))


def with_params(params: dict[str, Any], **changed: Any) -> Request:
    """Make a request of other parameters whose action hash is theirs."""
    request = request_of(VECTORS["approvals"][0], **changed)
    bound = action_hash(action_bytes(request.repository, request.environment, request.verb, params))
    return replace(request, params=params, action_hash=bound)


FIRST = request_of(VECTORS["approvals"][0])
RAW = request_bytes(FIRST)


@pytest.mark.parametrize(
    "vector", VECTORS["approvals"], ids=lambda v: f"{v['person']}-{v['decision']}-{v['request']['verb']}"
)
def test_files_and_messages_are_those_of_the_vectors(vector: dict[str, Any]) -> None:
    request, person, decision = request_of(vector), PrincipalName(vector["person"]), Decision(vector["decision"])
    file = render_file(request, person, decision)
    assert file.decode("ascii") == vector["file"]
    assert hashlib.sha256(file).hexdigest() == vector["file_sha256"]
    assert render_message(request, person, decision).decode("ascii") == vector["message"]


@pytest.mark.parametrize("vector", VECTORS["approvals"], ids=lambda v: f"{v['person']}-{v['decision']}")
def test_what_is_read_back_renders_the_same(vector: dict[str, Any]) -> None:
    """The broker renders from its stored request bytes, not from the value that it once had."""
    request = read_request(request_bytes(request_of(vector)))
    assert request_bytes(request) == request_bytes(request_of(vector))
    file = render_file(request, PrincipalName(vector["person"]), Decision(vector["decision"]))
    assert file.decode("ascii") == vector["file"]


@pytest.mark.parametrize("vector", VECTORS["money"], ids=lambda v: v["shown"])
def test_money_is_shown_with_the_digits_of_its_currency(vector: dict[str, Any]) -> None:
    assert show_money(vector["minor"], vector["currency"]) == vector["shown"]


def test_the_request_holds_exactly_the_members_of_the_protocol() -> None:
    expected = (
        "protocol repository repository_id environment epoch ask verb params requester run run_version policy"
        " opened_at expires_at summary action_hash"
    )
    members = json.loads(RAW)
    assert members.keys() == set(expected.split())
    assert (members["protocol"], members["opened_at"]) == (REQUEST, "2026-11-24T12:00:00Z")


def altered(change: Callable[[dict[str, Any]], object]) -> bytes:
    """Give the canonical bytes of the request after a change of its members."""
    members = json.loads(RAW)
    change(members)
    return canonical(members)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        RAW + b"\n",
        b" " + RAW,
        b"\xef\xbb\xbf" + RAW,
        json.dumps(json.loads(RAW)).encode(),
        RAW.replace(b'"epoch":1,', b'"epoch":1,"epoch":1,'),
        RAW.replace(b'"epoch":1,', b'"epoch":1.0,'),
        RAW.replace(b"EUR", b"\\u0045UR"),
        b"[" * 100_000,
        b" " * (MAX_REQUEST + 1),
    ],
    ids=["empty", "list", "newline", "blank", "BOM", "blanks", "twice", "float", "escaped", "deep", "large"],
)
def test_other_bytes_of_the_same_request_are_malformed(raw: bytes) -> None:
    assert read_request(RAW) == FIRST
    with pytest.raises(Malformed):
        read_request(raw)


MEMBER_FAULTS: dict[str, Callable[[dict[str, Any]], object]] = {
    "one more": lambda m: m.update(nonce="x"),
    "one less": lambda m: m.pop("run"),
    "another protocol": lambda m: m.update(protocol="gitops-bot/request/v2"),
    "repository with a blank": lambda m: m.update(repository="github.com/acme/o ps"),
    "repository id as text": lambda m: m.update(repository_id="7001"),
    "repository id as truth": lambda m: m.update(repository_id=True),
    "repository id zero": lambda m: m.update(repository_id=0),
    "environment in capitals": lambda m: m.update(environment="Production"),
    "ask in capitals": lambda m: m.update(ask=m["ask"].upper()),
    "ask cut": lambda m: m.update(ask=m["ask"][1:]),
    "verb out of form": lambda m: m.update(verb="payments transfer"),
    "no requester": lambda m: m.update(requester=None),
    "run version zero": lambda m: m.update(run_version=0),
    "policy cut": lambda m: m.update(policy=m["policy"][:-1]),
    "half a second": lambda m: m.update(opened_at="2026-11-24T12:00:00.5Z"),
    "an offset": lambda m: m.update(opened_at="2026-11-24T12:00:00+00:00"),
    "a leap second": lambda m: m.update(opened_at="2026-11-24T12:00:60Z"),
    "no such day": lambda m: m.update(opened_at="2026-02-30T12:00:00Z"),
    "digits of another script": lambda m: m.update(opened_at="٢٠٢٦-11-24T12:00:00Z"),
    "before 1970": lambda m: m.update(opened_at="1969-12-31T23:59:59Z"),
    "a number for a time": lambda m: m.update(opened_at=0),
    "ends before it opens": lambda m: m.update(expires_at="2026-11-24T12:00:00Z"),
    "summary a list": lambda m: m.update(summary=[]),
    "params a list": lambda m: m.update(params=[]),
    "a parameter null": lambda m: m["params"].update(to=None),
    "another amount": lambda m: m["params"].update(amount_minor=125001),
    "another environment": lambda m: m.update(environment="staging"),
    "another verb": lambda m: m.update(verb="payments.refund"),
    "hash of something else": lambda m: m.update(action_hash=m["policy"]),
}


@pytest.mark.parametrize("fault", MEMBER_FAULTS)
def test_a_member_out_of_form_is_malformed(fault: str) -> None:
    assert read_request(altered(lambda m: m.update(epoch=2))).epoch == 2
    with pytest.raises(Malformed):
        read_request(altered(MEMBER_FAULTS[fault]))


@pytest.mark.parametrize("char", ["\x00", "\n", "\x7f", "\u200b", "\u202e", "\u2028", "\u2029", "\ue000", "\u0378"])
def test_what_cannot_be_shown_is_refused_at_the_request(char: str) -> None:
    """A direction mark or a zero-width blank would let a person sign what they did not read."""
    shown = {"to": "Café Zürich 😀"}
    assert check_request(with_params(shown, summary="Café")) is None
    for request in (
        with_params({"to": f"a{char}b"}),
        with_params({"to": [f"a{char}b"]}),
        with_params(shown, summary=f"a{char}b"),
    ):
        refused = check_request(request)
        assert refused is not None
        assert refused.reason is Reason.UNPRINTABLE
        with pytest.raises(Malformed):
            request_bytes(request)


@pytest.mark.parametrize(
    "params",
    [
        {"To": 1},
        {"to-whom": 1},
        {"1": 1},
        {"": 1},
        {"a" * 65: 1},
        {"a": None},
        {"a": {"b": 1}},
        {"a": [["b"]]},
        {"a": [None]},
    ],
    ids=str,
)
def test_parameters_are_scalars_and_flat_lists_under_plain_names(params: dict[str, Any]) -> None:
    assert check_request(with_params({"a" * 64: [1, True, "x"], "b": [], "c": -1, "d": False})) is None
    refused = check_request(with_params(params))
    assert refused is not None
    assert refused.reason is Reason.BAD_PARAMS


@pytest.mark.parametrize("summary", ["", " ", "\u00a0", "\u3164"])
def test_a_summary_that_shows_nothing_is_refused(summary: str) -> None:
    """The message of such a commit would be cut by git, and the person would read nothing."""
    assert check_request(replace(FIRST, summary="x")) is None
    refused = check_request(replace(FIRST, summary=summary))
    assert refused is not None
    assert refused.reason is Reason.BAD_PARAMS


def test_a_request_whose_file_nobody_could_push_is_refused() -> None:
    """A file over 8 KiB is refused at the vote, so the ask could never be answered."""
    for length in range(7_000, MAX_FILE):
        request = with_params({"to": "x" * length})
        longest = len(render_file(request, PrincipalName("p" * 32), Decision.REVOKE))
        if longest == MAX_FILE:
            break
    assert check_request(request) is None
    refused = check_request(with_params({"to": "x" * (length + 1)}))
    assert refused is not None
    assert refused.reason is Reason.TOO_LARGE


@pytest.mark.parametrize("person", ["", "Alice", "alice/..", "alice\n", "ａlice", "a" * 33])
def test_only_a_name_of_the_policy_can_stand_in_a_file(person: str) -> None:
    assert render_file(FIRST, PrincipalName("a" * 32), Decision.DENY)
    with pytest.raises(Malformed):
        render_file(FIRST, PrincipalName(person), Decision.DENY)


def test_a_plain_answer_is_never_signed() -> None:
    assert render_message(FIRST, ALICE, Decision.REVOKE)
    with pytest.raises(Malformed):
        render_message(FIRST, ALICE, Decision.ANSWER)


@pytest.mark.parametrize("value", [1.5, None, {"a": 1}, [["a"]], "\ud800"], ids=repr)
def test_a_value_that_toml_cannot_hold_is_never_rendered(value: Any) -> None:
    assert render_file(replace(FIRST, params={"a": "\x00"}), ALICE, Decision.APPROVE)
    with pytest.raises(Malformed):
        render_file(replace(FIRST, params={"a": value}), ALICE, Decision.APPROVE)


def test_the_short_code_is_eight_letters_of_the_files_digest() -> None:
    file = VECTORS["approvals"][0]["file"].encode()
    assert short_code(file) == "LFWJDX4L"
    assert short_code(file + b" ") != short_code(file)


def test_a_time_is_a_whole_second_of_a_calendar() -> None:
    at = read_time("2026-12-01T12:00:00Z")
    assert (at, show_time(at)) == (1_796_126_400_000, "2026-12-01T12:00:00Z")
    assert in_seconds(at + 999) == at
    assert show_time(read_time("9999-12-31T23:59:59Z")) == "9999-12-31T23:59:59Z"
    for wrong in (at + 1, -1000, read_time("9999-12-31T23:59:59Z") + 1000):
        with pytest.raises(Malformed):
            show_time(wrong)
