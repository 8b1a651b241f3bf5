"""The bridge's grammar: every request of the page becomes its command, every other line its exact error."""

import json
from typing import Any

import pytest

from gitops_bot.bridge.grammar import (
    MAX_LINE,
    PERMITTED,
    Auth,
    Change,
    Kind,
    Level,
    LogLine,
    Reply,
    Status,
    Tail,
    duplicate,
    encode,
    parse_command,
    parse_incoming,
    rejected,
)
from gitops_bot.core.errors import Malformed


def line(value: Any) -> bytes:
    return json.dumps(value).encode() + b"\n"


def test_the_operator_may_do_everything_but_rescope() -> None:
    """A new command needs a row here on purpose: who may send it."""
    assert {kind for kind, level in PERMITTED.items() if level is Level.OPERATOR} == set(Kind) - {Kind.RESCOPE}
    assert PERMITTED[Kind.RESCOPE] is Level.BROKER


@pytest.mark.parametrize("member", ["cmd", "command", "kind"])
def test_the_command_stands_in_any_of_three_members(member: str) -> None:
    assert parse_command(line({member: "status"})) == Status()


@pytest.mark.parametrize(
    ("message", "command"),
    [
        ("status", Status()),
        ("stop", Change(Kind.STOP, {}, None)),
        ({"auth": "t"}, Auth("t")),
        ({"cmd": "tail"}, Tail(0, False)),
        ({"cmd": "tail", "from_seq": 7, "role": "broker"}, Tail(7, True)),
        ({"cmd": "tail", "role": "guest"}, Tail(0, False)),
        ({"cmd": "rescope", "regime": "R", "id": " k "}, Change(Kind.RESCOPE, {"regime": "R"}, "k")),
        ({"cmd": "re-scope"}, Change(Kind.RESCOPE, {"regime": "rescoped"}, None)),
        ({"cmd": "deny"}, Change(Kind.DENY, {"reason": "rejected"}, None)),
        ({"cmd": "deny", "reason": "no", "trace_id": "T"}, Change(Kind.DENY, {"reason": "no", "trace_id": "T"}, None)),
        ({"cmd": "approve"}, Change(Kind.APPROVE, {}, None)),
        ({"cmd": "approve", "trace_id": "T", "id": None}, Change(Kind.APPROVE, {"trace_id": "T"}, None)),
        ({"cmd": "steer", "text": " left "}, Change(Kind.STEER, {"text": "left"}, None)),
        ({"cmd": "set-budget", "usd": 0}, Change(Kind.SET_BUDGET, {"usd": 0.0}, None)),
        ({"cmd": "set_budget", "usd": 2.5}, Change(Kind.SET_BUDGET, {"usd": 2.5}, None)),
        ({"cmd": "pause", "unknown": {"member": [1]}}, Change(Kind.PAUSE, {}, None)),
    ],
)
def test_each_request_of_the_page_becomes_its_command(message: Any, command: Any) -> None:
    assert parse_command(line(message)) == command


@pytest.mark.parametrize(
    ("raw", "error", "cmd"),
    [
        (line({"cmd": "x"}), 'unknown control command "x"', ""),
        (line("x"), 'unknown control command "x"', ""),
        (line({}), "command object needs cmd", ""),
        (line({"cmd": 7}), "command object needs cmd", ""),
        (line({"auth": 7}), "command object needs cmd", ""),
        (line([1]), "command must be a JSON object or string", ""),
        (line(1), "command must be a JSON object or string", ""),
        (b"status\n", "not JSON", ""),
        (b"\xff\n", "not JSON", ""),
        (b"[" * 60_000, "not JSON", ""),
        (b'{"cmd":"stop","cmd":"abort"}\n', "a member is there twice", ""),
        (b'{"cmd":"set-budget","usd":NaN}', "NaN is no JSON number", ""),
        (b'{"cmd":"set-budget","usd":1e999}', "a number beyond the range of a double", ""),
        (b'{"cmd":"set-budget","usd":' + b"9" * 30_000 + b"}", "a number with too many digits", ""),
        (line({"cmd": "set-budget"}), "usd must be a finite number from 0", "set-budget"),
        (line({"cmd": "set-budget", "usd": -1}), "usd must be a finite number from 0", "set-budget"),
        (line({"cmd": "set-budget", "usd": True}), "usd must be a finite number from 0", "set-budget"),
        (line({"cmd": "steer", "text": "  "}), "steer needs text", "steer"),
        (line({"cmd": "tail", "from_seq": -1}), "from_seq must be a whole number from 0", "tail"),
        (line({"cmd": "tail", "from_seq": True}), "from_seq must be a whole number from 0", "tail"),
        (line({"cmd": "stop", "id": " "}), "id must be a string of 1 to 256 bytes", "stop"),
        (line({"cmd": "stop", "id": "é" * 129}), "id must be a string of 1 to 256 bytes", "stop"),
        (line({"cmd": "stop", "id": 3}), "id must be a string of 1 to 256 bytes", "stop"),
        (line({"cmd": "rescope", "regime": "a\u0000b"}), "regime must be at most 1024 printable characters", "rescope"),
        (b'{"cmd":"deny","reason":"\\ud800"}', "reason must be a string of at most 16384 bytes", "deny"),
        (b" " * (MAX_LINE + 1), "line too long", ""),
    ],
)
def test_every_other_line_has_its_exact_error(raw: bytes, error: str, cmd: str) -> None:
    with pytest.raises(Malformed) as caught:
        parse_command(raw)
    assert (caught.value.message, caught.value.where) == (error, cmd)


def test_replies_have_the_page_s_members() -> None:
    assert duplicate("rescope", "k", None) == {"ok": True, "cmd": "rescope", "key": "k", "dup": True}
    assert duplicate("rescope", "k", "applied")["outcome"] == "applied"
    assert rejected("command object needs cmd") == {"ok": False, "error": "command object needs cmd"}
    assert rejected("e", cmd="approve", key="k") == {"ok": False, "cmd": "approve", "key": "k", "error": "e"}


def test_a_line_is_ascii_and_one_line_whatever_is_in_it() -> None:
    written = encode({"ok": True, "reason": "a\nb\u2028\ud800é"})
    assert written.count(b"\n") == 1
    assert written.isascii()


@pytest.mark.parametrize(
    ("message", "read"),
    [
        ({"ok": True}, Reply(True, None, False, None)),
        ({"ok": True, "cmd": "rescope", "key": "k", "dup": True, "new": 1}, Reply(True, "rescope", True, None)),
        ({"ok": False, "cmd": "x", "error": "e"}, Reply(False, "x", False, "e")),
        ({"v": 1, "kind": "note", "msg": "m", "seq": 3}, LogLine(3, {"v": 1, "kind": "note", "msg": "m"}, 46)),
    ],
)
def test_what_a_loop_sends_is_read(message: Any, read: Any) -> None:
    assert parse_incoming(json.dumps(message).encode()) == read


@pytest.mark.parametrize("raw", [b"[]", b"{}", b'{"ok":1}', b'{"seq":0}', b'{"seq":true}', b"", b"nonsense"])
def test_what_is_neither_reply_nor_session_line_is_malformed(raw: bytes) -> None:
    with pytest.raises(Malformed):
        parse_incoming(raw)
