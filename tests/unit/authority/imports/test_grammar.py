"""A file of approvals is read strictly; nothing but its typed error leaves the reader, and nothing is guessed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitops_bot.authority.imports.grammar import MAX_FILE, FileState, parse
from gitops_bot.core.errors import Malformed

OPEN = b"---\nquestion: Ship it?\noptions: [yes, no]\nstate: open\n---\nAll tests pass.\n"


def test_an_open_file_is_a_question_with_its_options() -> None:
    found = parse(OPEN)
    assert (found.question, found.options, found.state) == ("Ship it?", ("yes", "no"), FileState.OPEN)
    assert (found.body, found.ignored) == ("All tests pass.", ())


@pytest.mark.parametrize(
    "head",
    [
        "question: Ship it?\noptions:\n  - yes\n  - no\nstate: pending",
        "Question: 'Ship it?'\nOptions: [\"yes\", 'no']\nStatus: Open",
        "# a remark\ntitle: Ship it?   # said alice\n\noptions:\n- yes\n- no\nstate: open",
    ],
)
def test_it_is_written_in_several_ways(head: str) -> None:
    found = parse(f"---\n{head}\n---\n".encode())
    assert (found.question, found.options, found.state) == ("Ship it?", ("yes", "no"), FileState.OPEN)


def test_line_ends_and_a_byte_order_mark_change_nothing() -> None:
    assert parse(b"\xef\xbb\xbf" + OPEN.replace(b"\n", b"\r\n")).question == "Ship it?"


def test_what_an_ended_file_claims_stays_a_claim() -> None:
    found = parse(b"---\nquestion: q\nstate: approved\nanswer: yes\nanswered_by: alice\nmood: good\n---\n")
    assert (found.state, found.said, found.answer, found.by) == (FileState.ENDED, "approved", "yes", "alice")
    assert found.ignored == ("mood",)


@pytest.mark.parametrize(
    ("raw", "blamed"),
    [
        (b"# a note\n", "no front matter"),
        (b"---\nquestion: q\n", "never closed"),
        (b"---\nstate: open\n---\n", "question"),
        (b"---\nquestion: q\n---\n", "state"),
        (b"---\nquestion: q\nstate: perhaps\n---\n", "not understood"),
        (b"---\nquestion: q\nstate: open\noptions: yes\n---\n", "should be a list"),
        (b"---\nquestion: q\nstate: open\noptions: [yes]\n---\n", "two to"),
        (b"---\nquestion: q\nstate: open\noptions: [yes, yes]\n---\n", "differ"),
        (b"---\nquestion: [a, b]\nstate: open\n---\n", "one text"),
        (b"---\nquestion: &a q\nstate: open\n---\n", "more YAML"),
        (b"---\nquestion: *a\nstate: open\n---\n", "more YAML"),
        (b"---\nquestion: !!python/object q\nstate: open\n---\n", "more YAML"),
        (b"---\nquestion: |\n  text\nstate: open\n---\n", "more YAML"),
        (b"---\nquestion: 'q\nstate: open\n---\n", "more YAML"),
        (b"---\nquestion: q\nquestion: r\nstate: open\n---\n", "twice"),
        (b"---\nquestion: q\n- item\nstate: open\n---\n", "a value and a list"),
        (b"---\n{question: q}\n---\n", "line 2"),
        (b"---\nquestion: \xff\nstate: open\n---\n", "UTF-8"),
        (b"---\nquestion: a\x00b\nstate: open\n---\n", "zero"),
        (b"---\nquestion: \xe3\x85\xa4\nstate: open\n---\n", "question"),
        (OPEN + b"x" * MAX_FILE, "larger"),
    ],
)
def test_what_is_not_understood_is_refused_with_its_reason(raw: bytes, blamed: str) -> None:
    with pytest.raises(Malformed, match=blamed):
        parse(raw)


def test_a_file_of_the_largest_size_is_read() -> None:
    assert len(parse(OPEN + b"x" * (MAX_FILE - len(OPEN))).body) > MAX_FILE - 200


@given(st.binary(max_size=400))
def test_nothing_but_its_typed_error_leaves_it(raw: bytes) -> None:
    try:
        parse(raw)
    except Malformed:
        return


LINES = st.sampled_from(["question: q", "state: open", "options: [a, b]", "- x", "options:", "'", "[", "a: [x, 'y", ""])


@given(st.lists(LINES, max_size=12))
def test_nothing_but_its_typed_error_leaves_front_matter(lines: list[str]) -> None:
    try:
        found = parse("\n".join(["---", *lines, "---"]).encode())
    except Malformed:
        return
    assert found.question == "q"
    assert len(set(found.options)) == len(found.options) != 1
