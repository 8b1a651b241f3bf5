"""What a verifying process is told and says: read as it was written, and anything else refused by its one error."""

import json
from collections.abc import Callable
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitops_bot.core.errors import Malformed
from gitops_bot.core.principals import PrincipalName
from gitops_bot.policy.model import KeyKind
from gitops_bot.signed.evidence import ObjectId, SignatureKind, Signed
from gitops_bot.signed.proving import grammar
from gitops_bot.signed.proving.grammar import Failed, Order, Ring, TakenBack, Task
from tests.linear import assert_linear

ID: Final = ObjectId("a" * 40)
SIGNED: Final = Signed(SignatureKind.SSH, "ssh-ed25519 AAAA", "SHA256:abc", 1_700_000_000_000, KeyKind.VERIFIED, 7)
ORDER: Final = Order(
    Ring(
        (b"\x98one", b"\x98two"),
        (TakenBack("ABCD", True, 5), TakenBack("EF", False, 0)),
        (("ssh-ed25519 AAAA", 0, 4_000_000_000_000),),
        ("ssh-ed25519 BBBB",),
    ),
    "/folder",
    "file:///shared",
    "sha1",
    300_000,
)
FIELDS: Final = ["ssh", "ssh-ed25519 AAAA", "SHA256:abc", 1_700_000_000_000, "verified", 7]
JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)


def body(framed: bytes) -> bytes:
    """Take the header of a frame off, which must be right."""
    size = grammar.frame_size(framed[: grammar.HEADER], grammar.MAX_FRAME)
    assert len(framed) == grammar.HEADER + size
    return framed[grammar.HEADER :]


def test_what_is_written_is_what_is_read() -> None:
    task = Task(PrincipalName("alice"), ((ID, 5), (ObjectId("b" * 64), 6)))
    answers = (SIGNED, None, Signed(SignatureKind.OPENPGP, "AB" * 20, "CD" * 20, 0, KeyKind.ANY))
    assert grammar.read_order(body(grammar.write_order(ORDER))) == ORDER
    assert grammar.read_task(body(grammar.write_task(4, task))) == (4, task)
    assert grammar.read_answers(body(grammar.write_answers(4, answers)), 4, 3) == answers
    assert grammar.read_answers(body(grammar.write_failed("git is gone")), 4, 3) == Failed("git is gone")
    assert json.dumps(FIELDS, separators=(",", ":")).encode() in grammar.write_answers(4, [SIGNED])


@pytest.mark.parametrize(
    "said",
    [
        [1, []],
        [1, [None, None]],
        [1, [True]],
        [1, [1]],
        [1, [{}]],
        [1, ["yes"]],
        [1, [FIELDS[:-1]]],
        [1, [[*FIELDS, None]]],
        [1, [["gpg", *FIELDS[1:]]]],
        [1, [[*FIELDS[:4], "certain", 7]]],
        [1, [[*FIELDS[:3], 1.5, *FIELDS[4:]]]],
        [1, [[*FIELDS[:3], True, *FIELDS[4:]]]],
        [1, [[*FIELDS[:3], 2**60, *FIELDS[4:]]]],
        [1, [[*FIELDS[:5], "7"]]],
        [1, [[FIELDS[0], None, *FIELDS[2:]]]],
        [1, [[FIELDS[0], "x" * 9_000, *FIELDS[2:]]]],
        {"failed": "why", "signed": FIELDS},
        {"failed": None},
        {"failed": "x" * 501},
        {},
        [2, [FIELDS]],
        [[FIELDS], 1],
        [FIELDS],
        [1, [FIELDS], 1],
        None,
        "yes",
    ],
)
def test_an_answer_of_another_form_is_none(said: Any) -> None:
    """Nothing is guessed from it; the twin is the one form."""
    assert grammar.read_answers(json.dumps([1, [FIELDS]]).encode(), 1, 1) == (SIGNED,)
    with pytest.raises(Malformed):
        grammar.read_answers(json.dumps(said).encode(), 1, 1)


@pytest.mark.parametrize("raw", [b"", b"[", b"\xff", b"[" * 100_000, b"[" + b"9" * 5_000 + b"]"])
def test_bytes_of_another_form_are_no_answer(raw: bytes) -> None:
    with pytest.raises(Malformed):
        grammar.read_answers(raw, 1, 1)


def test_a_task_names_a_person_full_ids_and_no_more_than_may_be() -> None:
    one = [ID, 5]
    assert grammar.read_task(json.dumps([1, "alice", [one] * grammar.MAX_TASK]).encode())[1].commits[0] == (ID, 5)
    for wrong in (["alice", [one] * (grammar.MAX_TASK + 1)], ["../x", [one]], ["alice", [["a" * 39, 5]]], ["alice", 5]):
        with pytest.raises(Malformed):
            grammar.read_task(json.dumps([1, *wrong]).encode())


def test_a_frame_has_a_header_and_its_most() -> None:
    assert grammar.frame_size((10).to_bytes(4, "big"), 10) == 10
    for header in ((11).to_bytes(4, "big"), b"\0\0", b""):
        with pytest.raises(Malformed):
            grammar.frame_size(header, 10)


READERS: Final[list[Callable[[bytes], object]]] = [
    grammar.read_order,
    grammar.read_task,
    lambda raw: grammar.read_answers(raw, 1, 1),
]


@given(st.binary(max_size=200) | JSON.map(lambda said: json.dumps(said).encode()))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    """Nothing but `Malformed` leaves the readers."""
    for read in READERS:
        try:
            read(raw)
        except Malformed:
            continue


@given(st.lists(JSON, min_size=6, max_size=6))
def test_any_fields_are_a_signature_of_the_types_or_refused(fields: list[object]) -> None:
    try:
        said = grammar.read_answers(json.dumps([1, [fields]]).encode(), 1, 1)
    except Malformed:
        return
    assert isinstance(said, tuple) and isinstance(said[0], Signed)


def test_answers_are_read_in_linear_time() -> None:
    def build(size: int) -> Callable[[], object]:
        raw = json.dumps([1, [FIELDS] * (size // 100)]).encode()
        return lambda: grammar.read_answers(raw, 1, size // 100)

    assert_linear(build, 50_000)
