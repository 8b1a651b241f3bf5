"""What a receiver answered decides by its status alone; its text is cut, escaped and shown."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gitops_bot.verbs import grammar
from gitops_bot.verbs.grammar import MAX_REASON, MAX_REPLY, MAX_TEXT, Said
from tests.linear import assert_linear


@pytest.mark.parametrize(
    ("returncode", "said"),
    [
        (0, Said.DONE),
        (1, Said.REFUSED),
        (2, Said.REFUSED),
        (74, Said.REFUSED),
        (75, Said.LATER),
        (76, Said.UNCLEAR),
        (128, Said.REFUSED),
        (129, Said.UNCLEAR),  # a shell's word for a signal
        (137, Said.UNCLEAR),
        (192, Said.UNCLEAR),
        (193, Said.REFUSED),
        (255, Said.REFUSED),
        (-9, Said.UNCLEAR),
        (-15, Said.UNCLEAR),
    ],
)
def test_an_exit_status_says_what_became_of_the_action(returncode: int, said: Said) -> None:
    assert grammar.read_exit(returncode) is said


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (101, Said.UNCLEAR),
        (200, Said.DONE),
        (201, Said.DONE),
        (202, Said.DONE),
        (299, Said.DONE),
        (300, Said.UNCLEAR),
        (302, Said.UNCLEAR),  # after a POST a redirection may follow a success
        (308, Said.UNCLEAR),
        (400, Said.REFUSED),
        (403, Said.REFUSED),
        (408, Said.UNCLEAR),
        (409, Said.UNCLEAR),
        (422, Said.REFUSED),
        (425, Said.BUSY),
        (429, Said.BUSY),
        (499, Said.REFUSED),
        (500, Said.UNCLEAR),
        (503, Said.UNCLEAR),
        (600, Said.UNCLEAR),
        (999, Said.UNCLEAR),
    ],
)
def test_a_status_says_what_became_of_the_action(status: int, said: Said) -> None:
    assert grammar.read_status(status, dup=False) is said


def test_a_conflict_that_says_dup_was_done_earlier() -> None:
    assert grammar.read_status(409, dup=True) is Said.DONE


@pytest.mark.parametrize("status", [100, 302, 400, 403, 422, 429, 500, 503])
def test_dup_makes_no_other_status_a_success(status: int) -> None:
    assert grammar.read_status(status, dup=True) is grammar.read_status(status, dup=False)


@pytest.mark.parametrize("output", [b"dup", b"dup\n", b"dup\r\nmore", b"dup\n\xff"])
def test_the_first_line_dup_is_heard(output: bytes) -> None:
    assert grammar.dup_of_output(output)


@pytest.mark.parametrize("output", [b"", b"\ndup", b"dupe", b" dup", b"dup ", b"paid\ndup\n", b"DUP"])
def test_dup_elsewhere_is_text(output: bytes) -> None:
    """A later line may be what a bank echoed."""
    assert not grammar.dup_of_output(output)


@pytest.mark.parametrize("body", [b'{"dup":true}', b' {"dup": true, "id": 1.5}\n'])
def test_the_member_dup_is_heard(body: bytes) -> None:
    assert grammar.dup_of_reply(body)


@pytest.mark.parametrize(
    "body",
    [
        b"", b"dup", b'{"dup":1}', b'{"dup":"true"}', b'{"dup":false}', b'[{"dup":true}]', b'{"a":{"dup":true}}',
        b'{"dup":true', b'{"dup":false,"dup":true}', b'{"dup":true}\xff', b"[" * 100_000,
        b'{"dup":true} ' + b" " * MAX_REPLY,
    ],
)  # fmt: skip
def test_nothing_else_is_dup(body: bytes) -> None:
    assert not grammar.dup_of_reply(body)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("0", 0.0), ("7", 7.0), ("999999999", 3600.0), (None, None), ("", None), ("-1", None), ("1e3", None), ("٣", None),
     ("Wed, 21 Oct 2026 07:28:00 GMT", None), ("9" * 5000, None)],
)  # fmt: skip
def test_a_wait_is_whole_seconds_and_bounded(value: str | None, seconds: float | None) -> None:
    assert grammar.read_retry_after(value) == seconds


def test_lines_and_letters_of_a_reply_are_shown_as_they_are() -> None:
    assert grammar.shown("paid 1,250.00 EUR\nid: ü-7\n".encode()) == "paid 1,250.00 EUR\nid: ü-7"


@pytest.mark.parametrize("hostile", ["\x1b[2J", "\u202e", "\u200b", "\x00", "\r", "\x85", "\u2028", "\U000e0041"])
def test_what_does_not_print_is_escaped(hostile: str) -> None:
    assert hostile not in grammar.shown(f"a{hostile}b".encode())
    assert hostile not in grammar.last_line(f"a{hostile}b".encode())
    assert hostile not in grammar.first_line(f"a{hostile}b".encode())


def test_what_is_cut_says_so() -> None:
    assert grammar.shown(b"a" * MAX_TEXT) == "a" * MAX_TEXT
    assert grammar.shown(b"a" * (MAX_TEXT + 1)) == "a" * MAX_TEXT + " (cut)"
    assert grammar.shown(b"ok", cut=True) == "ok (cut)"


def test_a_reason_is_the_last_line_of_the_errors_and_the_first_of_a_reply() -> None:
    assert grammar.last_line(b"Traceback\n  x\nNoFunds: 3\n\n") == "NoFunds: 3"
    assert grammar.first_line(b"\n no funds \nmore") == "no funds"
    assert grammar.last_line(b"\n \n") == grammar.first_line(b" \n") == ""


@given(st.binary(max_size=9000))
@example(b"\xff" * 9000)
@example(b"\x1b" * 9000)
def test_any_bytes_give_short_printable_text(raw: bytes) -> None:
    """I20: whatever arrives costs one short text."""
    for text, most in (
        (grammar.shown(raw), MAX_TEXT * 10 + 6),
        (grammar.last_line(raw), MAX_REASON * 10),
        (grammar.first_line(raw), MAX_REASON * 10),
    ):
        assert len(text) <= most
        assert all(character.isprintable() or character == "\n" for character in text)
        text.encode("utf-8")
    assert grammar.dup_of_reply(raw) in (True, False)
    assert grammar.dup_of_output(raw) in (True, False)


@given(st.integers(-(2**31), 2**31))
def test_any_status_says_something(number: int) -> None:
    assert grammar.read_exit(number) in Said
    assert grammar.read_status(number, dup=False) in Said


@pytest.mark.parametrize("piece", [b"\n", b"a", b"\xff", b'{"a":', b"\x1b"])
def test_reading_is_linear_in_the_reply(piece: bytes) -> None:
    def build(size: int) -> object:
        raw = piece * (size // len(piece))
        return lambda: (grammar.shown(raw), grammar.last_line(raw), grammar.first_line(raw), grammar.dup_of_reply(raw))

    assert_linear(build, MAX_REPLY)  # type: ignore[arg-type] # what it gives is not looked at
