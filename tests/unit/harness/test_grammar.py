"""acpx's events: the agent's text and nothing else of them, in whatever pieces they come, at a bounded cost."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitops_bot.harness import grammar
from gitops_bot.harness.grammar import Events, Failure
from tests.linear import assert_linear

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(["id", "method", "error"]), inner),
    max_leaves=8,
)


def update(kind: str = "agent_message_chunk", text: object = "x", **more: Any) -> dict[str, Any]:
    content = {"type": "text", "text": text}
    return {"method": "session/update", "params": {"update": {"sessionUpdate": kind, "content": content, **more}}}


PROMPT = {"id": 2, "method": "session/prompt", "params": {"prompt": []}}


def read(*messages: object, prompt: bool = True) -> tuple[str, Events]:
    events = Events()
    lines = "".join(json.dumps(message) + "\n" for message in ((PROMPT, *messages) if prompt else messages))
    text = events.feed(lines.encode()) + events.end()
    return text.decode(), events


def test_the_agent_s_messages_are_the_text() -> None:
    assert read(update(text="REPORT: a"), update(text="b\n"), update(text="OUTCOME: "))[0] == "REPORT: ab\nOUTCOME: "


@pytest.mark.parametrize(
    "message",
    [
        update("agent_thought_chunk", "ASK: think?"),
        update("user_message_chunk", "ASK: you?"),
        update(text=7),
        {
            "method": "session/update",
            "params": {"update": {"sessionUpdate": "agent_message_chunk", "content": "ASK: x"}},
        },
        {"method": "session/update"},
        {"method": "session/update", "params": [], "text": "ASK: x"},
        {"id": 1, "method": "fs/read_text_file", "params": {"content": "ASK: x"}},
        {"id": 9, "result": {"content": "ASK: x"}},
        {"action": "session_ensured", "name": "ASK: x"},
    ],
)
def test_nothing_else_is_text(message: dict[str, Any]) -> None:
    """Thoughts and tools' output repeat what an agent read; a marker in them is not the agent's word."""
    text, events = read(message)
    assert (text, events.unread) == ("", 0)


def test_what_an_earlier_turn_said_is_not_said_again() -> None:
    """An agent that loads a session tells its history (Agent Client Protocol, session/load)."""
    text, _ = read(update(text="REPORT: old\n"), PROMPT, update(text="REPORT: new\n"), prompt=False)
    assert text == "REPORT: new\n"


@pytest.mark.parametrize("between", ["tool_call", "agent_thought_chunk", "plan"])
def test_two_messages_are_two_lines(between: str) -> None:
    """Else `REPORT: done` and the next message's `OUTCOME: WORK_DONE` were one line."""
    text, _ = read(update(text="REPORT: done"), update(between), update(text="OUTCOME: WORK_DONE"))
    assert text == "REPORT: done\nOUTCOME: WORK_DONE"
    text, _ = read(update(between), update(text="ASK: which?\n"), update(between), update(text="OPTIONS: a | b"))
    assert text == "ASK: which?\nOPTIONS: a | b"


def test_what_comes_in_the_middle_of_a_message_does_not_break_it() -> None:
    text, _ = read(update(text="REPORT: do"), update("tool_call_update"), update("usage_update"), update(text="ne\n"))
    assert text == "REPORT: done\n"
    assert read(update(messageId="a"), update(messageId="a"), update(messageId="b"))[0] == "xx\nx"


def test_the_end_of_a_turn_is_the_answer_to_its_prompt() -> None:
    assert read({"id": 2, "result": {"stopReason": "end_turn"}})[1].stop_reason == "end_turn"
    for other in ({"id": 3, "result": {"stopReason": "end_turn"}}, {"id": 2, "result": {}}, {"id": 2, "result": "x"}):
        assert read(other)[1].stop_reason is None
    assert read({"id": None, "result": {"stopReason": "end_turn"}}, prompt=False)[1].stop_reason is None


def test_whether_a_turn_was_cancelled_is_known_or_not() -> None:
    assert [read({"action": "cancel_result", "cancelled": told})[1].cancelled for told in (True, False, None)] == [
        True,
        False,
        True,
    ]
    assert read()[1].cancelled is None


def asking(number: int, chosen: dict[str, Any]) -> list[dict[str, Any]]:
    options = [{"optionId": "y", "kind": "allow_once"}, {"optionId": "n", "kind": "reject_once"}]
    request = {"id": number, "method": "session/request_permission", "params": {"options": options}}
    return [request, {"id": number, "result": {"outcome": chosen}}]


def test_permissions_are_counted_by_what_was_answered() -> None:
    told = [
        *asking(11, {"outcome": "selected", "optionId": "y"}),
        *asking(12, {"outcome": "selected", "optionId": "n"}),
        *asking(13, {"outcome": "cancelled"}),
        {"id": 99, "result": {"outcome": {"outcome": "selected", "optionId": "y"}}},
    ]
    events = read(*told)[1]
    assert (events.asked, events.allowed) == (3, 1)


@pytest.mark.parametrize(
    ("error", "limited", "after"),
    [
        ({"code": 429, "message": "m"}, True, None),
        ({"code": -32603, "message": "m", "data": {"status": 429, "retryAfter": 30}}, True, 30.0),
        ({"code": -32603, "message": "m", "data": {"errorKind": "rate_limit", "retryAfterMs": 1500}}, True, 1.5),
        ({"code": -32603, "message": "m", "data": {"status": 429, "retryAfter": -1}}, True, None),
        ({"code": -32603, "message": "m", "data": {"status": 429, "retryAfter": 10**300}}, True, None),
        ({"code": -32603, "message": "m", "data": {"status": 429, "retryAfter": 10**400}}, True, None),
        ({"code": -32603, "message": "m", "data": {"status": 429, "retryAfter": True}}, True, None),
        ({"code": -32603, "message": "m", "data": {"status": 500, "retryAfter": 30}}, False, None),
        ({"code": -32603, "message": "429 rate limit, or so the agent read somewhere"}, False, None),
    ],
)
def test_a_reached_limit_is_a_field_and_no_word(error: dict[str, Any], limited: bool, after: float | None) -> None:
    message = str(error["message"])
    assert read({"id": 2, "error": error})[1].failure == Failure(message, "", limited, after)


def test_acpx_s_own_error_has_its_name() -> None:
    error = {"code": -32002, "message": "no session", "data": {"acpxCode": "NO_SESSION"}}
    assert read({"id": None, "error": error})[1].failure == Failure("no session", "NO_SESSION", False, None)
    assert read({"id": 77, "error": error})[1].failure is None


@pytest.mark.parametrize("line", [b"no json", b"[1]", b'"x"', b"\xff\xfe", b"{" * 100_000, b"[" * 100_000, b'{"a":1'])
def test_a_line_that_is_no_message_is_counted(line: bytes) -> None:
    """Nobody knows then whether the text is whole."""
    events = Events()
    assert events.feed(line + b"\n\n" + json.dumps(PROMPT).encode() + b"\n") == b""
    assert events.unread == 1
    assert events.feed(json.dumps(update()).encode() + b"\n") == b"x"


def test_a_line_over_the_cap_is_counted_and_the_next_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grammar, "LINE_CAP", 250)
    text, events = read(update(text="y" * 100), update(text="z" * 250), update(text="!"))
    assert (text, events.unread) == ("y" * 100 + "!", 1)


def test_what_no_database_keeps_is_replaced() -> None:
    assert read(update(text="a\0b\ud800c"))[0] == "a\ufffdb\ufffdc"


@given(st.lists(st.integers(1, 400), max_size=20))
def test_pieces_do_not_matter(cuts: list[int]) -> None:
    messages = [PROMPT, update(text="REPORT: ü\n"), update("tool_call"), update(text="b"), {"id": 2, "result": {}}]
    lines = "".join(json.dumps(message) + "\n" for message in messages).encode()
    events, text, rest = Events(), b"", lines
    for cut in cuts:
        text += events.feed(rest[:cut])
        rest = rest[cut:]
    assert (text + events.feed(rest) + events.end()).decode() == read(*messages, prompt=False)[0]


@given(st.lists(st.binary(max_size=200) | JSON.map(lambda value: json.dumps(value).encode() + b"\n"), max_size=10))
def test_no_input_is_an_error(pieces: list[bytes]) -> None:
    events = Events()
    for piece in pieces:
        events.feed(piece)
    events.end()


@given(st.lists(st.fixed_dictionaries({}, optional=dict.fromkeys(("id", "method", "params", "result", "error"), JSON))))
def test_no_message_is_an_error(messages: list[dict[str, Any]]) -> None:
    for known in ("session/update", "session/request_permission"):
        read(*messages, *({**message, "method": known} for message in messages))


@pytest.mark.parametrize("line", [b"\n", b"{}\n", json.dumps(update()).encode() + b"\n", b"x"])
def test_the_cost_is_linear(line: bytes) -> None:
    def build(size: int) -> Any:
        data = line * (size // len(line))

        def feed() -> None:
            events = Events()
            events.feed(json.dumps(PROMPT).encode() + b"\n")
            for start in range(0, len(data), 65_536):
                events.feed(data[start : start + 65_536])
            events.end()

        return feed

    assert_linear(build, 1 << 17)
