"""Whatever an address sends, reading it ends, within its bounds, as an answer or as none."""

import zlib
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gitops_bot.verbs.grammar import MAX_REPLY
from gitops_bot.verbs.wire import MAX_WIRE, Answer, NoAnswer, read_answer
from tests.linear import assert_linear

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Sent:
    """Bytes that arrive in pieces, then end, or break off with an error."""

    def __init__(self, content: bytes, piece: int = 1 << 20, error: OSError | None = None) -> None:
        self.content, self.piece, self.error, self.taken = content, piece, error, 0

    def __call__(self, into: memoryview) -> int:
        part = self.content[self.taken : self.taken + min(self.piece, len(into))]
        if not part and self.error is not None:
            raise self.error
        into[: len(part)] = part
        self.taken += len(part)
        return len(part)


def endless(begin: bytes, again: bytes) -> tuple[Callable[[memoryview], int], list[int]]:
    """A sender that never ends; the list counts what was taken."""
    counted: list[int] = []

    def receive(into: memoryview) -> int:
        part = (begin if not counted else again * (len(into) // len(again) + 1))[: len(into)]
        into[: len(part)] = part
        counted.append(len(part))
        return len(part)

    return receive, counted


@pytest.mark.parametrize("piece", [1, 3, 1 << 20])
@pytest.mark.parametrize(
    ("sent", "body"),
    [
        (OK, b"ok"),
        (b"HTTP/1.0 200 OK\r\n\r\nok", b"ok"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n", b"ok"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK, b"ok"),
        (OK + b"more of another answer", b"ok"),
    ],
)
def test_an_answer_is_read_whole(sent: bytes, body: bytes, piece: int) -> None:
    answer = read_answer(Sent(sent, piece))
    assert isinstance(answer, Answer)
    assert (answer.body, answer.cut) == (body, False)


@pytest.mark.parametrize(
    "sent",
    [
        b"", b"HTTP/1.1 200", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nA: b\r\n", b"HTTP/1.1 400 No\r\nCont",
        b"\x00\xff", b"HTTP/1.1", b"HTTP/1.1 abc\r\n\r\n", b"HTTP/2 200\r\n\r\n", b"SSH-2.0-x\r\n",
        b"HTTP/1.1 99 x\r\n\r\n", b"HTTP/1.1 1000 x\r\n\r\n", b"ok", b"POST / HTTP/1.1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: y\r\n" % n for n in range(200)) + b"\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000 + b"\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\n\r\n" * 50 + OK,
    ],
)  # fmt: skip
def test_what_is_no_answer_is_said_to_be_none(sent: bytes) -> None:
    assert isinstance(read_answer(Sent(sent)), NoAnswer)


@pytest.mark.parametrize(
    "sent",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nok",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nok",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nok",
    ],
)
def test_a_status_stands_though_its_body_breaks_off(sent: bytes) -> None:
    """Whoever sent 200 has done it; what is missing is only text."""
    answer = read_answer(Sent(sent))
    assert isinstance(answer, Answer)
    assert (answer.status, answer.cut) == (200, True)


def test_a_body_that_stops_coming_is_kept_as_far_as_it_came() -> None:
    answer = read_answer(Sent(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\npai", error=TimeoutError()))
    assert answer == Answer(200, {"content-length": "9"}, b"pai", cut=True)


def test_headers_that_stop_coming_are_no_answer() -> None:
    assert read_answer(Sent(b"HTTP/1.1 200 OK\r\nContent-", error=TimeoutError())) == NoAnswer("no answer in time")


def test_a_body_at_the_cap_is_kept_and_a_longer_one_cut() -> None:
    for extra, cut in ((0, False), (1, True)):
        size = MAX_REPLY + extra
        answer = read_answer(Sent(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + b"a" * size))
        assert isinstance(answer, Answer)
        assert (len(answer.body), answer.cut) == (MAX_REPLY, cut)


@pytest.mark.parametrize(
    ("begin", "again"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n", b"a"),
        (b"HTTP/1.1 200 OK\r\n\r\n", b"a"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\na\r\n"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n40000000\r\n", b"a"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"X: y\r\n"),
        (b"HTTP/1.1 200 OK\r\n", b"X: y\r\n"),
        (b"HTTP/1.1 200 OK\r\nX: ", b"y"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (b"", b"HTTP/1.1 103 Early Hints\r\n\r\n"),
        (b"", b"\r\n"),
    ],
)
def test_an_endless_answer_is_left_within_its_bound(begin: bytes, again: bytes) -> None:
    receive, counted = endless(begin or again, again)
    answer = read_answer(receive)
    assert sum(counted) <= MAX_WIRE
    if isinstance(answer, Answer):
        assert answer.cut
        assert len(answer.body) <= MAX_REPLY


def test_a_compressed_body_is_left_compressed() -> None:
    bomb = zlib.compress(b"\x00" * 50_000_000)
    answer = read_answer(
        Sent(b"HTTP/1.1 200 OK\r\nContent-Encoding: deflate\r\nContent-Length: %d\r\n\r\n" % len(bomb) + bomb)
    )
    assert isinstance(answer, Answer)
    assert answer.body == bomb[:MAX_REPLY]


PARTS = st.sampled_from(
    [
        b"HTTP/1.1 ", b"HTTP/1.0 200 OK\r\n", b"200", b" OK", b"\r\n", b"\n", b"\r\n\r\n", b"Content-Length: ", b"5",
        b"-1", b"9" * 30, b"Transfer-Encoding: chunked\r\n", b"Content-Encoding: gzip\r\n", b"ffffffffffffffffffff\r\n",
        b"0\r\n", b"Connection: close\r\n", b": ", b"\x00", b"\xff", b"100 Continue\r\n\r\n", b"{}", b" folded\r\n",
    ]
)  # fmt: skip


@given(st.one_of(st.binary(max_size=300), st.lists(PARTS, max_size=25).map(b"".join)), st.integers(1, 64))
@example(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n" + b"a" * 100, 7)
@example(b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\nok", 64)
def test_any_bytes_are_an_answer_or_none(sent: bytes, piece: int) -> None:
    answer = read_answer(Sent(sent, piece))
    assert isinstance(answer, Answer | NoAnswer)
    if isinstance(answer, Answer):
        assert len(answer.body) <= MAX_REPLY


@given(st.integers(0, len(OK) - 1), st.binary(min_size=1, max_size=3))
def test_a_changed_answer_never_raises(at: int, put: bytes) -> None:
    assert isinstance(read_answer(Sent(OK[:at] + put + OK[at + 1 :])), Answer | NoAnswer)


@pytest.mark.parametrize("line", [b"X: y\r\n", b" folded\r\n", b"\r\n", b"1\r\na\r\n"])
def test_reading_is_linear(line: bytes) -> None:
    def build(size: int) -> Callable[[], object]:
        sent = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n" + line * (size // len(line))
        return lambda: read_answer(Sent(sent))

    assert_linear(build, MAX_REPLY)
