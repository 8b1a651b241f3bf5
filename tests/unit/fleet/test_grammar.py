"""What counts as a marker and what does not: each refusing row has an accepting twin."""

import hashlib

import pytest

from gitops_bot.core.asks import MAX_OPTIONS, MAX_TEXT
from gitops_bot.fleet.grammar import (
    CUT,
    MARKERS,
    MAX_ASKS,
    MAX_INFORMATIONAL,
    MAX_LINE,
    MAX_REPORT,
    MAX_SENDS,
    Asked,
    Ended,
    Informational,
    Notify,
    Outcome,
    Reader,
    Report,
    Send,
    body_hash,
)


def read(text: str | bytes, *, whole: bool = True) -> tuple[tuple[Informational, ...], Ended]:
    reader = Reader()
    landed = reader.feed(text if isinstance(text, bytes) else text.encode())
    ended = reader.end(whole=whole)
    return landed + ended.late, ended


def asks(text: str) -> tuple[Asked, ...]:
    return read(text)[1].asks


def informational(text: str | bytes) -> tuple[Informational, ...]:
    return read(text)[0]


def test_a_turn_with_every_marker() -> None:
    landed, ended = read(
        "I looked.\nREPORT: half done\nNOTIFY: look here\nSEND: @bob over to you\n"
        "ASK: Left or right?\nOPTIONS: left | right\nOUTCOME: BLOCKED\nThat is all.\n"
    )
    assert landed == (Report("half done"), Notify("look here"), Send("bob", "over to you"))
    assert ended.asks == (Asked("Left or right?", ("left", "right")),)
    assert (ended.outcome, ended.asked_outcome, dict(ended.dropped)) == (Outcome.BLOCKED, True, {})
    assert ended.report == "I looked.\nThat is all."


def test_informational_markers_come_as_soon_as_their_line_is_complete() -> None:
    reader = Reader()
    assert reader.feed(b"REPORT: on") == ()
    assert reader.feed(b"e") == ()
    assert reader.feed(b"\nREPORT: two") == (Report("one"),)
    assert reader.end().late == (Report("two"),)


@pytest.mark.parametrize(
    ("text", "outcome", "said"),
    [
        ("OUTCOME: WORK_DONE", Outcome.WORK_DONE, True),
        ("OUTCOME:NO_WORK", Outcome.NO_WORK, True),
        ("   OUTCOME:   RATE_LIMITED  ", Outcome.RATE_LIMITED, True),
        ("OUTCOME: WORK_DONE\nOUTCOME: RETRYABLE_ERROR\n", Outcome.RETRYABLE_ERROR, True),
        ("OUTCOME: BLOCKED\nOUTCOME: perhaps\n", Outcome.BLOCKED, True),
        ("", Outcome.NO_WORK, False),
        ("outcome: WORK_DONE", Outcome.NO_WORK, False),
        ("OUTCOME : WORK_DONE", Outcome.NO_WORK, False),
        ("OUTCOME: work_done", Outcome.NO_WORK, False),
        ("OUTCOME: WORK_DONE.", Outcome.NO_WORK, False),
        ("OUTCOME: WORK_DONE | NO_WORK", Outcome.NO_WORK, False),
        ("- OUTCOME: WORK_DONE", Outcome.NO_WORK, False),
        ("**OUTCOME: WORK_DONE**", Outcome.NO_WORK, False),
        ("| OUTCOME: WORK_DONE", Outcome.NO_WORK, False),
        ("```\nOUTCOME: WORK_DONE\n```", Outcome.NO_WORK, False),
    ],
)
def test_the_last_valid_outcome_wins_and_none_means_no_work(text: str, outcome: Outcome, said: bool) -> None:
    ended = read(text)[1]
    assert (ended.outcome, ended.asked_outcome) == (outcome, said)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ASK: Why?", [Asked("Why?")]),
        ("ASK: Why?\nOPTIONS: a | b", [Asked("Why?", ("a", "b"))]),
        ("ASK: Why?\r\nOPTIONS: a | b\r\n", [Asked("Why?", ("a", "b"))]),
        ("ASK: Why?\nOPTIONS: | a | b |", [Asked("Why?", ("a", "b"))]),
        ("ASK: Why?\n\nOPTIONS: a | b", [Asked("Why?")]),
        ("ASK: Why?\nWell.\nOPTIONS: a | b", [Asked("Why?")]),
        ("OPTIONS: a | b\nASK: Why?", [Asked("Why?")]),
        ("ASK: Why?\nOPTIONS: a", [Asked("Why?")]),
        ("ASK: Why?\nOPTIONS: a | a", [Asked("Why?")]),
        ("ASK: Why?\nOPTIONS: a | \u200b", [Asked("Why?")]),
        ("ASK: Why?\nOPTIONS: a\nOPTIONS: a | b", [Asked("Why?")]),
        ("ASK: Why?\nOPTIONS: a | b | c", [Asked("Why?")]),
        ("ASK: Why?\nOPTIONS: x | b | c", [Asked("Why?", ("x", "b", "c"))]),
        ("ASK: Why?\nOPTIONS: <a> | <b>", [Asked("Why?")]),
        ("ASK: Why?\n```\nOPTIONS: a | b\n```", [Asked("Why?")]),
        ("ASK: <question>\nOPTIONS: a | b", []),
        ("ASK:\nASK:   \nASK: \u3164\u200b", []),
        ("ask: Why?", []),
        ("ASK: One?\nASK: Two?\nOPTIONS: a | b", [Asked("One?"), Asked("Two?", ("a", "b"))]),
        ("ASK: One?\nASK: One?\n", [Asked("One?")]),
        ("ASK: One?\nASK: One?\nOPTIONS: a | b\n", [Asked("One?"), Asked("One?", ("a", "b"))]),
        (
            "ASK: Why?\nOPTIONS: " + " | ".join(map(str, range(MAX_OPTIONS))),
            [Asked("Why?", tuple(map(str, range(20))))],
        ),
        ("ASK: Why?\nOPTIONS: " + " | ".join(map(str, range(MAX_OPTIONS + 1))), [Asked("Why?")]),
        (f"ASK: Why?\nOPTIONS: a | {'b' * MAX_TEXT}", [Asked("Why?", ("a", "b" * MAX_TEXT))]),
        (f"ASK: Why?\nOPTIONS: a | {'b' * (MAX_TEXT + 1)}", [Asked("Why?")]),
    ],
)
def test_options_belong_to_the_ask_directly_above_and_are_two_or_more(text: str, expected: list[Asked]) -> None:
    assert list(asks(text)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SEND: @bob hello", [Send("bob", "hello")]),
        ("SEND: @bob   a  b ", [Send("bob", "a  b")]),
        ("SEND: @nobody-of-that-name hello", [Send("nobody-of-that-name", "hello")]),
        ("SEND: bob hello", []),
        ("SEND: @bob", []),
        ("SEND: @bob \u200b", []),
        ("SEND: @ bob hello", []),
        ("SEND: @<slug> <text>", []),
        ("SEND: @bob <text>", []),
        (f"SEND: @{'b' * 64} hello", [Send("b" * 64, "hello")]),
        (f"SEND: @{'b' * 65} hello", []),
    ],
)
def test_a_message_has_a_receiver_and_a_text(text: str, expected: list[Informational]) -> None:
    """Whether there is such an agent is not the grammar's to know."""
    assert list(informational(text)) == expected


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("```\nREPORT: x\n```\n", False),
        ("```\n```\nREPORT: x", True),
        ("~~~\nREPORT: x\n~~~\n", False),
        ("~~~\n```\nREPORT: x\n", False),
        ("```\nREPORT: x", False),
        ("````\n```\nREPORT: x", False),
        ("```\n````\nREPORT: x", True),
        ("```python\nREPORT: x", False),
        ("``` a`b\nREPORT: x", True),
        ("~~~ a`b\nREPORT: x", False),
        ("``\nREPORT: x", True),
        ("   ```\nREPORT: x", False),
        ("    ```\nREPORT: x", True),
        ("```\n    ```\nREPORT: x", False),
        ("```\n   ```  \t\nREPORT: x", True),
        ("```\n``` end\nREPORT: x", False),
        ("```\n~~~\nREPORT: x", False),
        ("```\r```\rREPORT: x", True),
        ("```\r\nREPORT: x\r\n```", False),
        ("text ```\nREPORT: x", True),
    ],
)
def test_lines_in_fences_do_not_count(text: str, counts: bool) -> None:
    """CommonMark §4.5, at the top level."""
    assert bool(informational(text)) is counts


def test_at_most_so_many_of_each_count_and_the_rest_is_counted() -> None:
    lines = [f"ASK: {n}?" for n in range(MAX_ASKS + 3)]
    lines += [f"{'REPORT' if n % 2 else 'NOTIFY'}: {n}" for n in range(MAX_INFORMATIONAL + 5)]
    lines += [f"SEND: @bob {n}" for n in range(MAX_SENDS + 7)]
    landed, ended = read("\n".join(lines))
    assert len(ended.asks) == MAX_ASKS
    assert sum(isinstance(marker, Send) for marker in landed) == MAX_SENDS
    assert len(landed) == MAX_SENDS + MAX_INFORMATIONAL
    assert dict(ended.dropped) == {"ask": 3, "notify": 3, "report": 2, "send": 7}
    assert ended.report == ""


def test_within_the_limits_nothing_is_dropped() -> None:
    text = "\n".join([f"ASK: {n}?" for n in range(MAX_ASKS)] + [f"REPORT: {n}" for n in range(MAX_INFORMATIONAL)])
    landed, ended = read(text)
    assert (len(ended.asks), len(landed), dict(ended.dropped)) == (MAX_ASKS, MAX_INFORMATIONAL, {})


def test_a_marker_said_twice_counts_once_and_takes_no_room() -> None:
    landed, ended = read("REPORT: x\n" * 200 + "REPORT: y\n" + "SEND: @bob x\nSEND: @carol x\nNOTIFY: x\n")
    assert landed == (Report("x"), Report("y"), Send("bob", "x"), Send("carol", "x"), Notify("x"))
    assert dict(ended.dropped) == {}


def test_the_options_of_a_dropped_ask_belong_to_no_other() -> None:
    lines = [f"ASK: {n}?" for n in range(MAX_ASKS)] + ["ASK: more?", "OPTIONS: a | b"]
    ended = read("\n".join(lines))[1]
    assert all(asked.options == () for asked in ended.asks)
    assert dict(ended.dropped) == {"ask": 1}


def test_a_line_counts_up_to_its_cap_and_not_beyond() -> None:
    fits = "REPORT: " + "x" * (MAX_LINE - 8)
    assert informational(fits) == (Report("x" * (MAX_TEXT - len(CUT)) + CUT),)
    assert informational(fits + "x") == ()
    assert informational(fits + "x\nREPORT: next") == (Report("next"),)
    assert asks("ASK: a?\n" + "OPTIONS: a | b".ljust(MAX_LINE + 1) + "\n") == (Asked("a?"),)
    assert asks("ASK: a?\n" + "OPTIONS: a | b".ljust(MAX_LINE) + "\n") == (Asked("a?", ("a", "b")),)
    assert informational("```" + "x" * MAX_LINE + "\nREPORT: x") == (Report("x"),)


def test_texts_are_cut_to_what_an_ask_and_a_message_may_hold() -> None:
    assert asks("ASK: " + "x" * MAX_TEXT) == (Asked("x" * MAX_TEXT),)
    assert asks("ASK: " + "x" * (MAX_TEXT + 1)) == (Asked("x" * (MAX_TEXT - len(CUT)) + CUT),)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"REPORT: a\x00b", "a\ufffdb"),
        (b"REPORT: a\xffb", "a\ufffdb"),
        (b"REPORT: a\xed\xa0\x80b", "a\ufffd\ufffd\ufffdb"),
        (b"REPORT: a\xf0\x9f\x98", "a\ufffd"),
        (b"REPORT: \xf0\x9f\x98\x80", "\U0001f600"),
    ],
)
def test_what_cannot_be_stored_is_replaced(text: bytes, value: str) -> None:
    assert informational(text) == (Report(value),)


def test_the_report_keeps_its_end() -> None:
    ended = read("first\n" + "x" * 100_000 + "\nlast\n")[1]
    assert len(ended.report.encode()) == MAX_REPORT
    assert ended.report.endswith("xxx\nlast")
    assert read("a\r\nb\rc\n\n")[1].report == "a\nb\nc"
    assert len(read("\u20ac" * 50_000)[1].report.encode()) <= MAX_REPORT
    assert set(read("\u20ac" * 50_000)[1].report) == {"\u20ac"}
    assert len(read(b"\xff" * 50_000)[1].report.encode()) <= MAX_REPORT


def test_a_torn_last_line_is_no_marker() -> None:
    """A body that died in the middle of a line did not say that line."""
    text = "REPORT: whole\nASK: May I del"
    assert read(text)[1].asks == (Asked("May I del"),)
    landed, torn = read(text, whole=False)
    assert (landed, torn.asks) == ((Report("whole"),), ())
    assert torn.report == "ASK: May I del"
    assert read("ASK: May I delete it?\nOPTI", whole=False)[1].asks == (Asked("May I delete it?"),)


def test_every_example_line_of_the_table_does_nothing() -> None:
    for form in MARKERS:
        landed, ended = read(f"ASK: a?\n{form.line}\n")
        assert (landed, ended.asked_outcome) == ((), False), form.key
        assert ended.asks == (Asked("a?"),)


def test_every_row_of_the_table_is_read() -> None:
    values = {
        "OUTCOME": "WORK_DONE",
        "ASK": "Why?",
        "OPTIONS": "x | y",
        "REPORT": "x",
        "NOTIFY": "x",
        "SEND": "@bob x",
    }
    assert [form.key for form in MARKERS] == list(values)
    landed, ended = read("\n".join(f"{key}: {value}" for key, value in values.items()))
    assert landed == (Report("x"), Notify("x"), Send("bob", "x"))
    assert (ended.asks, ended.outcome, ended.report) == ((Asked("Why?", ("x", "y")),), Outcome.WORK_DONE, "")


def test_bodies_that_differ_hash_apart_and_equal_ones_alike() -> None:
    """What lands a marker once a run (I9) must not take one for another."""
    markers = (
        Report("x"),
        Report("y"),
        Notify("x"),
        Send("x", "x"),
        Send("x", "y"),
        Asked("x"),
        Asked("x", ("a", "b")),
        Asked("x", ("a|b", "c")),
        Asked("x", ("a", "b|c")),
    )
    assert len({body_hash(marker) for marker in markers}) == len(markers)
    assert body_hash(Report("x")) == hashlib.sha256(b'{"body":{"text":"x"},"kind":"report"}').hexdigest()
    assert body_hash(Asked("q", ("a", "b"))) == body_hash(Asked("q", ("a", "b")))
